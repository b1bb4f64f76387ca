//! Numbers for people.

/// Three digits and a decimal prefix: `1.23 G`.
pub fn rate(value: f64) -> String {
    const PREFIXES: [&str; 7] = ["", "k", "M", "G", "T", "P", "E"];
    let mut scaled = value;
    let mut prefix = 0;
    while scaled.abs() >= 999.5 && prefix + 1 < PREFIXES.len() {
        scaled /= 1000.0;
        prefix += 1;
    }
    let digits = match scaled.abs() {
        small if small >= 99.95 => 0,
        small if small >= 9.995 => 1,
        _ => 2,
    };
    format!("{scaled:.digits$} {}", PREFIXES[prefix]).trim_end().to_owned()
}

/// 2 to the power of a logarithm, as a number if it is a whole one.
pub fn power(log: f64) -> String {
    let value = log.exp2();
    if (value - value.round()).abs() < 1e-9 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        assert_eq!([1.0, 12.34, 999.6, 1.234e9].map(rate), ["1.00", "12.3", "1.00 k", "1.23 G"]);
        assert_eq!([power(3.0), power(2.5)], ["8", "5.7"]);
    }
}
