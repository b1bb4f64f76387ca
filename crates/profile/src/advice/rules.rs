//! The rules. Each looks at what was seen and says something, or nothing.

use super::numbers::{BLOCK, SMALL};
use super::{Advice, FileNumbers, Numbers, Overlap, Severity, Topic};
use pario_types::round_size;
use std::collections::BTreeSet;

/// So few accesses are not worth a word.
const MANY: u64 = 64;
/// So few bytes are not worth a word.
const MUCH: u64 = 1 << 20;

/// The input of all rules.
#[derive(Debug)]
pub struct ProfileFacts<'a> {
    /// The counts.
    pub numbers: &'a Numbers,
    /// For each file of the profile its name and which of its bytes are used more than once.
    pub overlaps: &'a [(&'a str, Overlap)],
    /// Numbers of aggregators that Pario chose or was told, by file.
    pub aggregators: &'a [(String, u32)],
    /// The hints of the run.
    pub hinted: &'a Hinted,
}

/// Hints that a program may contradict.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hinted {
    /// `romio_cb_write` is `disable`.
    pub cb_write_off: bool,
    /// `romio_cb_read` is `disable`.
    pub cb_read_off: bool,
    /// `romio_no_indep_rw` is `true`.
    pub no_independent: bool,
    /// `cb_nodes`.
    pub cb_nodes: Option<u32>,
    /// Hints that are refused, and why.
    pub refused: Vec<String>,
}

/// All advice, the most severe first.
pub fn advise(seen: &ProfileFacts) -> Vec<Advice> {
    let mut all = Vec::new();
    for file in &seen.numbers.files {
        let overlap =
            seen.overlaps.iter().find(|(name, _)| *name == &*file.name).map(|(_, overlap)| *overlap);
        let overlap = overlap.unwrap_or_default();
        let alone = independent(file, &overlap);
        // Collective calls would cure the small ones as well.
        all.extend(if alone.is_some() { alone } else { small(file) });
        all.extend(misaligned(file));
        all.extend(random(file));
        all.extend(redundant(file, &overlap));
        all.extend(view_churn(file));
        all.extend(aggregators(seen, file));
        all.extend(hints_of(seen.hinted, file));
    }
    all.extend(imbalanced(seen.numbers));
    all.extend(hints(seen.hinted, seen.numbers));
    // The order of rules and files stays otherwise.
    all.sort_by_key(|advice| std::cmp::Reverse(advice.severity));
    all
}

fn about(file: &FileNumbers, topic: Topic, severity: Severity, evidence: String, texts: [&str; 2]) -> Advice {
    let [remedy, pario] = texts.map(str::to_owned);
    Advice { topic, severity, file: Some(file.name.to_string()), evidence, remedy, pario }
}

fn percent(part: u64, whole: u64) -> f64 {
    part as f64 * 100.0 / whole.max(1) as f64
}

fn small(file: &FileNumbers) -> Option<Advice> {
    let (reads, writes) = file.ways();
    let (small, all) = (reads.small + writes.small, reads.independent + writes.independent);
    if small < 4 * MANY || 2 * small < all {
        return None;
    }
    let severity = if small >= 10_000 { Severity::High } else { Severity::Medium };
    let evidence = format!(
        "{small} of {all} independent accesses ({:.0} %) are smaller than {}",
        percent(small, all),
        round_size(SMALL)
    );
    let texts = [
        "gather data into larger buffers before it is written, read larger parts, or use collective calls",
        "on a partition the servers merge small accesses; on a plain file each is a system call of its own",
    ];
    Some(about(file, Topic::Small, severity, evidence, texts))
}

fn misaligned(file: &FileNumbers) -> Option<Advice> {
    let (reads, writes) = file.ways();
    let misaligned = reads.misaligned + writes.misaligned;
    let large = reads.independent + writes.independent - reads.small - writes.small;
    if misaligned < MANY || 2 * misaligned < large {
        return None;
    }
    // Writes that share a block are the costly ones.
    let severity = if writes.misaligned >= MANY { Severity::Medium } else { Severity::Low };
    let evidence = format!(
        "{misaligned} of {large} large independent accesses ({:.0} %) begin within a block of {}",
        percent(misaligned, large),
        round_size(BLOCK)
    );
    let texts = [
        "begin each process's part at a multiple of the stripe or block size (HDF5: H5Pset_alignment; PnetCDF: \
         nc_var_align_size), or use collective calls",
        "collective writes are cut at stripe or block borders; independent ones go out as they are",
    ];
    Some(about(file, Topic::Misaligned, severity, evidence, texts))
}

fn random(file: &FileNumbers) -> Option<Advice> {
    let (moves, irregular) = (file.sum(|tally| tally.moves), file.sum(|tally| tally.irregular));
    if irregular < MANY || 2 * irregular < moves {
        return None;
    }
    let evidence = format!(
        "{irregular} of {moves} independent accesses ({:.0} %) neither follow the one before nor are at a regular \
         distance from it",
        percent(irregular, moves)
    );
    let texts = [
        "sort accesses by offset, or describe them by one datatype and access them with one call",
        "the accesses of one call are sorted and merged; those of many calls are not, and nothing is read ahead",
    ];
    Some(about(file, Topic::Random, Severity::Medium, evidence, texts))
}

fn redundant(file: &FileNumbers, overlap: &Overlap) -> Option<Advice> {
    let again = overlap.read.saturating_sub(overlap.read_once_each);
    if again >= MUCH && again >= overlap.read_once_each {
        let evidence = format!(
            "processes read {} of it, but only {} are different bytes of each",
            round_size(overlap.read),
            round_size(overlap.read_once_each)
        );
        let texts = [
            "keep in memory what is read again",
            "on a partition the bytes come from the cache of the servers; on a plain file from that of the system",
        ];
        return Some(about(file, Topic::Redundant, Severity::Medium, evidence, texts));
    }
    let (reads, _) = file.ways();
    let copies = overlap.read_once_each / overlap.read_once.max(1);
    if copies < 4 || reads.collective > 0 || overlap.read_once_each < 4 * MUCH {
        return None;
    }
    let evidence = format!(
        "{} processes read the same {} each by itself, {copies} times on average",
        file.users(),
        round_size(overlap.read_once)
    );
    let texts = [
        "read it on one process and broadcast it, or read it with a collective call; 'pario plan' duplicates it",
        "a collective read brings common bytes from the file once per node; independent ones are not held up for that",
    ];
    Some(about(file, Topic::Redundant, Severity::Medium, evidence, texts))
}

fn independent(file: &FileNumbers, overlap: &Overlap) -> Option<Advice> {
    let (reads, writes) = file.ways();
    let (alone, together) = (reads.independent + writes.independent, reads.collective + writes.collective);
    let bytes = reads.bytes.saturating_add(writes.bytes);
    let extents: Vec<(u64, u64)> = file.tallies.iter().filter_map(|tally| tally.extent).collect();
    let from = extents.iter().map(|extent| extent.0).min()?;
    let to = extents.iter().map(|extent| extent.1).max()?;
    let sum: u64 = extents.iter().map(|extent| extent.1 - extent.0).fold(0, u64::saturating_add);
    let interleaved = extents.len() > 1 && sum / 3 >= (to - from) / 2;
    // Several processes that read the same bytes are another matter.
    let apart = 2 * overlap.shared < overlap.used;
    if alone < MANY || 10 * together > alone || !interleaved || !apart || bytes / alone >= MUCH {
        return None;
    }
    let severity = if bytes / alone < SMALL { Severity::High } else { Severity::Medium };
    let evidence = format!(
        "{} processes take turns in the file with {alone} independent accesses of {} on average, and {together} \
         collective ones",
        extents.len(),
        round_size(bytes / alone)
    );
    let texts = [
        "use the collective calls (write_all instead of write, H5FD_MPIO_COLLECTIVE, ncmpi_put_vara_*_all), with a view \
         or datatype that describes each process's part",
        "collective calls are merged into large accesses; independent ones of several processes cannot be",
    ];
    Some(about(file, Topic::Independent, severity, evidence, texts))
}

fn view_churn(file: &FileNumbers) -> Option<Advice> {
    let views = file.sum(|tally| tally.views);
    let accesses = file.sum(|tally| tally.reads.count() + tally.writes.count());
    let setters = file.tallies.iter().filter(|tally| tally.views > 0).count() as u64;
    if views < 16 * setters.max(1) || 2 * views < accesses {
        return None;
    }
    let evidence = format!("{views} views were set for {accesses} accesses");
    let texts = [
        "set the view once and move in it by offsets (write_at_all), or describe all steps by one view",
        "a view that is set again is known by its content and not sent again; the call still makes all ranks meet",
    ];
    Some(about(file, Topic::ViewChurn, Severity::Low, evidence, texts))
}

fn aggregators(seen: &ProfileFacts, file: &FileNumbers) -> Option<Advice> {
    let nodes: BTreeSet<&str> = seen.numbers.processes.iter().map(|who| &*who.node).collect();
    let (reads, writes) = file.ways();
    let (_, chosen) =
        seen.aggregators.iter().filter(|(name, _)| *name == *file.name).max_by_key(|(_, n)| *n)?;
    let (chosen, nodes) = (u64::from(*chosen), nodes.len() as u64);
    let moved = reads.bytes.saturating_add(writes.bytes) >= MUCH && reads.collective + writes.collective > 0;
    let (evidence, remedy) = if moved && chosen < nodes {
        let remedy = "leave cb_nodes out, or give at least one aggregator to each node";
        (format!("{chosen} aggregators serve {nodes} nodes, so that some nodes' links are idle"), remedy)
    } else if moved && chosen > 8 * nodes {
        let remedy = "leave cb_nodes out, or give a few aggregators to each node";
        (format!("{chosen} aggregators on {nodes} nodes compete for links and servers"), remedy)
    } else {
        return None;
    };
    let pario = "without cb_nodes the number follows nodes and servers";
    Some(about(file, Topic::Aggregators, Severity::Medium, evidence, [remedy, pario]))
}

fn imbalanced(numbers: &Numbers) -> Option<Advice> {
    let bytes = numbers.bytes();
    let most = bytes.iter().copied().max()?;
    let mean = (bytes.iter().map(|&bytes| u128::from(bytes)).sum::<u128>() / bytes.len() as u128) as u64;
    if bytes.len() < 2 || most < mean.saturating_mul(2) || most - mean < MUCH {
        return None;
    }
    let who = bytes.iter().position(|&bytes| bytes == most).map_or("-", |at| &*numbers.processes[at].label);
    let evidence = format!(
        "process {who} moves {}, {:.1} times the mean of {} of all {} processes",
        round_size(most),
        most as f64 / mean.max(1) as f64,
        round_size(mean),
        bytes.len()
    );
    let severity = if most / 4 >= mean { Severity::High } else { Severity::Medium };
    Some(Advice {
        topic: Topic::Imbalanced,
        severity,
        file: None,
        evidence,
        remedy: "let all processes write their own parts, or spread the data evenly".to_owned(),
        pario: "collective calls spread the file access evenly over the aggregators, whoever has the data"
            .to_owned(),
    })
}

/// Hints that do not fit what is done with a file.
fn hints_of(hinted: &Hinted, file: &FileNumbers) -> Vec<Advice> {
    let (reads, writes) = file.ways();
    let mut all = Vec::new();
    let mut say = |evidence: String, remedy: &str| {
        let pario = "hints are followed as they are given";
        all.push(about(file, Topic::Hints, Severity::Medium, evidence, [remedy, pario]));
    };
    if hinted.cb_write_off && writes.collective >= MANY {
        say(
            format!(
                "{} collective writes are done one by one, because romio_cb_write is disable",
                writes.collective
            ),
            "leave romio_cb_write out; automatic decides by the pattern",
        );
    }
    if hinted.cb_read_off && reads.collective >= MANY {
        say(
            format!(
                "{} collective reads are done one by one, because romio_cb_read is disable",
                reads.collective
            ),
            "leave romio_cb_read out; automatic decides by the pattern",
        );
    }
    let alone = reads.independent + writes.independent;
    if hinted.no_independent && alone > 0 {
        say(
            format!("romio_no_indep_rw promises no independent access, but there are {alone}"),
            "leave romio_no_indep_rw out: it defers opening the file to the first access",
        );
    }
    all
}

/// Hints that fit no file.
fn hints(hinted: &Hinted, numbers: &Numbers) -> Vec<Advice> {
    let advice = |evidence: String, remedy: &str| Advice {
        topic: Topic::Hints,
        severity: Severity::Low,
        file: None,
        evidence,
        remedy: remedy.to_owned(),
        pario: "what is refused or impossible is left as without the hint".to_owned(),
    };
    let mut all: Vec<Advice> = hinted
        .refused
        .iter()
        .map(|why| {
            advice(format!("a hint is refused: {why}"), "correct it; 'pario hints' lists what there is")
        })
        .collect();
    let processes = numbers.processes.len();
    if let Some(wanted) = hinted.cb_nodes.filter(|&wanted| processes > 0 && wanted as usize > processes) {
        all.push(advice(
            format!("cb_nodes asks for {wanted} aggregators, but there are {processes} processes"),
            "leave cb_nodes out, or ask for fewer",
        ));
    }
    all
}
