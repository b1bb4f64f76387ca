//! Moving the bytes of one access through windows.
//!
//! An aggregator's domain is a *lane* of windows, one a round. A rank visits all lanes in turn and goes on in
//! each as far as its slots allow, so nobody waits in one lane while there is work in another. In a lane of
//! its own node a rank copies into or out of the window itself; to a lane of another node it sends, or from
//! there it receives. The aggregator besides stands in for the ranks of other nodes.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};

use pario_domain::Partition;

use crate::access::Job;
use crate::claim::Claim;
use crate::coverage::Coverage;
use crate::part::Want;
use crate::plan::Settings;
use crate::seat::Seat;
use crate::tally::Tally;
use crate::world::World;

mod away;
mod host;
mod lane;
mod local;

use away::Away;
use host::Host;
use lane::Lane;
use local::Local;

/// The second phase of an access.
pub(crate) struct Moving<W: World> {
    lanes: Vec<Course<W>>,
    /// Which lane to visit first.
    first: usize,
    plan: Plan,
    moved: u64,
    error: Option<W::Error>,
}

/// What holds for all lanes.
pub(crate) struct Plan {
    pub write: bool,
    /// Windows may have holes, and are read before they are written: so it is announced first what they will get.
    pub announced: bool,
    /// Windows may have holes, and only what ranks have brought is written: so they mark it.
    pub marked: bool,
    /// Whether this rank may access the file.
    pub accesses: bool,
    /// Whether all ranks of this node may.
    pub all_access: bool,
    /// Whether each lane's windows are accessed by its aggregator only.
    pub owned: bool,
    /// Full windows are left to whichever rank is writing already.
    pub one_writer: bool,
    /// How many arrivals complete a window of this node.
    pub expected: u64,
    pub coverage: Arc<Coverage>,
}

/// One lane and this rank's part in it.
struct Course<W: World> {
    lane: Lane,
    role: Role<W>,
    over: bool,
}

enum Role<W: World> {
    Local(Local<W>, Option<Host<W>>),
    Away(Away<W>),
}

/// What a visit works with.
pub(crate) struct Visit<'a, W: World> {
    pub seat: &'a Seat,
    pub world: &'a mut W,
    pub plan: &'a Plan,
    /// Whether this rank may access the file for the lane that it visits.
    pub accesses: bool,
    pub job: Option<&'a Job>,
    pub tally: &'a mut Tally,
    pub moved: &'a mut u64,
    pub error: &'a mut Option<W::Error>,
}

impl<'a, W: World> Visit<'a, W> {
    /// This rank's own wish.
    pub fn want(&self) -> Option<Want<'a>> {
        let job = self.job?;
        (job.len > 0).then_some(Want { view: &job.view, at: job.at.0, len: job.len })
    }

    /// Keeps the first failure of this rank.
    pub fn failed(&mut self, error: W::Error) {
        self.error.get_or_insert(error);
    }
}

impl<W: World> Moving<W> {
    /// Through windows.
    pub fn windows(
        claims: Vec<Claim>,
        partition: &Partition,
        covered: bool,
        settings: &Settings,
        coverage: Arc<Coverage>,
        seat: &Seat,
        world: &mut W,
    ) -> Result<Moving<W>, W::Error> {
        let aggregators = &settings.aggregators;
        let is_local = |rank: &u32| seat.local_index(*rank).is_some();
        let local_aggregators = aggregators.iter().copied().filter(|rank| is_local(rank)).count();
        let write = claims[0].call.write;
        let all_access = !settings.owned && local_aggregators == seat.locals.len();
        let plan = Plan {
            write,
            announced: write && !covered && !settings.owned,
            marked: write && !covered && settings.owned,
            accesses: aggregators.contains(&seat.rank),
            all_access,
            owned: settings.owned,
            one_writer: settings.one_writer && write && all_access,
            expected: seat.locals.len() as u64 + u64::from(!seat.is_alone()),
            coverage,
        };
        let mut lanes = Vec::new();
        let mut first = 0;
        for (index, owner) in (0..partition.aggregators()).zip(aggregators) {
            let lane = Lane::new(partition.domain(index), settings.window);
            if lane.rounds() == 0 {
                continue;
            }
            if *owner <= seat.rank {
                first = lanes.len();
            }
            let role = match seat.local_index(*owner) {
                Some(place) => {
                    let host = match *owner == seat.rank && !seat.is_alone() {
                        true => Some(Host::new(&claims, &lane, seat, world)?),
                        false => None,
                    };
                    Role::Local(Local::new(place, seat.turns[place as usize], *owner == seat.rank), host)
                }
                None => Role::Away(Away::new(*owner)),
            };
            lanes.push(Course { lane, role, over: false });
        }
        Ok(Moving { lanes, first, plan, moved: 0, error: None })
    }

    /// Goes as far as possible; whether that was to the end.
    pub fn step(
        &mut self,
        job: Option<&Job>,
        seat: &Seat,
        world: &mut W,
        tally: &mut Tally,
    ) -> Result<bool, W::Error> {
        let Moving { lanes, plan, moved, error, first } = self;
        let mut visit = Visit { seat, world, plan, accesses: plan.accesses, job, tally, moved, error };
        let count = lanes.len();
        loop {
            let (mut progress, mut left) = (false, false);
            for i in 0..count {
                let course = &mut lanes[(*first + i) % count];
                if !course.over {
                    progress |= course.visit(&mut visit)?;
                    left |= !course.over;
                }
                if plan.one_writer && seat.node.full().load(Relaxed) > 0 {
                    progress |= write_full(lanes, &mut visit);
                }
            }
            if !left {
                return Ok(true);
            }
            if !progress {
                return Ok(false);
            }
        }
    }

    /// The result of this rank's part. All its lanes are over.
    pub fn finish(&mut self, seat: &mut Seat) -> Result<u64, W::Error> {
        for course in &self.lanes {
            if let Role::Local(local, _) = &course.role {
                seat.turns[local.place as usize] += course.lane.rounds();
            }
        }
        match self.error.take() {
            Some(error) => Err(error),
            None => Ok(self.moved),
        }
    }
}

/// Writes full windows until there are none, unless some rank does that already: it will look again after
/// it has said that it is done.
fn write_full<W: World>(lanes: &mut [Course<W>], visit: &mut Visit<'_, W>) -> bool {
    let node = visit.seat.node.clone();
    let mut progress = false;
    while node.full().load(SeqCst) > 0 && node.writer().swap(1, SeqCst) == 0 {
        for course in &mut *lanes {
            if let Role::Local(local, _) = &mut course.role {
                progress |= local.write_full(&course.lane, visit);
            }
        }
        node.writer().store(0, SeqCst);
    }
    progress
}

impl<W: World> Course<W> {
    /// Goes on by one round at most in each part played; whether anything was done.
    fn visit(&mut self, visit: &mut Visit<'_, W>) -> Result<bool, W::Error> {
        let lane = &self.lane;
        let mut progress;
        match &mut self.role {
            Role::Local(local, host) => {
                visit.accesses = local.may_access(visit.plan);
                progress = local.visit(lane, visit);
                self.over = local.is_over(lane, visit);
                if let Some(host) = host {
                    progress |= host.visit(lane, local, visit)?;
                    self.over &= host.is_over(lane);
                }
            }
            Role::Away(away) => {
                progress = away.visit(lane, visit)?;
                self.over = away.is_over(lane);
            }
        }
        progress |= self.over;
        Ok(progress)
    }
}
