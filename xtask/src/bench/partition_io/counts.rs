//! What each strategy takes in messages, collective operations and requests: BT on 9 ranks that each take themselves to be on
//! a node of their own, so that what would go through memory is counted as messages.

use super::Bench;
use super::outcome::number_in;
use crate::program::{self, Failure, Outcome, at};

const STRATEGIES: [&str; 3] = ["two-phase", "server-directed", "client-directed"];
const RANKS: u32 = 9;
const STEPS: u32 = 5;

/// Rows of the table: what, and its name in the statistics.
const ROWS: [(&str, &str); 8] = [
    ("messages between ranks", "messages"),
    ("bytes in them", "message_bytes"),
    ("operations of the host MPI", "host_calls"),
    ("requests to servers that ranks wait for", "server_requests"),
    ("bytes of data in them", "server_bytes"),
    ("bytes to servers in the background", "staged_bytes"),
    ("pieces of the file", "pieces"),
    ("windows", "rounds"),
];

pub fn show(bench: &Bench<'_>) -> Outcome {
    let partition = bench.up()?;
    let mut columns = Vec::new();
    for strategy in STRATEGIES {
        let file = bench.site.dir().join(format!("counts-{}-{strategy}", bench.host.name));
        let mut command = bench.host.launch_with_pario(RANKS);
        command.arg(format!("PARIO_HINTS=pario_strategy={strategy}"));
        command.arg(format!("PARIO_HOME={}", partition.home().display()));
        command.arg(format!("PARIO_STATS=json:{}", file.display()));
        command.args(["sh", "-c", OWN_NODE]).arg(&bench.program);
        command.args(["btio", "--preset", "bt-A", "--steps", &STEPS.to_string(), "--dir"]);
        program::stdout(command.arg(format!("pario:{}", super::NAME)))?;
        columns.push(at(&file, std::fs::read_to_string(&file))?);
    }
    println!(
        "\n{}: what {STEPS} arrays of BT class A take, written and read on {RANKS} ranks of {RANKS} nodes",
        bench.host.label
    );
    println!("  {:<42}{:>16}{:>18}{:>18}", "", STRATEGIES[0], STRATEGIES[1], STRATEGIES[2]);
    for (label, name) in ROWS {
        let sums: Outcome<Vec<u64>> = columns.iter().map(|text| total(text, name)).collect();
        let [a, b, c] = sums?[..] else { unreachable!("one for each strategy") };
        println!("  {label:<42}{a:>16}{b:>18}{c:>18}");
    }
    Ok(())
}

/// Starts its arguments on a node of the rank's own.
const OWN_NODE: &str = r#"export PARIO_NODE="node${PMI_RANK:-$OMPI_COMM_WORLD_RANK}"; exec "$0" "$@""#;

/// A number of all files' totals.
fn total(text: &str, name: &str) -> Outcome<u64> {
    let mut sum = 0;
    for line in text.lines().filter(|line| line.contains("\"totals\"")) {
        let value: Option<u64> = number_in(line, "totals", name);
        sum += value.ok_or_else(|| Failure::new(format!("the statistics have no `{name}`: {line}")))?;
    }
    Ok(sum)
}
