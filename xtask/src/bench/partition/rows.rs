//! What the program printed, as rows of a table.

use crate::numbers::Times;
use crate::program::{Failure, Outcome};

/// One case, turn by turn.
#[derive(Debug)]
pub struct Row {
    pub case: String,
    /// Bytes of an access; 0 where there are none.
    pub size: u64,
    pub clients: u32,
    operations: f64,
    bytes: f64,
    seconds: Times,
    /// Without Pario; none where there is nothing to compare with.
    limit: Times,
    pub shares: Times,
}

/// By clients, then by case in the order in which the program has them, then by size.
#[derive(Debug, Default)]
pub struct Rows(pub Vec<Row>);

impl Rows {
    pub fn parse(said: &str) -> Outcome<Rows> {
        let mut rows = Rows::default();
        for line in said.lines() {
            rows.keep(line).ok_or_else(|| Failure::new(format!("measure said `{line}`")))?;
        }
        let order: Vec<String> = rows.0.iter().map(|row| row.case.clone()).collect();
        let first = |row: &Row| order.iter().position(|case| *case == row.case);
        rows.0.sort_by_key(|row| (row.clients, first(row), row.size));
        Ok(rows)
    }

    /// `measured CASE SIZE CLIENTS OPERATIONS BYTES SECONDS LIMIT`
    fn keep(&mut self, line: &str) -> Option<()> {
        let words: Vec<&str> = line.strip_prefix("measured ")?.split(' ').collect();
        let &[case, size, clients, operations, bytes, seconds, limit] = words.as_slice() else { return None };
        let (size, clients) = (size.parse().ok()?, clients.parse().ok()?);
        let known =
            self.0.iter().position(|row| (&*row.case, row.size, row.clients) == (case, size, clients));
        let index = known.unwrap_or(self.0.len());
        if known.is_none() {
            self.0.push(Row {
                case: case.to_string(),
                size,
                clients,
                operations: operations.parse().ok()?,
                bytes: bytes.parse().ok()?,
                seconds: Times::default(),
                limit: Times::default(),
                shares: Times::default(),
            });
        }
        let row = &mut self.0[index];
        let seconds: f64 = seconds.parse().ok()?;
        row.seconds.add(seconds);
        if limit != "-" {
            let limit: f64 = limit.parse().ok()?;
            row.limit.add(limit);
            row.shares.add(limit / seconds);
        }
        Some(())
    }

    /// Bandwidths.
    pub fn show(&self, title: &str, limit: &str) {
        println!("\n{title}");
        println!(
            "{:<14}{:>8}{:>9}{:>10}{:>13}{:>12}{:>22}",
            "access", "size", "clients", "GiB/s", limit, "µs/access", "share"
        );
        for row in &self.0 {
            println!(
                "{:<14}{:>8}{:>9}{:>10.2}{:>13.2}{:>12.2}{:>22}",
                row.case,
                spell(row.size),
                row.clients,
                row.speed(&row.seconds),
                row.speed(&row.limit),
                row.nanoseconds() / 1e3,
                row.shares.as_ratio()
            );
        }
    }

    /// Operations per second.
    pub fn show_rates(&self, title: &str) {
        println!("\n{title}");
        println!("{:<14}{:>9}{:>12}{:>24}", "operation", "clients", "per second", "(quartiles)");
        for row in &self.0 {
            let rate = |seconds: f64| row.operations / seconds;
            let spread =
                format!("({:.0}–{:.0})", rate(row.seconds.quartile(3)), rate(row.seconds.quartile(1)));
            println!("{:<14}{:>9}{:>12.0}{spread:>24}", row.case, row.clients, rate(row.seconds.median()));
        }
    }
}

impl Row {
    /// Of one access of one client.
    pub fn nanoseconds(&self) -> f64 {
        self.seconds.median() / self.operations * f64::from(self.clients) * 1e9
    }

    fn speed(&self, seconds: &Times) -> f64 {
        self.bytes / seconds.median() / f64::from(1 << 30)
    }

    pub fn describe(&self) -> String {
        format!("{} of {}, {} client(s)", self.case, spell(self.size), self.clients)
    }
}

fn spell(size: u64) -> String {
    match size {
        0x10_0000.. if size.is_multiple_of(0x10_0000) => format!("{} MiB", size >> 20),
        0x400.. if size.is_multiple_of(0x400) => format!("{} KiB", size >> 10),
        _ => format!("{size} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::{Rows, spell};

    #[test]
    fn lines_become_rows_in_order() {
        let said = "measured write 65536 4 10 1000 0.5 0.25\nmeasured read 4096 1 10 1000 4 2\n\
                    measured write 4096 1 10 1000 1 1\nmeasured read 4096 1 10 1000 2 2\n";
        let rows = Rows::parse(said).expect("good lines").0;
        let described: Vec<String> = rows.iter().map(super::Row::describe).collect();
        let expected =
            ["write of 4 KiB, 1 client(s)", "read of 4 KiB, 1 client(s)", "write of 64 KiB, 4 client(s)"];
        assert_eq!(described, expected);
        assert_eq!(rows[1].shares.as_ratio(), "0.75 (0.62–0.88)");
        assert!((rows[2].nanoseconds() - 2e8).abs() < 1.0, "four at a time: {}", rows[2].nanoseconds());
    }

    #[test]
    fn other_lines_are_refused() {
        for line in ["", "measured write 4096 1", "measured write x 1 1 1 1 1", "hello"] {
            assert!(Rows::parse(&format!("{line}\n")).is_err(), "{line}");
        }
        assert!(Rows::parse("measured stat 0 1 10 0 1 -\n").is_ok());
    }

    #[test]
    fn sizes_are_short() {
        assert_eq!([0, 4096, 1 << 20, 1025].map(spell), ["0 B", "4 KiB", "1 MiB", "1025 B"]);
    }
}
