//! The shared libraries that a program or library asks for, read from its ELF file without running it.
//!
//! `object` parses the file and checks every offset. The program headers are used, as the loader does, so stripped files
//! work. Only 64-bit little-endian files are read: Pario runs on no others.

use object::elf::{
    DT_NEEDED, DT_NULL, DT_RPATH, DT_RUNPATH, DT_STRSZ, DT_STRTAB, FileHeader64, PT_INTERP, PT_LOAD,
};
use object::read::StringTable;
use object::read::elf::{Dyn, FileHeader, ProgramHeader};
use object::{LittleEndian, ReadCache, ReadRef};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

/// What an ELF file says about libraries.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Elf {
    /// Whether it names a program interpreter, as every dynamically linked program does.
    pub has_interpreter: bool,
    /// The libraries that it needs, in order.
    pub needed: Vec<String>,
    /// Where to look for them and for their own needs (old style), with `$ORIGIN` as written.
    pub rpath: Vec<String>,
    /// Where to look for them (new style).
    pub runpath: Vec<String>,
    /// File offset and size of its dynamic strings, which contain the names of its symbols.
    pub strings: Option<(u64, u64)>,
}

/// Why a file could not be read as ELF.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is not ELF.
    #[error("not an ELF file")]
    NotElf,
    /// It is for 32-bit or big-endian machines.
    #[error("not for a 64-bit little-endian machine")]
    Foreign,
    /// It makes no sense.
    #[error("damaged ELF file ({0})")]
    Damaged(#[from] object::read::Error),
    /// Its dynamic strings are not where it says.
    #[error("damaged ELF file (dynamic strings)")]
    NoStrings,
    /// Reading it failed.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// Reads what `file` says about libraries.
pub fn read(file: &File) -> Result<Elf, Error> {
    let mut head = [0; 64];
    let mut len = 0;
    while len < head.len() {
        match file.read_at(&mut head[len..], len as u64)? {
            0 => break,
            more => len += more,
        }
    }
    identify(&head[..len])?;
    parse(&ReadCache::new(file))
}

/// Checks that a file that begins so is an ELF file for this kind of machine.
fn identify(head: &[u8]) -> Result<(), Error> {
    match head {
        [0x7f, b'E', b'L', b'F', class, data, ..] if head.len() >= 64 => {
            if (*class, *data) == (2, 1) {
                Ok(())
            } else {
                Err(Error::Foreign)
            }
        }
        _ => Err(Error::NotElf),
    }
}

fn parse<'data, R: ReadRef<'data>>(data: R) -> Result<Elf, Error> {
    let header = FileHeader64::<LittleEndian>::parse(data)?;
    let endian = header.endian()?;
    let segments = header.program_headers(endian, data)?;
    let has_interpreter = segments.iter().any(|segment| segment.p_type(endian) == PT_INTERP);
    let mut elf = Elf { has_interpreter, ..Elf::default() };
    let mut entries = Vec::new();
    for segment in segments {
        if let Some(dynamic) = segment.dynamic(endian, data)? {
            let pairs = dynamic.iter().map(|entry| (entry.tag(endian), entry.val(endian)));
            entries = pairs.take_while(|(tag, _)| *tag != DT_NULL).collect();
            break;
        }
    }
    let value = |tag| entries.iter().find(|(other, _)| *other == tag).map(|(_, value)| *value);
    let (Some(address), Some(size)) = (value(DT_STRTAB), value(DT_STRSZ)) else { return Ok(elf) };
    // The file offset of the byte that is loaded at the address.
    let offset = segments.iter().filter(|segment| segment.p_type(endian) == PT_LOAD).find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(endian))?;
        (within < segment.p_filesz(endian)).then(|| segment.p_offset(endian).checked_add(within))?
    });
    let Some((offset, end)) = offset.and_then(|offset| Some((offset, offset.checked_add(size)?))) else {
        return Err(Error::NoStrings);
    };
    elf.strings = Some((offset, size));
    let strings = StringTable::new(data, offset, end);
    for &(tag, at) in &entries {
        let list = match tag {
            DT_NEEDED => &mut elf.needed,
            DT_RPATH => &mut elf.rpath,
            DT_RUNPATH => &mut elf.runpath,
            _ => continue,
        };
        let text = u32::try_from(at).ok().and_then(|at| strings.get(at).ok());
        let text = text.ok_or(Error::NoStrings)?;
        // No library that matters here has a name that is not UTF-8.
        let text = String::from_utf8_lossy(text);
        if tag == DT_NEEDED {
            list.push(text.into_owned());
        } else {
            list.extend(text.split(':').filter(|dir| !dir.is_empty()).map(str::to_owned));
        }
    }
    Ok(elf)
}

impl Elf {
    /// Whether the file defines or uses a symbol of this name: whether `name` is one of its dynamic strings.
    pub fn mentions(&self, file: &File, name: &str) -> bool {
        self.has_string(&ReadCache::new(file), name)
    }

    fn has_string<'data, R: ReadRef<'data>>(&self, data: R, name: &str) -> bool {
        let Some((offset, size)) = self.strings else { return false };
        let Ok(strings) = data.read_bytes_at(offset, size) else { return false };
        strings.split(|byte| *byte == 0).any(|string| string == name.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A small ELF file: header, three program headers, dynamic section, strings.
    fn sample() -> Vec<u8> {
        let strings = b"\0libmpi.so.40\0$ORIGIN/../lib:/opt/lib\0ompi_mpi_comm_world\0";
        let (dynamic_at, strings_at) = (64 + 3 * 56, 64 + 3 * 56 + 5 * 16);
        let mut file = vec![0; 64];
        file[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        file[32..40].copy_from_slice(&64u64.to_le_bytes());
        file[54..56].copy_from_slice(&56u16.to_le_bytes());
        file[56..58].copy_from_slice(&3u16.to_le_bytes());
        let total = (strings_at + strings.len()) as u64;
        for (kind, offset, address, size) in [
            (1u32, 0, 0x40_0000, total),
            (2, dynamic_at as u64, 0x40_0000 + dynamic_at as u64, 80),
            (3, 0, 0, 0),
        ] {
            let mut header = [0; 56];
            header[0..4].copy_from_slice(&kind.to_le_bytes());
            for (at, number) in [(8, offset), (16, address), (32, size)] {
                header[at..at + 8].copy_from_slice(&number.to_le_bytes());
            }
            file.extend(header);
        }
        for (tag, value) in
            [(1u64, 1u64), (29, 14), (5, 0x40_0000 + strings_at as u64), (10, strings.len() as u64), (0, 0)]
        {
            file.extend(tag.to_le_bytes());
            file.extend(value.to_le_bytes());
        }
        file.extend(strings);
        file
    }

    #[test]
    fn libraries_and_paths_are_found() {
        let file = sample();
        let elf = parse(&file[..]).expect("an ELF file");
        assert!(elf.has_interpreter);
        assert_eq!(elf.needed, ["libmpi.so.40"]);
        assert_eq!(elf.runpath, ["$ORIGIN/../lib", "/opt/lib"]);
        assert!(elf.has_string(&file[..], "ompi_mpi_comm_world"));
        assert!(!elf.has_string(&file[..], "ompi_mpi_comm"));
    }

    #[test]
    fn a_string_far_into_the_table_is_found() {
        let mut file = sample();
        let strings = Some((file.len() as u64, 165_539));
        file.extend(std::iter::repeat_n(b'x', (1 << 16) - 3).chain(*b"\0word\0"));
        file.extend(std::iter::repeat_n(b'y', 100_000));
        let elf = Elf { strings, ..Elf::default() };
        assert!(elf.has_string(&file[..], "word"));
        assert!(!elf.has_string(&file[..], "wor"));
    }

    #[test]
    fn this_very_program_is_read() {
        let file = File::open(std::env::current_exe().expect("a path")).expect("readable");
        let elf = read(&file).expect("an ELF file");
        assert!(elf.needed.iter().any(|n| n.starts_with("libc.so")), "{elf:?}");
    }

    #[test]
    fn other_files_are_told_apart() {
        assert!(matches!(identify(b"#!/bin/sh\n"), Err(Error::NotElf)));
        let mut narrow = sample();
        narrow[4] = 1;
        assert!(matches!(identify(&narrow), Err(Error::Foreign)));
        assert!(identify(&sample()).is_ok());
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
            if let Ok(elf) = parse(&file[..]) {
                let _ = elf.has_string(&file[..], "word");
            }
        }
    }
}
