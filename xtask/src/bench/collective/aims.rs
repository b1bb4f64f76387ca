//! Whether the aims hold, in numbers and words.
//!
//! The aims: twice the better of ROMIO and OMPIO as the geometric mean over the patterns, of writes and of
//! reads; five times ROMIO with pieces of 64 bytes and below; slower than neither of them anywhere. Pario
//! counts on each host by itself.

use super::contenders::{CONTENDERS, OMPIO, PARIO_ON_MPICH, PARIO_ON_OPEN_MPI, ROMIO, ROMIO_IN_OPEN_MPI};
use super::turns::{DIRECTIONS, Direction, Measured, Row};
use crate::numbers::Times;

const MEAN: f64 = 2.0;
const SMALL_PIECES: f64 = 5.0;
const EVERYWHERE: f64 = 1.0;
const PARIOS: [usize; 2] = [PARIO_ON_MPICH, PARIO_ON_OPEN_MPI];
/// ROMIO and Pario on the same MPI.
const ROMIO_PAIRS: [(usize, usize); 2] = [(ROMIO, PARIO_ON_MPICH), (ROMIO_IN_OPEN_MPI, PARIO_ON_OPEN_MPI)];

/// The faster of the two hosts' own MPI-IOs.
pub fn better(row: &Row, direction: Direction) -> Option<usize> {
    fastest(row, direction, &[ROMIO, OMPIO])
}

fn fastest(row: &Row, direction: Direction, hosts: &[usize]) -> Option<usize> {
    let known = hosts.iter().copied().filter(|host| !row.median(direction, *host).is_nan());
    known.min_by(|a, b| row.median(direction, *a).total_cmp(&row.median(direction, *b)))
}

/// One host beside one Pario in one place.
struct Pair<'a> {
    measured: &'a Measured,
    row: &'a Row,
    direction: Direction,
    host: usize,
    pario: usize,
    ratios: Times,
}

impl Pair<'_> {
    fn ratio(&self) -> f64 {
        self.ratios.median()
    }

    fn describe(&self) -> String {
        format!(
            "{} {} {}, {} / {}, {} ranks, {}",
            self.ratios.as_ratio(),
            self.direction.label(),
            self.row.pattern,
            CONTENDERS[self.host].label,
            CONTENDERS[self.pario].label,
            self.measured.job.ranks,
            self.measured.job.place
        )
    }
}

/// All measured pairs of these hosts and Parios, the smallest ratio first.
fn pairs<'a>(results: &'a [Measured], of: &[(usize, usize)]) -> Vec<Pair<'a>> {
    let mut found = Vec::new();
    for measured in results {
        for row in &measured.rows {
            for direction in DIRECTIONS {
                for &(host, pario) in of {
                    let ratios = row.ratios(direction, host, pario);
                    found.push(Pair { measured, row, direction, host, pario, ratios });
                }
            }
        }
    }
    found.retain(|pair| !pair.ratio().is_nan());
    found.sort_by(|a, b| a.ratio().total_cmp(&b.ratio()));
    found
}

/// The geometric mean of the ratios of the fastest of `hosts` to `pario`, over all patterns.
fn mean(results: &[Measured], direction: Direction, hosts: &[usize], pario: usize) -> f64 {
    let rows = results.iter().flat_map(|measured| &measured.rows);
    let ratios = rows.filter_map(|row| {
        let host = fastest(row, direction, hosts)?;
        Some(row.ratios(direction, host, pario).median()).filter(|ratio| !ratio.is_nan())
    });
    let (sum, count) = ratios.fold((0.0, 0), |(sum, count), ratio| (sum + ratio.ln(), count + 1));
    if count == 0 { f64::NAN } else { (sum / f64::from(count)).exp() }
}

pub fn show(results: &[Measured]) {
    match absent(results) {
        labels if labels.is_empty() => println!("aims"),
        labels => println!("aims, as far as they can be seen without {}", labels.join(", ")),
    }
    for pario in PARIOS {
        for direction in DIRECTIONS {
            show_mean(results, direction, pario);
        }
    }
    for pair in ROMIO_PAIRS {
        let mut small = pairs(results, &[pair]);
        small.retain(|pair| ["pieces-16", "pieces-64"].contains(&pair.row.pattern.as_str()));
        if let Some(least) = small.first() {
            let verdict = verdict(least.ratio(), SMALL_PIECES);
            println!("  {verdict} pieces of at most 64 B, aim {SMALL_PIECES}, least: {}", least.describe());
        }
    }
    show_everywhere(results);
}

/// Those the aims speak of that did not take part.
fn absent(results: &[Measured]) -> Vec<&'static str> {
    let took_part =
        |contender: &usize| results.iter().all(|result| result.job.contenders.contains(contender));
    let absent = [ROMIO, OMPIO].into_iter().chain(PARIOS).filter(|contender| !took_part(contender));
    absent.map(|contender| CONTENDERS[contender].label).collect()
}

fn show_mean(results: &[Measured], direction: Direction, pario: usize) {
    let ratio = mean(results, direction, &[ROMIO, OMPIO], pario);
    if ratio.is_nan() {
        return;
    }
    print!(
        "  {} {} {}s: {ratio:.2} x the better host as geometric mean, aim {MEAN}",
        verdict(ratio, MEAN),
        CONTENDERS[pario].label,
        direction.label(),
    );
    if mean(results, direction, &[ROMIO_IN_OPEN_MPI], pario).is_nan() {
        return println!();
    }
    let strict = mean(results, direction, &[ROMIO, OMPIO, ROMIO_IN_OPEN_MPI], pario);
    println!(" ({strict:.2} with {} among the hosts)", CONTENDERS[ROMIO_IN_OPEN_MPI].label);
}

fn show_everywhere(results: &[Measured]) {
    let everywhere = PARIOS.map(|pario| [(ROMIO, pario), (OMPIO, pario)]).concat();
    let pairs = pairs(results, &everywhere);
    let Some(least) = pairs.first() else { return };
    let slower: Vec<&Pair> = pairs.iter().filter(|pair| pair.ratio() < EVERYWHERE).collect();
    println!(
        "  {} nowhere below {EVERYWHERE} x: {} of {} ratios are; least: {}",
        verdict(least.ratio(), EVERYWHERE),
        slower.len(),
        pairs.len(),
        least.describe()
    );
    for pair in slower.iter().skip(1).take(20) {
        println!("              {}", pair.describe());
    }
    if slower.len() > 21 {
        println!("              and {} more", slower.len() - 21);
    }
}

fn verdict(ratio: f64, aim: f64) -> &'static str {
    if ratio >= aim { "holds " } else { "missed" }
}

#[cfg(test)]
mod tests {
    use super::{OMPIO, PARIO_ON_MPICH, ROMIO, better, mean, pairs};
    use crate::bench::collective::Job;
    use crate::bench::collective::turns::tests::row;
    use crate::bench::collective::turns::{Direction, Measured};

    fn two_patterns() -> Measured {
        let job = Job {
            ranks: 2,
            place: "disk",
            turns: 1,
            overwrite: false,
            patterns: vec!["bt".into(), "s3d".into()],
            contenders: vec![ROMIO, OMPIO, PARIO_ON_MPICH],
        };
        let bt = row("bt", &[(ROMIO, 8.0, 1.0), (OMPIO, 9.0, 4.0), (PARIO_ON_MPICH, 4.0, 2.0)]);
        let s3d = row("s3d", &[(ROMIO, 9.0, 8.0), (OMPIO, 8.0, 9.0), (PARIO_ON_MPICH, 1.0, 1.0)]);
        Measured { job, rows: vec![bt, s3d] }
    }

    #[test]
    fn the_mean_is_over_the_better_host() {
        let measured = two_patterns();
        let hosts = measured.rows.iter().map(|row| better(row, Direction::Write));
        assert_eq!(hosts.collect::<Vec<_>>(), [Some(ROMIO), Some(OMPIO)]);
        let mean = mean(&[measured], Direction::Write, &[ROMIO, OMPIO], PARIO_ON_MPICH);
        assert!((mean - 4.0).abs() < 1e-9, "the root of 2 times 8, not {mean}");
    }

    #[test]
    fn the_least_ratio_comes_first() {
        let results = [two_patterns()];
        let pairs = pairs(&results, &[(ROMIO, PARIO_ON_MPICH), (OMPIO, PARIO_ON_MPICH)]);
        assert_eq!(pairs.len(), 8);
        assert_eq!(pairs[0].describe(), "0.50 (0.50–0.50) read bt, ROMIO / Pario/M, 2 ranks, disk");
    }
}
