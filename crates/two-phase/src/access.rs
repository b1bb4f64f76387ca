//! One collective access on one rank: meet, move, settle.

use pario_buffer::UserBuffer;
use pario_types::{ErrorKind, Pos};
use pario_view::View;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::claim::Claim;
use crate::cost::{Costs, Lesson};
use crate::coverage::Coverage;
use crate::meeting::Meeting;
use crate::moving::Moving;
use crate::plan::{Settings, Together, Way, plan};
use crate::seat::Seat;
use crate::tally::Tally;
use crate::world::World;

/// What one rank wants moved.
pub struct Job {
    /// Whether to the file.
    pub write: bool,
    /// Its view.
    pub view: Arc<View>,
    /// Where in the view.
    pub at: Pos,
    /// How many bytes.
    pub len: u64,
    /// Its memory, used from its first byte on.
    pub buffer: UserBuffer,
}

/// How a collective access ended on this rank.
#[derive(Debug)]
pub enum Outcome<E> {
    /// All ranks succeeded; so many bytes were moved here.
    Moved(u64),
    /// No byte was moved anywhere, because of this rank's arguments.
    Refused(u32, ErrorKind),
    /// This rank's part failed.
    Failed(E),
    /// That rank's part failed, this one's did not.
    FailedElsewhere(u32, ErrorKind),
}

/// What [`Access::step`] has come to.
pub enum Step<E> {
    /// Others have to do something first.
    Waiting,
    /// All ranks' claims were fine (told once, and not for an access that is refused).
    Agreed,
    /// It is over.
    Done(Outcome<E>),
}

/// A collective access under way.
pub struct Access<W: World> {
    job: Option<Job>,
    settings: Arc<Settings>,
    coverage: Arc<Coverage>,
    costs: Costs,
    together: Option<Together>,
    /// When this rank knew the way.
    set_out: Instant,
    state: State<W>,
    /// What it took.
    pub tally: Tally,
    /// How it was done, once that is known.
    pub way: Option<Way>,
    begun: Instant,
    /// Time from the first step to the last.
    pub elapsed: Duration,
    /// What it teaches about the way that it went, once it is over; the same on all ranks.
    pub lesson: Option<Lesson>,
}

enum State<W: World> {
    Coming(Claim),
    Meeting(Meeting<W::Transfer>),
    Direct,
    Moving(Box<Moving<W>>),
    Settling(Meeting<W::Transfer>, Result<u64, W::Error>),
    Over,
}

impl<W: World> Access<W> {
    /// An access with a claim, and a job if the claim is not an error.
    pub fn new(
        claim: Claim,
        job: Option<Job>,
        settings: Arc<Settings>,
        coverage: Arc<Coverage>,
        costs: Costs,
    ) -> Access<W> {
        let (tally, begun) = (Tally::default(), Instant::now());
        let (state, elapsed) = (State::Coming(claim), Duration::ZERO);
        let (way, together, lesson, set_out) = (None, None, None, begun);
        Access {
            job,
            settings,
            coverage,
            costs,
            together,
            set_out,
            state,
            tally,
            way,
            begun,
            elapsed,
            lesson,
        }
    }

    /// The job, for who needs its memory back.
    pub fn into_job(self) -> Option<Job> {
        self.job
    }

    /// Goes as far as possible without waiting. An error here means that messages to other ranks fail, and
    /// that this access cannot be brought to an end.
    pub fn step(&mut self, seat: &mut Seat, world: &mut W) -> Result<Step<W::Error>, W::Error> {
        loop {
            match &mut self.state {
                State::Coming(claim) => {
                    self.state = State::Meeting(Meeting::come(seat, &claim.words()));
                }
                State::Meeting(meeting) => {
                    if !meeting.step(seat, world)? {
                        return Ok(Step::Waiting);
                    }
                    let claims: Vec<Claim> =
                        (0..seat.ranks()).map(|rank| Claim::from_words(&meeting.words(seat, rank))).collect();
                    if let Some(step) = self.set_out(claims, seat, world)? {
                        return Ok(step);
                    }
                }
                State::Direct => {
                    let result = match &self.job {
                        Some(job) => self.tally.timed(|| world.direct(job)),
                        None => Ok(0),
                    };
                    self.settle(seat, result);
                }
                State::Moving(moving) => {
                    if !moving.step(self.job.as_ref(), seat, world, &mut self.tally)? {
                        return Ok(Step::Waiting);
                    }
                    let result = moving.finish(seat);
                    self.settle(seat, result);
                }
                State::Settling(meeting, _) => {
                    if !meeting.step(seat, world)? {
                        return Ok(Step::Waiting);
                    }
                    return Ok(Step::Done(self.conclude(seat)));
                }
                State::Over => return Ok(Step::Waiting),
            }
        }
    }

    /// Begins what the claims ask for.
    fn set_out(
        &mut self,
        claims: Vec<Claim>,
        seat: &mut Seat,
        world: &mut W,
    ) -> Result<Option<Step<W::Error>>, W::Error> {
        self.together = Some(Together::of(&claims));
        self.set_out = Instant::now();
        let way = plan(&claims, &self.settings, &self.coverage, &self.costs);
        let step = match &way {
            Way::Refused { kind, rank } => {
                self.state = State::Over;
                self.elapsed = self.begun.elapsed();
                Step::Done(Outcome::Refused(*rank, *kind))
            }
            Way::Nothing => {
                self.settle(seat, Ok(0));
                Step::Agreed
            }
            Way::Direct(_) => {
                // On the next step, so that who wants to can hand that over to another thread.
                self.state = State::Direct;
                Step::Agreed
            }
            Way::Windows { partition, covered, .. } => {
                let coverage = self.coverage.clone();
                let moving =
                    Moving::windows(claims, partition, *covered, &self.settings, coverage, seat, world)?;
                self.state = State::Moving(Box::new(moving));
                Step::Agreed
            }
        };
        self.way = Some(way);
        Ok(Some(step))
    }

    fn settle(&mut self, seat: &mut Seat, result: Result<u64, W::Error>) {
        let code = result.as_ref().map_or_else(|e| W::kind(e).code(), |_| 0);
        let took = self.set_out.elapsed().as_nanos() as u64;
        self.state = State::Settling(Meeting::come(seat, &[code, took]), result);
    }

    fn conclude(&mut self, seat: &Seat) -> Outcome<W::Error> {
        self.elapsed = self.begun.elapsed();
        let State::Settling(meeting, result) = std::mem::replace(&mut self.state, State::Over) else {
            unreachable!("only called when settled");
        };
        let failed = (0..seat.ranks())
            .find_map(|rank| ErrorKind::from_code(meeting.words(seat, rank)[0]).map(|kind| (rank, kind)));
        let longest = (0..seat.ranks()).map(|rank| meeting.words(seat, rank)[1]).max().unwrap_or(0);
        self.lesson = match (&self.way, &self.together, failed) {
            (Some(way), Some(together), None) => way.lesson(together, longest),
            _ => None,
        };
        match (result, failed) {
            (Err(e), _) => Outcome::Failed(e),
            (Ok(_), Some((rank, kind))) => Outcome::FailedElsewhere(rank, kind),
            (Ok(bytes), None) => Outcome::Moved(bytes),
        }
    }
}
