//! Random scripts: what a careful program might do to a file, in an order no test author would think of.
//!
//! The results must not depend on timing, so ranks meet between steps; within a step they read, or one of
//! them writes, or all write where the bytes are known to differ: through views that deal out the bytes of a
//! tile among the ranks, or at offsets apart from each other in a common view.

use std::fmt::Write;
use std::sync::Arc;

use pario_reference_model::{BASICS, FlatView, Representation, Rng, expand, file_type, memory_type, natural};
use pario_view::{Datatype, Shape};

use super::spec::{can_be_made, spec};
use super::world::{Access, Memory, Pointer, World};

/// A script, and what must come of it.
pub struct Script {
    /// The lines for the program.
    pub text: String,
    /// The expected reports of the ranks, and the file at the end.
    pub world: World,
}

/// How the views of the ranks relate.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Views {
    /// One view for all.
    Same,
    /// No byte is in two ranks' views.
    Parts,
    /// No matter how.
    Any,
}

struct Writer {
    rng: Rng,
    ranks: usize,
    world: World,
    text: String,
    views: Views,
    atomic: bool,
    next_type: usize,
    next_id: u64,
}

const ALL: &str = "*";
/// Datatype numbers, used in turn; the program frees a datatype when its number comes again.
const TYPES: usize = 64;

/// The script of this seed on a file of this name; fewer steps give a prefix of it.
pub fn script(seed: u64, ranks: usize, name: &str, steps: usize) -> Script {
    let mut writer = Writer {
        rng: Rng::new(seed),
        ranks,
        world: World::new(ranks),
        text: String::new(),
        views: Views::Same,
        atomic: false,
        next_type: 0,
        next_id: 1,
    };
    writer.line(ALL, &format!("script {name}"));
    writer.world.say(&format!("script {name}"));
    writer.open("bc");
    for _ in 0..steps {
        writer.step();
    }
    writer.line(ALL, "close");
    Script { text: writer.text, world: writer.world }
}

impl Writer {
    fn line(&mut self, who: &str, line: &str) {
        writeln!(self.text, "{who} {line}").expect("a string takes all");
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.rng.below(100) < percent
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.rng.below(of.len() as u64) as usize]
    }

    fn open(&mut self, amode: &str) {
        let sizes = ["1", "7", "64", "500", "4096", "100000"];
        let toggles = ["enable", "disable", "automatic"];
        let mut hints = Vec::new();
        for name in ["ind_rd_buffer_size", "ind_wr_buffer_size", "cb_buffer_size"] {
            if self.chance(50) {
                hints.push(format!("{name} {}", self.pick(&sizes)));
            }
        }
        for name in ["romio_ds_read", "romio_ds_write", "romio_cb_read", "romio_cb_write"] {
            if self.chance(50) {
                hints.push(format!("{name} {}", self.pick(&toggles)));
            }
        }
        self.line(ALL, &format!("open {amode} {} {}", hints.len(), hints.join(" ")));
        let start = if amode.contains('a') { self.world.file.len() as u64 } else { 0 };
        self.world.reopen(start);
        self.views = Views::Same;
        self.atomic = false;
    }

    fn step(&mut self) {
        match self.rng.below(16) {
            0 | 1 => self.new_views(),
            2 => self.seek(),
            3 | 4 => self.everyone_reads(),
            5 => self.one_writes(),
            6 | 7 => self.everyone_writes("bi"),
            8 | 9 => self.everyone_writes("cns"),
            10 => self.in_order(),
            11 => self.in_turns(),
            12 => self.resize(),
            13 => self.burst(),
            14 => self.change_mode(),
            _ => {
                self.line(ALL, "pos");
                self.world.note_positions();
                self.line(ALL, "barrier");
            }
        }
    }

    /// All ranks see the written bytes.
    fn settle(&mut self) {
        if self.atomic {
            self.line(ALL, "barrier");
        } else {
            ["sync", "barrier", "sync"].into_iter().for_each(|verb| self.line(ALL, verb));
        }
    }

    // ---- views ---------------------------------------------------------------------------------------

    fn make_type(&mut self, datatype: &Datatype) -> usize {
        let id = self.next_type;
        self.next_type = (id + 1) % TYPES;
        self.line(ALL, &format!("type {id} {}", spec(datatype)));
        id
    }

    fn new_views(&mut self) {
        let etype = if self.chance(40) { Datatype::basic(BASICS[3]) } else { Datatype::byte() };
        let etype_id = self.make_type(&etype);
        self.views = [Views::Same, Views::Parts, Views::Any][self.rng.below(3) as usize];
        let disp = self.rng.below(60);
        let filetypes: Vec<Datatype> = match self.views {
            Views::Same => vec![self.filetype(&etype); self.ranks],
            Views::Any => (0..self.ranks).map(|_| self.filetype(&etype)).collect(),
            Views::Parts => self.parts(&etype),
        };
        for (rank, filetype) in filetypes.iter().enumerate() {
            let id = self.make_type(filetype);
            let disp = if self.views == Views::Any { self.rng.below(60) } else { disp };
            self.line(&rank.to_string(), &format!("view {disp} {etype_id} {id}"));
            self.world.set_view(rank, FlatView::new(disp, filetype), etype.extent as u64);
        }
        self.line(ALL, "barrier");
    }

    /// A filetype of whole etypes, not empty and not long.
    fn filetype(&mut self, etype: &Datatype) -> Datatype {
        for _ in 0..20 {
            let depth = self.rng.below(3) as u32;
            let made = match etype.extent {
                1 => file_type(&mut self.rng, depth),
                _ => self.of_etypes(etype),
            };
            let bytes = expand(&made, Representation::Native).bytes();
            if can_be_made(&made) && !bytes.is_empty() && (1..=2000).contains(&made.extent) {
                return made;
            }
        }
        etype.clone()
    }

    fn of_etypes(&mut self, etype: &Datatype) -> Datatype {
        let child = Arc::new(etype.clone());
        let mut at = self.rng.between(0, 3);
        let n = 1 + self.rng.below(6);
        let blocks: Vec<(u64, i64)> = (0..n)
            .map(|_| {
                let (len, here) = (1 + self.rng.below(4), at);
                at += len as i64 + self.rng.between(0, 4);
                (len, here)
            })
            .collect();
        let extent = (at + self.rng.between(0, 5)) * etype.extent;
        let child = Arc::new(natural(Shape::Indexed { blocks, child }));
        natural(Shape::Resized { lb: 0, extent, child })
    }

    /// The etypes of a tile, dealt out among the ranks in runs; some go to nobody.
    fn parts(&mut self, etype: &Datatype) -> Vec<Datatype> {
        let mut blocks = vec![Vec::new(); self.ranks + 1];
        let mut at = 0;
        let length = 4 + self.rng.below(150) as i64;
        while at < length {
            let run = 1 + self.rng.below(20) as i64;
            blocks[self.rng.below(self.ranks as u64 + 1) as usize].push((run as u64, at));
            at += run;
        }
        let extent = at * etype.extent;
        blocks.truncate(self.ranks);
        let part = |blocks| {
            let child = Arc::new(natural(Shape::Indexed { blocks, child: Arc::new(etype.clone()) }));
            natural(Shape::Resized { lb: 0, extent, child })
        };
        blocks.into_iter().map(part).collect()
    }

    // ---- memory --------------------------------------------------------------------------------------

    /// A datatype for the program's memory and a count that together are whole etypes of this rank.
    fn memory(&mut self, rank: usize, writes: bool) -> (Datatype, u64) {
        let etype = self.world.etype(rank);
        for _ in 0..4 {
            let depth = self.rng.below(3) as u32;
            let made = match self.chance(70) {
                true => memory_type(&mut self.rng, depth),
                false => file_type(&mut self.rng, depth),
            };
            let bytes = expand(&made, Representation::Native).bytes();
            let count =
                (1 + self.rng.below(4)) * if (bytes.len() as u64).is_multiple_of(etype) { 1 } else { etype };
            let fits =
                !bytes.is_empty() && bytes.len() as u64 * count <= 3000 && (0..4000).contains(&made.extent);
            if fits && can_be_made(&made) && (writes || apart(&bytes, made.extent, count)) {
                return (made, count);
            }
        }
        (Datatype::byte(), etype * (1 + self.rng.below(120)))
    }

    /// Adds an access to the script and to the model; gives its length in etypes.
    fn access(&mut self, rank: usize, writes: bool, pointer: Pointer, form: char, nothing: bool) -> u64 {
        let (datatype, count) = match nothing || self.world.tile(rank) == 0 {
            true => (Datatype::byte(), 0),
            false => self.memory(rank, writes),
        };
        self.put(rank, writes, pointer, form, &datatype, count)
    }

    fn put(
        &mut self,
        rank: usize,
        writes: bool,
        pointer: Pointer,
        form: char,
        t: &Datatype,
        count: u64,
    ) -> u64 {
        let (memory, origin) = laid_out(t, count);
        let type_id = self.make_type(t);
        let id = self.next_id;
        self.next_id += 1;
        let (place, offset) = match (pointer, form) {
            (Pointer::At(at), _) => ("at", at),
            (Pointer::Own, _) => ("in", 0),
            (Pointer::Shared, 'o' | 'p') => ("or", 0),
            (Pointer::Shared, _) => ("sh", 0),
        };
        // An ordered access is collective or split; the pointer's word says so already.
        let form = match form {
            'o' => 'c',
            'p' => 's',
            other => other,
        };
        let direction = if writes { 'w' } else { 'r' };
        let size = memory.size;
        let etypes = memory.places.len() as u64 / self.world.etype(rank);
        self.line(
            &rank.to_string(),
            &format!("do {id} {direction} {place} {form} {offset} {type_id} {count} {size} {origin}"),
        );
        let later = matches!(form, 'i' | 'n');
        self.world.access(rank, &Access { id, writes, pointer, memory, later });
        etypes
    }

    fn somewhere(&mut self, rank: usize) -> u64 {
        let tiles = 1 + self.rng.below(6);
        self.rng.below(self.world.tile(rank).max(1) * tiles + 20)
    }

    fn pointer(&mut self, rank: usize) -> Pointer {
        match self.chance(50) {
            true => Pointer::At(self.somewhere(rank)),
            false => Pointer::Own,
        }
    }

    fn form(&mut self, of: &str) -> char {
        let forms: Vec<char> = of.chars().collect();
        forms[self.rng.below(forms.len() as u64) as usize]
    }

    /// Pointers that have run far ahead come back, so that files stay small.
    fn rein_in(&mut self, rank: usize) {
        if self.world.pointer(rank) > 8 * self.world.tile(rank) + 2000 {
            self.line(&rank.to_string(), "seek s 0");
            self.world.seek(rank, 0);
        }
    }

    // ---- steps ---------------------------------------------------------------------------------------

    fn seek(&mut self) {
        for rank in 0..self.ranks {
            let to = self.somewhere(rank);
            let end = self.world.end(rank);
            let (whence, base) = match self.rng.below(3) {
                0 => ('s', 0),
                1 => ('c', self.world.pointer(rank)),
                _ => ('e', end),
            };
            self.line(&rank.to_string(), &format!("seek {whence} {}", to as i64 - base as i64));
            self.world.seek(rank, to);
        }
        if self.views == Views::Same {
            let to = self.somewhere(0);
            let (whence, base) = if self.chance(50) { ('s', 0) } else { ('e', self.world.end(0)) };
            self.line(ALL, &format!("sseek {whence} {}", to as i64 - base as i64));
            self.world.seek_shared(to);
        }
        // Nobody writes before all have looked for the end of the file.
        self.line(ALL, "barrier");
    }

    fn everyone_reads(&mut self) {
        let collective = self.chance(50);
        let form = self.form(if collective { "cns" } else { "bi" });
        let by_pointer = self.chance(50);
        for rank in 0..self.ranks {
            self.rein_in(rank);
            let pointer = if by_pointer { Pointer::Own } else { Pointer::At(self.somewhere(rank)) };
            let nothing = self.chance(15);
            self.access(rank, false, pointer, form, nothing);
        }
        self.finish_requests(form);
        self.line(ALL, "barrier");
    }

    fn finish_requests(&mut self, form: char) {
        if matches!(form, 'i' | 'n') {
            self.line(ALL, "wait");
            self.world.wait();
        }
    }

    fn one_writes(&mut self) {
        let rank = self.rng.below(self.ranks as u64) as usize;
        self.rein_in(rank);
        let form = self.form("bi");
        let pointer = self.pointer(rank);
        self.access(rank, true, pointer, form, false);
        self.finish_requests(form);
        self.settle();
    }

    /// All ranks write, each its own bytes; where that cannot be had, one writes and the others come along.
    fn everyone_writes(&mut self, forms: &str) {
        let form = self.form(forms);
        let by_pointer = self.chance(50);
        let alone = (self.views == Views::Any).then(|| self.rng.below(self.ranks as u64) as usize);
        let mut next = self.somewhere(0);
        for rank in 0..self.ranks {
            self.rein_in(rank);
            if self.views == Views::Same && by_pointer {
                self.line(&rank.to_string(), &format!("seek s {next}"));
                self.world.seek(rank, next);
            }
            let pointer = match (by_pointer, self.views) {
                (true, _) => Pointer::Own,
                (false, Views::Same) => Pointer::At(next),
                (false, _) => Pointer::At(self.somewhere(rank)),
            };
            let nothing = alone.is_some_and(|writer| writer != rank) || self.chance(10);
            next += self.access(rank, true, pointer, form, nothing);
        }
        self.finish_requests(form);
        self.settle();
    }

    /// Ordered access; it needs one view for all.
    fn in_order(&mut self) {
        if self.views != Views::Same {
            return self.everyone_reads();
        }
        self.rein_in_shared();
        let (writes, form) = (self.chance(50), self.form("op"));
        for rank in 0..self.ranks {
            let nothing = self.chance(15);
            self.access(rank, writes, Pointer::Shared, form, nothing);
        }
        self.settle();
    }

    /// Shared access, one rank after the other.
    fn in_turns(&mut self) {
        if self.views != Views::Same {
            return self.one_writes();
        }
        self.rein_in_shared();
        for _ in 0..self.ranks {
            let rank = self.rng.below(self.ranks as u64) as usize;
            let (writes, form) = (self.chance(50), self.form("bi"));
            self.access(rank, writes, Pointer::Shared, form, false);
            self.finish_requests(form);
            self.settle();
        }
    }

    fn rein_in_shared(&mut self) {
        if self.world.shared() > 8 * self.world.tile(0) + 3000 {
            self.line(ALL, "sseek s 0");
            self.world.seek_shared(0);
        }
    }

    fn resize(&mut self) {
        let size = self.rng.below(self.world.file.len() as u64 * 3 / 2 + 50);
        if self.chance(50) {
            self.line(ALL, &format!("size {size}"));
            self.world.file.resize(size as usize, 0);
        } else {
            self.line(ALL, &format!("reserve {size}"));
            let size = self.world.file.len().max(size as usize);
            self.world.file.resize(size, 0);
        }
        self.settle();
    }

    /// Several nonblocking accesses in flight, one after the other through each rank's pointer.
    fn burst(&mut self) {
        let writes = self.chance(50) && self.views == Views::Parts;
        for rank in 0..self.ranks {
            self.rein_in(rank);
            for _ in 0..1 + self.rng.below(4) {
                self.access(rank, writes, Pointer::Own, 'i', false);
            }
        }
        self.finish_requests('i');
        self.settle();
    }

    fn change_mode(&mut self) {
        if self.chance(60) {
            self.atomic = !self.atomic;
            self.line(ALL, &format!("atomic {}", u8::from(self.atomic)));
        } else {
            self.line(ALL, "close");
            let amode = self.pick(&["b", "bc", "ba"]);
            self.open(amode);
        }
    }
}

/// The bytes of `count` instances, as places in a buffer, and the datatype's origin in it.
fn laid_out(t: &Datatype, count: u64) -> (Memory, usize) {
    let bytes = expand(t, Representation::Native).bytes();
    let all = (0..count as i64).flat_map(|i| bytes.iter().map(move |b| b + i * t.extent));
    let offsets: Vec<i64> = all.collect();
    let low = offsets.iter().copied().min().unwrap_or(0).min(0);
    let high = offsets.iter().copied().max().map_or(0, |b| b + 1).max(0);
    // Margins on both sides show a byte too many.
    let origin = 5 - low;
    let places = offsets.iter().map(|b| (b + origin) as usize).collect();
    (Memory { places, size: (high + origin + 5) as usize }, origin as usize)
}

/// Whether no byte of memory is there twice.
fn apart(bytes: &[i64], extent: i64, count: u64) -> bool {
    let mut all: Vec<i64> =
        (0..count as i64).flat_map(|i| bytes.iter().map(move |b| b + i * extent)).collect();
    all.sort_unstable();
    all.windows(2).all(|w| w[0] != w[1])
}
