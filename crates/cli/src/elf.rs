//! Just enough of ELF to see which shared libraries a program or library asks for, without running it.
//!
//! Reads 64-bit little-endian files, the only ones Pario runs on. It goes by the program headers, as the
//! loader does, so stripped files are fine. Every offset and count comes from the file and is not trusted:
//! reads are bounded, and a damaged file is an error, never a panic or an endless loop.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// Something whose bytes can be read at any offset.
pub trait ReadAt {
    /// Fills `buf` from `offset` on, or fails.
    fn read_at_exactly(&self, buf: &mut [u8], offset: u64) -> io::Result<()>;
    /// Reads up to `buf.len()` bytes; fewer only at the end.
    fn read_at_most(&self, buf: &mut [u8], offset: u64) -> io::Result<usize>;
}

impl ReadAt for File {
    fn read_at_exactly(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_exact_at(buf, offset)
    }

    fn read_at_most(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
        let mut done = 0;
        while done < buf.len() {
            match self.read_at(&mut buf[done..], offset.saturating_add(done as u64))? {
                0 => break,
                n => done += n,
            }
        }
        Ok(done)
    }
}

/// What an ELF file says about libraries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// Whether it names a program interpreter, which every dynamically linked program does.
    pub has_interpreter: bool,
    /// The libraries it needs, in order.
    pub needed: Vec<String>,
    /// Where to look for them and for the needs of its needs (old style), with `$ORIGIN` as written.
    pub rpath: Vec<String>,
    /// Where to look for them (new style).
    pub runpath: Vec<String>,
    /// File offset and size of its dynamic strings, among them the names of its symbols.
    pub strings: Option<(u64, u64)>,
}

/// Why a file could not be read as ELF.
#[derive(Debug)]
pub enum Error {
    /// It is not ELF.
    NotElf,
    /// It is for 32-bit or big-endian machines.
    Foreign,
    /// This part of it makes no sense.
    Damaged(&'static str),
    /// Reading it failed.
    Io(io::Error),
}

const PT_LOAD: u32 = 1;
const PT_DYNAMIC: u32 = 2;
const PT_INTERP: u32 = 3;
const PHDR: usize = 56;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;

/// Bounds on what is read; real files stay far below.
const MOST_DYNAMIC: u64 = 1 << 20;
const LONGEST_STRING: u64 = 1 << 16;
const MOST_STRINGS: u64 = 256 << 20;

struct Segment {
    kind: u32,
    offset: u64,
    address: u64,
    size: u64,
}

/// Reads what `file` says about libraries.
pub fn read(file: &impl ReadAt) -> Result<Elf, Error> {
    let segments = segments(file)?;
    let mut elf = Elf { has_interpreter: segments.iter().any(|s| s.kind == PT_INTERP), ..Elf::default() };
    let Some(dynamic) = segments.iter().find(|s| s.kind == PT_DYNAMIC) else { return Ok(elf) };
    let entries = entries(file, dynamic)?;
    let value = |tag| entries.iter().find(|&&(t, _)| t == tag).map(|&(_, v)| v);
    let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else { return Ok(elf) };
    let offset = file_offset(&segments, address).ok_or(Error::Damaged("address of the dynamic strings"))?;
    elf.strings = Some((offset, size));
    for &(tag, at) in &entries {
        let list = match tag {
            DT_NEEDED => &mut elf.needed,
            DT_RPATH => &mut elf.rpath,
            DT_RUNPATH => &mut elf.runpath,
            _ => continue,
        };
        let text = string(file, offset, size, at)?;
        match tag {
            DT_NEEDED => list.push(text),
            _ => list.extend(text.split(':').filter(|d| !d.is_empty()).map(str::to_owned)),
        }
    }
    Ok(elf)
}

impl Elf {
    /// Whether one of the file's dynamic strings is `word`: whether it defines or uses a symbol of that name.
    pub fn mentions(&self, file: &impl ReadAt, word: &str) -> io::Result<bool> {
        let Some((offset, size)) = self.strings else { return Ok(false) };
        let wanted = [b"\0", word.as_bytes(), b"\0"].concat();
        let mut buf = vec![0; 1 << 16];
        let mut kept = 0; // bytes at the start of `buf` from the piece before: a match may lie across
        let mut at = 0;
        while at < size.min(MOST_STRINGS) {
            let room = (buf.len() - kept).min((size - at) as usize);
            let got = file.read_at_most(&mut buf[kept..kept + room], offset.saturating_add(at))?;
            if got == 0 {
                break;
            }
            let have = kept + got;
            if buf[..have].windows(wanted.len()).any(|w| w == wanted) {
                return Ok(true);
            }
            kept = have.min(wanted.len() - 1);
            buf.copy_within(have - kept..have, 0);
            at += got as u64;
        }
        Ok(false)
    }
}

fn segments(file: &impl ReadAt) -> Result<Vec<Segment>, Error> {
    let mut head = [0; 64];
    if file.read_at_most(&mut head, 0)? < head.len() || !head.starts_with(b"\x7fELF") {
        return Err(Error::NotElf);
    }
    if head[4] != 2 || head[5] != 1 {
        return Err(Error::Foreign);
    }
    let (table, entry, count) = (u64_at(&head, 32), u16_at(&head, 54), u16_at(&head, 56));
    if entry as usize != PHDR && count > 0 {
        return Err(Error::Damaged("size of a program header"));
    }
    let mut bytes = vec![0; PHDR * count as usize];
    read_part(file, &mut bytes, table, "program headers")?;
    Ok(bytes
        .chunks_exact(PHDR)
        .map(|h| Segment {
            kind: u32_at(h, 0),
            offset: u64_at(h, 8),
            address: u64_at(h, 16),
            size: u64_at(h, 32),
        })
        .collect())
}

/// The tags and values of the dynamic section, up to its end mark.
fn entries(file: &impl ReadAt, dynamic: &Segment) -> Result<Vec<(u64, u64)>, Error> {
    if dynamic.size > MOST_DYNAMIC {
        return Err(Error::Damaged("size of the dynamic section"));
    }
    let mut bytes = vec![0; dynamic.size as usize];
    read_part(file, &mut bytes, dynamic.offset, "dynamic section")?;
    let pairs = bytes.chunks_exact(16).map(|e| (u64_at(e, 0), u64_at(e, 8)));
    Ok(pairs.take_while(|&(tag, _)| tag != 0).collect())
}

/// Where in the file the byte lies that is loaded at `address`.
fn file_offset(segments: &[Segment], address: u64) -> Option<u64> {
    let inside = |s: &&Segment| s.kind == PT_LOAD && address >= s.address && address - s.address < s.size;
    let segment = segments.iter().find(inside)?;
    segment.offset.checked_add(address - segment.address)
}

/// The string at `at` in the dynamic strings.
fn string(file: &impl ReadAt, strings: u64, size: u64, at: u64) -> Result<String, Error> {
    const DAMAGED: Error = Error::Damaged("a dynamic string");
    if at >= size {
        return Err(DAMAGED);
    }
    let mut bytes = vec![0; (size - at).min(LONGEST_STRING) as usize];
    let got = file.read_at_most(&mut bytes, strings.checked_add(at).ok_or(DAMAGED)?)?;
    let end = bytes[..got].iter().position(|&b| b == 0).ok_or(DAMAGED)?;
    // A name that is not UTF-8 names no library we look for; what it turns into does not matter.
    Ok(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

fn read_part(file: &impl ReadAt, buf: &mut [u8], offset: u64, what: &'static str) -> Result<(), Error> {
    file.read_at_exactly(buf, offset).map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidInput => Error::Damaged(what),
        _ => Error::Io(e),
    })
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]))
}

impl From<io::Error> for Error {
    fn from(e: io::Error) -> Error {
        // An offset no file can have: the number in the file is wrong, not the disk.
        if e.kind() == io::ErrorKind::InvalidInput { Error::Damaged("an offset") } else { Error::Io(e) }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::NotElf => f.write_str("not an ELF file"),
            Error::Foreign => f.write_str("not for a 64-bit little-endian machine"),
            Error::Damaged(what) => write!(f, "damaged ELF file ({what})"),
            Error::Io(e) => e.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    impl ReadAt for Vec<u8> {
        fn read_at_exactly(&self, buf: &mut [u8], offset: u64) -> io::Result<()> {
            match self.read_at_most(buf, offset)? {
                n if n == buf.len() => Ok(()),
                _ => Err(io::ErrorKind::UnexpectedEof.into()),
            }
        }

        fn read_at_most(&self, buf: &mut [u8], offset: u64) -> io::Result<usize> {
            let rest = usize::try_from(offset).ok().and_then(|at| self.get(at..)).unwrap_or_default();
            let n = rest.len().min(buf.len());
            buf[..n].copy_from_slice(&rest[..n]);
            Ok(n)
        }
    }

    /// A small ELF file: header, three program headers, dynamic section, strings.
    fn sample() -> Vec<u8> {
        let strings = b"\0libmpi.so.40\0$ORIGIN/../lib:/opt/lib\0ompi_mpi_comm_world\0";
        let (dynamic_at, strings_at) = (64 + 3 * 56, 64 + 3 * 56 + 5 * 16);
        let mut file = vec![0; 64];
        file[..6].copy_from_slice(b"\x7fELF\x02\x01");
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&3u16.to_le_bytes());
        let total = (strings_at + strings.len()) as u64;
        for (kind, offset, address, size) in [
            (PT_LOAD, 0, 0x40_0000, total),
            (PT_DYNAMIC, dynamic_at as u64, 0x40_0000 + dynamic_at as u64, 80),
            (PT_INTERP, 0, 0, 0),
        ] {
            let mut header = [0; 56];
            header[0..4].copy_from_slice(&kind.to_le_bytes());
            for (at, number) in [(8, offset), (16, address), (32, size)] {
                header[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            file.extend(header);
        }
        for (tag, value) in [
            (DT_NEEDED, 1),
            (DT_RUNPATH, 14),
            (DT_STRTAB, 0x40_0000 + strings_at as u64),
            (DT_STRSZ, strings.len() as u64),
            (0, 0),
        ] {
            file.extend(tag.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        file.extend(strings);
        file
    }

    #[test]
    fn libraries_and_paths_are_found() {
        let file = sample();
        let elf = read(&file).expect("an ELF file");
        assert!(elf.has_interpreter);
        assert_eq!(elf.needed, ["libmpi.so.40"]);
        assert_eq!(elf.runpath, ["$ORIGIN/../lib", "/opt/lib"]);
        assert!(elf.mentions(&file, "ompi_mpi_comm_world").expect("readable"));
        assert!(!elf.mentions(&file, "ompi_mpi_comm").expect("readable"));
    }

    #[test]
    fn a_string_across_two_reads_is_found() {
        let mut file = sample();
        let strings = Some((file.len() as u64, 200_000));
        file.extend(std::iter::repeat_n(b'x', (1 << 16) - 3).chain(*b"\0word\0"));
        file.extend(std::iter::repeat_n(b'y', 100_000));
        let elf = Elf { strings, ..Elf::default() };
        assert!(elf.mentions(&file, "word").expect("readable"));
        assert!(!elf.mentions(&file, "wor").expect("readable"));
    }

    #[test]
    fn this_very_program_is_read() {
        let file = File::open(std::env::current_exe().expect("a path")).expect("readable");
        let elf = read(&file).expect("an ELF file");
        assert!(elf.needed.iter().any(|n| n.starts_with("libc.so")), "{elf:?}");
    }

    #[test]
    fn other_files_are_told_apart() {
        assert!(matches!(read(&b"#!/bin/sh\n".to_vec()), Err(Error::NotElf)));
        let mut narrow = sample();
        narrow[4] = 1;
        assert!(matches!(read(&narrow), Err(Error::Foreign)));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(500))]

        #[test]
        fn damage_never_panics(
            changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
            length in any::<prop::sample::Index>(),
        ) {
            let mut file = sample();
            for (at, byte) in changes {
                let at = at.index(file.len());
                file[at] = byte;
            }
            file.truncate(length.index(file.len()) + 1);
            if let Ok(elf) = read(&file) {
                let _ = elf.mentions(&file, "word");
            }
        }
    }
}
