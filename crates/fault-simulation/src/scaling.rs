//! `pario scale` in histories: partitions under commands get more servers while programs use them.

use std::path::Path;

use pario_launch::{add_servers, resume_scaling};
use pario_registry::{Registry, Resource};
use pario_runtime::simulation::random;

use crate::plan::{FaultKind, Plan};
use crate::program::{HOME, NAME, PATIENCE, place, settings, text_of};

/// The most servers of a partition.
const MOST_SERVERS: usize = 7;

/// The share of `scale` among the faults of a history that has it.
const SHARE: u32 = 2;

/// Adds `scale` to some plans that have commands. It has random numbers of its own, so all other properties of a plan stay as they are.
pub fn add(plan: &mut Plan, allowed: &[FaultKind]) {
    let mut random = random::stream(plan.seed, "plan of scaling", 0);
    let is_chosen = allowed.len() == 1 || random.u32(0..3) == 0;
    if plan.managed && allowed.contains(&FaultKind::Scale) && is_chosen {
        plan.faults.push((FaultKind::Scale, SHARE));
        plan.fault_count = plan.fault_count.max(random.u32(1..8));
    }
}

/// `pario scale`: adds a server, or completes what an earlier command has begun if there are enough.
pub fn scale(plan: &Plan) -> Result<String, String> {
    let registry = Registry::open(Path::new(HOME)).map_err(text_of)?;
    let members = registry.get(NAME).map_err(text_of)?.members();
    let scaled = match members < MOST_SERVERS {
        true => {
            let place = Resource::parse(&place(plan, members as u16)).expect("a place");
            add_servers(&registry, NAME, &[place], PATIENCE, &settings())
        }
        false => resume_scaling(&registry, NAME, PATIENCE, &settings()),
    };
    let scaled = scaled.map_err(text_of)?;
    Ok(format!("{} servers in epoch {}; {}", scaled.entry.members(), scaled.entry.epoch, scaled.note))
}
