//! Waiting for a condition: tests do not sleep for a fixed time and hope that it was long enough.

use std::time::{Duration, Instant};

/// Between two looks at the condition.
const PAUSE: Duration = Duration::from_millis(5);

/// Waits until the condition holds. Returns `false` if it does not within the limit, which is generous: it is only reached when
/// the test fails.
#[must_use = "the condition may not hold"]
pub fn eventually(limit: Duration, mut condition: impl FnMut() -> bool) -> bool {
    let until = Instant::now() + limit;
    while !condition() {
        if Instant::now() >= until {
            return false;
        }
        std::thread::sleep(PAUSE);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_is_evaluated_until_it_holds() {
        let mut looks = 0;
        assert!(eventually(Duration::from_secs(60), || {
            looks += 1;
            looks == 3
        }));
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_condition_that_never_holds_is_given_up_at_the_limit() {
        let mut looks = 0;
        assert!(!eventually(Duration::ZERO, || {
            looks += 1;
            false
        }));
        assert_eq!(looks, 1, "also a limit of zero allows one look");
    }
}
