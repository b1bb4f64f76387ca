//! The colours of values: from dark violet for the least to yellow for the most, even in lightness, so that the
//! order shows also without colour.

/// Red, green, blue at equal steps.
const STOPS: [[f64; 3]; 6] = [
    [68.0, 1.0, 84.0],
    [65.0, 68.0, 135.0],
    [42.0, 120.0, 142.0],
    [34.0, 168.0, 132.0],
    [122.0, 209.0, 81.0],
    [253.0, 231.0, 37.0],
];

/// A colour and whether text on it has to be dark, for a value from 0 to 1.
fn at(part: f64) -> ([u8; 3], bool) {
    let place = part.clamp(0.0, 1.0) * (STOPS.len() - 1) as f64;
    let below = (place as usize).min(STOPS.len() - 2);
    let within = place - below as f64;
    let mix = |i: usize| STOPS[below][i] + (STOPS[below + 1][i] - STOPS[below][i]) * within;
    let color = [mix(0), mix(1), mix(2)].map(|c| c.round() as u8);
    (color, part > 0.55)
}

/// The fill of a cell and its text's, as web colours. Where all values are one, they count as the most.
pub(crate) fn of(value: f64, (least, most): (f64, f64)) -> (String, &'static str) {
    let part = if most > least { (value - least) / (most - least) } else { 1.0 };
    let ([red, green, blue], dark) = at(part);
    (format!("#{red:02x}{green:02x}{blue:02x}"), if dark { "#111111" } else { "#ffffff" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ends_and_the_middle() {
        assert_eq!(of(0.0, (0.0, 10.0)), ("#440154".into(), "#ffffff"));
        assert_eq!(of(10.0, (0.0, 10.0)), ("#fde725".into(), "#111111"));
        assert_eq!(of(4.0, (0.0, 10.0)), ("#2a788e".into(), "#ffffff"));
        assert_eq!(of(3.0, (3.0, 3.0)).0, "#fde725");
    }
}
