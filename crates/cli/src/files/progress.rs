//! How far long work has come: counters that workers add to, and a line for the user, drawn by a thread.
//!
//! On a terminal one line is drawn over and over; elsewhere, if the user asks for it, a new one comes every
//! few seconds. The thread sleeps in between and ends with the [`Display`].

use super::text::{short_size, span};
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Between two drawings on a terminal, and between two lines elsewhere.
const REDRAW: Duration = Duration::from_millis(200);
const NEXT_LINE: Duration = Duration::from_secs(2);

/// The rate is that of this many drawings.
const SAMPLES: usize = 20;

/// Bytes done of bytes to do.
#[derive(Debug, Default)]
pub struct Meter {
    done: AtomicU64,
    total: AtomicU64,
    /// Whether the total will not grow any more.
    settled: AtomicBool,
}

impl Meter {
    /// There is more to do.
    pub fn expect(&self, bytes: u64) {
        self.total.fetch_add(bytes, Relaxed);
    }

    /// All that there is to do is known.
    pub fn settle(&self) {
        self.settled.store(true, Relaxed);
    }

    /// Some of it is done.
    pub fn add(&self, bytes: u64) {
        self.done.fetch_add(bytes, Relaxed);
    }

    fn look(&self) -> Look {
        Look {
            done: self.done.load(Relaxed),
            total: self.total.load(Relaxed),
            settled: self.settled.load(Relaxed),
        }
    }
}

/// The counters at one moment.
#[derive(Clone, Copy, Debug)]
struct Look {
    done: u64,
    total: u64,
    settled: bool,
}

/// The rate of late.
#[derive(Debug, Default)]
struct Speed(VecDeque<(Duration, u64)>);

impl Speed {
    /// At this time so much was done.
    fn add(&mut self, at: Duration, done: u64) {
        self.0.push_back((at, done));
        if self.0.len() > SAMPLES {
            self.0.pop_front();
        }
    }

    /// Bytes per second; 0 before it can be told.
    fn rate(&self) -> f64 {
        match (self.0.front(), self.0.back()) {
            (Some((first, before)), Some((last, after))) if last > first => {
                after.saturating_sub(*before) as f64 / (*last - *first).as_secs_f64()
            }
            _ => 0.0,
        }
    }
}

/// How far it is, in one line of at most `width` characters.
fn line(look: Look, rate: f64, width: usize) -> String {
    let Look { done, total, settled } = look;
    let mut words = format!("{} of {}", short_size(done), short_size(total));
    if !settled {
        words.push('+');
    }
    words += &format!("  {}/s", short_size(rate as u64));
    if settled && rate >= 1.0 {
        let left = total.saturating_sub(done) as f64 / rate;
        words += &format!("  {} left", span(Duration::from_secs_f64(left.ceil().min(1e9))));
    }
    let part = if total == 0 { 1.0 } else { (done as f64 / total as f64).min(1.0) };
    let percent = format!("{:3.0}%  ", part * 100.0);
    let bar = width.saturating_sub(percent.len() + words.len() + 4).min(40);
    let text = match bar {
        0..8 => percent + &words,
        _ => {
            let full = (part * bar as f64) as usize;
            format!("[{:bar$}]  {percent}{words}", "#".repeat(full))
        }
    };
    text.chars().take(width).collect()
}

/// How the user wants to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manner {
    Nothing,
    Redrawn,
    Lines,
}

/// Shows a meter to the user as long as it lives.
pub struct Display {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    meter: Arc<Meter>,
    manner: Manner,
    screen: Mutex<Screen>,
    ended: Condvar,
}

struct Screen {
    ended: bool,
    /// Whether the line of a terminal is drawn on.
    drawn: bool,
}

impl Display {
    /// Shows it on a terminal, elsewhere only if `always`.
    pub fn start(meter: Arc<Meter>, always: bool) -> Display {
        let manner = match (std::io::stderr().is_terminal(), always) {
            (true, _) => Manner::Redrawn,
            (false, true) => Manner::Lines,
            (false, false) => Manner::Nothing,
        };
        let screen = Mutex::new(Screen { ended: false, drawn: false });
        let shared = Arc::new(Shared { meter, manner, screen, ended: Condvar::new() });
        let thread = (manner != Manner::Nothing).then(|| {
            let shared = Arc::clone(&shared);
            std::thread::spawn(move || shared.run())
        });
        Display { shared, thread }
    }

    /// Whether the user sees it.
    pub fn is_shown(&self) -> bool {
        self.shared.manner != Manner::Nothing
    }

    /// A message to the user, on a line of its own.
    pub fn say(&self, message: &str) {
        let mut screen = self.shared.lock();
        screen.clear();
        eprintln!("{message}");
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.ended.notify_all();
        if let Some(thread) = self.thread.take() {
            // Should it have panicked, there is no line to clear.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Screen> {
        self.screen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn run(&self) {
        let since = Instant::now();
        let pause = if self.manner == Manner::Redrawn { REDRAW } else { NEXT_LINE };
        let mut speed = Speed::default();
        let mut screen = self.lock();
        loop {
            let look = self.meter.look();
            speed.add(since.elapsed(), look.done);
            if since.elapsed() >= pause {
                self.draw(&mut screen, look, speed.rate());
            }
            let waited = self.ended.wait_timeout_while(screen, pause, |screen| !screen.ended);
            screen = waited.unwrap_or_else(PoisonError::into_inner).0;
            if screen.ended {
                screen.clear();
                return;
            }
        }
    }

    fn draw(&self, screen: &mut Screen, look: Look, rate: f64) {
        let mut output = std::io::stderr().lock();
        // A terminal that is gone is no reason to stop working.
        let _ = match self.manner {
            Manner::Redrawn => {
                let width = terminal_size::terminal_size().map_or(80, |(width, _)| usize::from(width.0));
                screen.drawn = true;
                write!(output, "\r\x1b[K{}", line(look, rate, width.saturating_sub(1)))
            }
            _ => writeln!(output, "{}", line(look, rate, 80)),
        };
        let _ = output.flush();
    }
}

impl Screen {
    fn clear(&mut self) {
        if std::mem::take(&mut self.drawn) {
            eprint!("\r\x1b[K");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_line_says_how_far_and_how_long() {
        let look = Look { done: 1 << 30, total: 4 << 30, settled: true };
        let text = line(look, (64 << 20) as f64, 71);
        assert_eq!(text, "[########                        ]   25%  1.0G of 4.0G  64M/s  48s left");
        let text = line(look, (64 << 20) as f64, 40);
        assert_eq!(text, " 25%  1.0G of 4.0G  64M/s  48s left");
        let unsettled = Look { settled: false, ..look };
        assert_eq!(line(unsettled, 0.0, 30), " 25%  1.0G of 4.0G+  0/s");
        let nothing = Look { done: 0, total: 0, settled: true };
        assert!(line(nothing, 0.0, 20).starts_with("100%"));
    }

    #[test]
    fn the_rate_is_that_of_late() {
        let mut speed = Speed::default();
        assert_eq!(speed.rate(), 0.0);
        for second in 0..100 {
            // Slow at first, then fast.
            let done = if second < 50 { second } else { 50 + (second - 50) * 1000 };
            speed.add(Duration::from_secs(second), done);
        }
        assert_eq!(speed.rate(), 1000.0);
    }

    #[test]
    fn a_meter_adds_up() {
        let meter = Meter::default();
        meter.expect(10);
        meter.expect(5);
        meter.add(7);
        let look = meter.look();
        assert_eq!((look.done, look.total, look.settled), (7, 15, false));
        meter.settle();
        assert!(meter.look().settled);
    }

    proptest! {
        #[test]
        fn a_line_fits(done: u64, total: u64, settled: bool, rate in 0.0f64..1e18, width in 0usize..200) {
            let text = line(Look { done, total, settled }, rate, width);
            prop_assert!(text.chars().count() <= width);
        }
    }
}
