//! The flat-byte reference of an open file: bytes, a view and a pointer per rank, one shared pointer.
//!
//! It plays the calls of a script one after the other and writes down, rank by rank, the lines that the real
//! program must write.

use pario_reference_model::FlatView;

/// Where an access starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pointer {
    /// At an offset of its own, in etypes.
    At(u64),
    /// At the rank's pointer.
    Own,
    /// At the shared pointer; the caller says in which order ranks come.
    Shared,
}

/// The program's memory: where each data byte lies, relative to a buffer's start.
#[derive(Clone, Debug)]
pub struct Memory {
    /// Index in the buffer of each byte, in the order of the data stream.
    pub places: Vec<usize>,
    /// Bytes of the whole buffer.
    pub size: usize,
}

/// One access of one rank.
#[derive(Clone, Debug)]
pub struct Access {
    /// Its number in the script.
    pub id: u64,
    /// A write, or else a read.
    pub writes: bool,
    /// Where it starts.
    pub pointer: Pointer,
    /// The program's side.
    pub memory: Memory,
    /// Written down when it is waited for, not at once.
    pub later: bool,
}

#[derive(Clone, Debug)]
struct Seen {
    view: FlatView,
    etype: u64,
    pointer: u64,
    lines: Vec<String>,
    pending: Vec<String>,
}

/// A file and the ranks that have it open.
#[derive(Clone, Debug)]
pub struct World {
    /// The file's bytes.
    pub file: Vec<u8>,
    shared: u64,
    ranks: Vec<Seen>,
}

impl World {
    /// An empty file.
    pub fn new(ranks: usize) -> World {
        let bytes = pario_view::Datatype::byte();
        let seen = Seen {
            view: FlatView::new(0, &bytes),
            etype: 1,
            pointer: 0,
            lines: Vec::new(),
            pending: Vec::new(),
        };
        World { file: Vec::new(), shared: 0, ranks: vec![seen; ranks] }
    }

    /// The expected report of a rank.
    pub fn lines(&self, rank: usize) -> &[String] {
        &self.ranks[rank].lines
    }

    /// Writes a line down for every rank.
    pub fn say(&mut self, line: &str) {
        self.ranks.iter_mut().for_each(|seen| seen.lines.push(line.to_string()));
    }

    /// The file is opened anew: byte views, all pointers at `start`.
    pub fn reopen(&mut self, start: u64) {
        for seen in &mut self.ranks {
            (seen.view, seen.etype, seen.pointer) =
                (FlatView::new(0, &pario_view::Datatype::byte()), 1, start);
        }
        self.shared = start;
    }

    /// One rank's part of set_view.
    pub fn set_view(&mut self, rank: usize, view: FlatView, etype: u64) {
        let seen = &mut self.ranks[rank];
        (seen.view, seen.etype, seen.pointer) = (view, etype, 0);
        self.shared = 0;
    }

    /// Bytes of an etype.
    pub fn etype(&self, rank: usize) -> u64 {
        self.ranks[rank].etype
    }

    /// Etypes in one tile of a rank's view.
    pub fn tile(&self, rank: usize) -> u64 {
        self.ranks[rank].view.tile_size() / self.ranks[rank].etype
    }

    /// The rank's pointer.
    pub fn pointer(&self, rank: usize) -> u64 {
        self.ranks[rank].pointer
    }

    /// The shared pointer.
    pub fn shared(&self) -> u64 {
        self.shared
    }

    /// The first etype after the end of the file, in a rank's view.
    pub fn end(&self, rank: usize) -> u64 {
        let Seen { view, etype, .. } = &self.ranks[rank];
        if view.tile_size() == 0 {
            return 0;
        }
        let size = self.file.len() as i64;
        (0..).find(|e| view.offset(e * etype) >= size).unwrap_or(0)
    }

    /// Sets the rank's pointer.
    pub fn seek(&mut self, rank: usize, to: u64) {
        self.ranks[rank].pointer = to;
    }

    /// Sets the shared pointer.
    pub fn seek_shared(&mut self, to: u64) {
        self.shared = to;
    }

    /// Every rank writes down pointers and size.
    pub fn note_positions(&mut self) {
        let (shared, size) = (self.shared, self.file.len());
        for seen in &mut self.ranks {
            seen.lines.push(format!("pos {} {shared} {size}", seen.pointer));
        }
    }

    /// Accesses that were started are waited for, the last one first.
    pub fn wait(&mut self) {
        for seen in &mut self.ranks {
            seen.lines.extend(seen.pending.drain(..).rev());
        }
    }

    /// One access of one rank.
    pub fn access(&mut self, rank: usize, access: &Access) {
        let seen = &mut self.ranks[rank];
        let (places, total) = (&access.memory.places, access.memory.places.len() as u64);
        let etypes = total / seen.etype;
        let start = match access.pointer {
            Pointer::At(at) => at,
            Pointer::Own => advance(&mut seen.pointer, etypes),
            Pointer::Shared => advance(&mut self.shared, etypes),
        };
        let mut buffer = filled(access, rank);
        let at = start * seen.etype;
        let moved = if total == 0 {
            0
        } else if access.writes {
            let data: Vec<u8> = places.iter().map(|&place| buffer[place]).collect();
            seen.view.write(&mut self.file, at, &data);
            total
        } else {
            let data = seen.view.read(&self.file, at, total);
            for (&place, byte) in places.iter().zip(&data) {
                buffer[place] = *byte;
            }
            data.len() as u64
        };
        let line = format!("{} MPI_SUCCESS {moved} {:016x}", access.id, digest(&buffer));
        if access.later { &mut seen.pending } else { &mut seen.lines }.push(line);
    }
}

/// Moves a pointer; gives where it was.
fn advance(pointer: &mut u64, by: u64) -> u64 {
    let start = *pointer;
    *pointer += by;
    start
}

/// The buffer before the access, as the program fills it.
fn filled(access: &Access, rank: usize) -> Vec<u8> {
    let (id, rank) = (access.id as usize, rank);
    let byte = |i: usize| match access.writes {
        true => id * 131 + rank * 31 + i * 7 + (i >> 8) * 13,
        false => i * 11 + 3,
    };
    (0..access.memory.size).map(|i| byte(i) as u8).collect()
}

/// FNV-1a, as the program computes it.
fn digest(bytes: &[u8]) -> u64 {
    pario_types::fnv1a(bytes.iter().copied())
}
