//! The progress of long work, shown to the user on standard error.
//!
//! On a terminal `indicatif` redraws one line. Elsewhere, if the user asks for it, a thread prints a new line every
//! few seconds; `indicatif` draws on terminals only.

use crate::text::span;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};
use pario_types::Progress;
use pario_types::short_size;
use std::io::IsTerminal;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// The time between two drawings on a terminal.
const REDRAW: Duration = Duration::from_millis(200);
/// The time between two lines elsewhere.
const NEXT_LINE: Duration = Duration::from_secs(2);

/// Shows bytes done of bytes to do, until it is dropped.
pub struct ProgressDisplay {
    bar: ProgressBar,
    /// Whether the total is final.
    total_known: Arc<AtomicBool>,
    printer: Option<LinePrinter>,
}

/// The thread that prints lines where there is no terminal.
struct LinePrinter {
    end: Sender<()>,
    thread: JoinHandle<()>,
}

impl ProgressDisplay {
    /// Shows the progress on a terminal; elsewhere only if `always` is set.
    pub fn start(always: bool) -> ProgressDisplay {
        let is_terminal = std::io::stderr().is_terminal();
        let total_known = Arc::new(AtomicBool::new(false));
        let target = if is_terminal { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if is_terminal {
            let known = Arc::clone(&total_known);
            let draw = move |state: &ProgressState, out: &mut dyn std::fmt::Write| {
                let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
                let counts = Counts {
                    done: state.pos(),
                    total: state.len().unwrap_or(0),
                    total_known: known.load(Relaxed),
                };
                // What cannot be drawn is left out.
                let _ = out.write_str(&line(counts, state.per_sec(), width.saturating_sub(1)));
            };
            let style = ProgressStyle::with_template("{line}").expect("a valid template");
            bar.set_style(style.with_key("line", draw));
            bar.enable_steady_tick(REDRAW);
        }
        let printer =
            (always && !is_terminal).then(|| LinePrinter::start(bar.clone(), Arc::clone(&total_known)));
        ProgressDisplay { bar, total_known, printer }
    }

    /// Whether the user sees the progress.
    pub fn is_shown(&self) -> bool {
        self.printer.is_some() || !self.bar.is_hidden()
    }

    /// Prints a message on a line of its own.
    pub fn print(&self, message: &str) {
        self.bar.suspend(|| eprintln!("{message}"));
    }
}

impl Progress for ProgressDisplay {
    fn expect(&self, bytes: u64) {
        self.bar.inc_length(bytes);
    }

    fn total_known(&self) {
        self.total_known.store(true, Relaxed);
    }

    fn advance(&self, bytes: u64) {
        self.bar.inc(bytes);
    }
}

impl Drop for ProgressDisplay {
    fn drop(&mut self) {
        if let Some(LinePrinter { end, thread }) = self.printer.take() {
            drop(end);
            // If the thread panicked, only lines are missing.
            let _ = thread.join();
        }
        self.bar.finish_and_clear();
    }
}

impl LinePrinter {
    fn start(bar: ProgressBar, total_known: Arc<AtomicBool>) -> LinePrinter {
        let (end, ended) = channel::<()>();
        let thread = std::thread::spawn(move || {
            while ended.recv_timeout(NEXT_LINE) == Err(RecvTimeoutError::Timeout) {
                let counts = Counts {
                    done: bar.position(),
                    total: bar.length().unwrap_or(0),
                    total_known: total_known.load(Relaxed),
                };
                eprintln!("{}", line(counts, bar.per_sec(), 80));
            }
        });
        LinePrinter { end, thread }
    }
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Counts {
    done: u64,
    total: u64,
    total_known: bool,
}

/// The progress in one line of at most `width` characters. `rate` is in bytes per second.
fn line(counts: Counts, rate: f64, width: usize) -> String {
    let Counts { done, total, total_known } = counts;
    let mut words = format!("{} of {}", short_size(done), short_size(total));
    if !total_known {
        words.push('+');
    }
    words += &format!("  {}/s", short_size(rate as u64));
    if total_known && rate >= 1.0 {
        let left = total.saturating_sub(done) as f64 / rate;
        words += &format!("  {} left", span(Duration::from_secs_f64(left.ceil().min(1e9))));
    }
    let share = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let percent = format!("{:3.0}%  ", share * 100.0);
    let bar = width.saturating_sub(percent.len() + words.len() + 4).min(40);
    let text = match bar {
        0..8 => percent + &words,
        _ => {
            let full = (share * bar as f64) as usize;
            format!("[{:bar$}]  {percent}{words}", "#".repeat(full))
        }
    };
    text.chars().take(width).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_shows_progress_rate_and_time_left() {
        let counts = Counts { done: 1 << 30, total: 4 << 30, total_known: true };
        let text = line(counts, (64 << 20) as f64, 71);
        assert_eq!(text, "[########                        ]   25%  1.0G of 4.0G  64M/s  48s left");
        let text = line(counts, (64 << 20) as f64, 40);
        assert_eq!(text, " 25%  1.0G of 4.0G  64M/s  48s left");
        let growing = Counts { total_known: false, ..counts };
        assert_eq!(line(growing, 0.0, 30), " 25%  1.0G of 4.0G+  0/s");
        let nothing = Counts { done: 0, total: 0, total_known: true };
        assert!(line(nothing, 0.0, 20).starts_with("100%"));
    }

    #[test]
    fn a_display_adds_up_what_is_expected_and_done() {
        let display = ProgressDisplay::start(false);
        display.expect(10);
        display.expect(5);
        display.advance(7);
        assert_eq!((display.bar.position(), display.bar.length()), (7, Some(15)));
        assert!(!display.total_known.load(Relaxed));
        display.total_known();
        assert!(display.total_known.load(Relaxed));
    }

    #[test]
    fn lines_are_printed_where_the_user_asks_for_them() {
        let display = ProgressDisplay::start(true);
        assert!(display.is_shown());
        // Dropping it ends the thread at once.
        drop(display);
    }

    proptest! {
        #[test]
        fn a_line_fits(done: u64, total: u64, total_known: bool, rate in 0.0f64..1e18, width in 0usize..200) {
            let text = line(Counts { done, total, total_known }, rate, width);
            prop_assert!(text.chars().count() <= width);
        }
    }
}
