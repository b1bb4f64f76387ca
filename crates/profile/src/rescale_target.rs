//! The target of rescaling a plan, as the user writes it.

use crate::rescale::{Ratio, RescaleTarget};
use pario_placement::PlacementPlan;
use pario_types::parse_size;

/// A part of the user's target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rescaling {
    /// All files become so many times as long.
    Factor(Ratio),
    /// The longest file has so many bytes, and the others are in proportion.
    Size(u64),
    /// There are so many ranks.
    Ranks(u32),
}

impl Rescaling {
    /// Parses `size=2x`, `size=64G` or `ranks=16`.
    pub fn parse(text: &str) -> Result<Rescaling, String> {
        let form = || "size=2x, size=64G or ranks=16 is the form".to_owned();
        match text.split_once('=') {
            Some(("ranks", ranks)) => {
                ranks.parse().ok().filter(|&ranks| ranks > 0).map(Rescaling::Ranks).ok_or_else(form)
            }
            Some(("size", size)) => match size.strip_suffix('x') {
                Some(factor) => Ratio::parse(factor).map(Rescaling::Factor).ok_or_else(form),
                None => parse_size(size)
                    .filter(|&size| size > 0 && size <= i64::MAX as u64)
                    .map(Rescaling::Size)
                    .ok_or_else(form),
            },
            _ => Err(form()),
        }
    }
}

impl Ratio {
    /// A factor with up to nine decimals.
    pub fn parse(text: &str) -> Option<Ratio> {
        let (whole, part) = text.split_once('.').unwrap_or((text, ""));
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 9 {
            return None;
        }
        let of = 10u64.pow(part.len() as u32);
        let part = if part.is_empty() { 0 } else { part.parse::<u64>().ok()? };
        let to = whole.parse::<u64>().ok()?.checked_mul(of)?.checked_add(part)?;
        (to > 0).then_some(Ratio { to, of })
    }
}

impl RescaleTarget {
    /// The target that these parts make for a plan.
    pub fn of(parts: &[Rescaling], plan: &PlacementPlan) -> RescaleTarget {
        let longest = plan.files.iter().filter_map(|file| file.chunks.last()).map(|chunk| chunk.end()).max();
        let mut target = RescaleTarget { size: Ratio::ONE, ranks: None };
        for part in parts {
            match *part {
                Rescaling::Factor(ratio) => target.size = ratio,
                Rescaling::Size(to) => target.size = Ratio { to, of: longest.unwrap_or(1) },
                Rescaling::Ranks(ranks) => target.ranks = Some(ranks),
            }
        }
        target
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rescalings_are_parsed() {
        assert_eq!(Rescaling::parse("size=2x"), Ok(Rescaling::Factor(Ratio { to: 2, of: 1 })));
        assert_eq!(Rescaling::parse("size=1.25x"), Ok(Rescaling::Factor(Ratio { to: 125, of: 100 })));
        assert_eq!(Rescaling::parse("size=64G"), Ok(Rescaling::Size(64 << 30)));
        assert_eq!(Rescaling::parse("ranks=16"), Ok(Rescaling::Ranks(16)));
        for wrong in
            ["", "size", "size=", "size=x", "size=0x", "size=-2x", "size=0", "ranks=0", "ranks=x", "time=2x"]
        {
            assert!(Rescaling::parse(wrong).is_err(), "{wrong}");
        }
    }
}
