//! Adoption of a partition: registers it again from its servers' directories, each of which says which partition and which
//! server it is of.

use crate::error::Error;
use crate::message::HostMessage;
use crate::settings::LaunchSettings;
use crate::task::{self, DirectoryContents, HostTask};
use crate::{NodeLauncher, host};
use pario_registry::{Description, Entry, Launcher, Manifest, Registry, Resource, Structure};
use pario_runtime::time::Instant;
use pario_types::ServerId;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The partition to adopt, as the user describes it.
pub struct AdoptionRequest {
    /// The servers' directories, in any order.
    pub directories: Vec<Resource>,
    /// A description that says how servers are to run, and what the partition is called.
    pub description: Option<Description>,
    /// Keys of the description to set otherwise.
    pub set: Vec<(String, String)>,
}

/// The reason why directories do not make a partition.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AdoptionError {
    /// There is no directory.
    #[error("--adopt needs the directories of a partition's servers, or its partition file")]
    None,
    /// A text that names no directory.
    #[error("--adopt {0:?}: write node:/dir, or /dir for this host")]
    Place(String),
    /// A node could not be asked.
    #[error("node {0} does not say what its directories hold: {1}")]
    Node(String, String),
    /// A directory that holds no data of a server.
    #[error("{0} cannot be adopted: {1}")]
    Nothing(Resource, String),
    /// A directory that a server uses.
    #[error("{0} is in use by a running server: stop its partition first ('pario down')")]
    InUse(Resource),
    /// A directory of another partition than the first.
    #[error(
        "{place} is of another partition ({name}) than the first directory ({expected}): name the directories of one \
         partition"
    )]
    Foreign {
        /// The directory.
        place: Resource,
        /// The partition it is of.
        name: String,
        /// The partition that the first one is of.
        expected: String,
    },
    /// Two directories of one server.
    #[error("{1} and {2} both are of server {0}: name the one that was used last")]
    Twice(ServerId, Resource, Resource),
    /// No directory of a server.
    #[error("the directory of server {server} of partition {name} is missing; it was {place}: name it, too")]
    Missing {
        /// The partition.
        name: String,
        /// The server.
        server: ServerId,
        /// Where its directory was.
        place: Resource,
    },
}

/// Registers the partition whose servers' directories these are.
pub fn adopt(
    registry: &Registry,
    request: &AdoptionRequest,
    until: Instant,
    settings: &LaunchSettings,
) -> Result<Entry, Error> {
    let found = look(request, until, settings)?;
    let (manifest, servers) = together(&found)?;
    let description = describe(request, &manifest.description, servers)?;
    Ok(registry.adopt(manifest.id, &description, &host::name(), manifest.epoch)?)
}

/// Reads what the directories say.
fn look(
    request: &AdoptionRequest,
    until: Instant,
    settings: &LaunchSettings,
) -> Result<Vec<(Resource, Manifest)>, Error> {
    let launcher = match &request.description {
        Some(description) => description.settings().launcher,
        None => Launcher::Auto,
    };
    let launcher = NodeLauncher::new(launcher, settings);
    let mut by_node: BTreeMap<Option<&String>, Vec<&Resource>> = BTreeMap::new();
    for resource in &request.directories {
        by_node.entry(resource.node.as_ref()).or_default().push(resource);
    }
    let mut found = Vec::new();
    for (node, resources) in by_node {
        let directories: Vec<PathBuf> =
            resources.iter().map(|resource| PathBuf::from(&resource.dir)).collect();
        let described = match node.filter(|node| !host::is_here(node)) {
            None => directories.iter().map(|dir| DirectoryContents::of(dir)).collect(),
            Some(node) => match task::ask(&launcher, node, &HostTask::Describe { directories }, until) {
                Ok(HostMessage::Described { directories }) if directories.len() == resources.len() => {
                    directories
                }
                Ok(_) => {
                    return Err(
                        AdoptionError::Node(node.clone(), "it has another version of pario".into()).into()
                    );
                }
                Err(why) => return Err(AdoptionError::Node(node.clone(), why).into()),
            },
        };
        for (resource, described) in resources.into_iter().zip(described) {
            match described {
                DirectoryContents::Data { manifest } => found.push((resource.clone(), *manifest)),
                DirectoryContents::InUse => return Err(AdoptionError::InUse(resource.clone()).into()),
                DirectoryContents::Nothing { why } => {
                    return Err(AdoptionError::Nothing(resource.clone(), why).into());
                }
            }
        }
    }
    Ok(found)
}

/// Puts the directories of one partition in the order of its servers: each has to be there once.
fn together(found: &[(Resource, Manifest)]) -> Result<(&Manifest, Vec<Resource>), AdoptionError> {
    let (_, first) = found.first().ok_or(AdoptionError::None)?;
    // A server that was not told of the last change of the set has an older manifest.
    let own = found.iter().map(|(_, manifest)| manifest).filter(|manifest| manifest.id == first.id);
    let manifest = own.fold(first, |latest, one| if one.epoch > latest.epoch { one } else { latest });
    let structure = manifest.description.structure();
    let mut servers: Vec<Option<&Resource>> = vec![None; structure.servers.len()];
    for (resource, other) in found {
        let count = other.description.structure().servers.len();
        let is_other_set = other.epoch == manifest.epoch && count != servers.len();
        if other.id != manifest.id || is_other_set || usize::from(other.server.0) >= servers.len() {
            return Err(AdoptionError::Foreign {
                place: resource.clone(),
                name: other.description.name().to_owned(),
                expected: manifest.description.name().to_owned(),
            });
        }
        let place = &mut servers[usize::from(other.server.0)];
        if let Some(before) = place.replace(resource) {
            return Err(AdoptionError::Twice(other.server, before.clone(), resource.clone()));
        }
    }
    let missing = |index: usize| AdoptionError::Missing {
        name: structure.name.clone(),
        server: ServerId(index as u16),
        place: structure.servers[index].clone(),
    };
    let placed =
        servers.iter().enumerate().map(|(index, place)| place.cloned().ok_or_else(|| missing(index)));
    Ok((manifest, placed.collect::<Result<_, _>>()?))
}

/// The description under which it is registered: what is fixed comes from the directories, all else as the user says.
fn describe(
    request: &AdoptionRequest,
    found: &Description,
    servers: Vec<Resource>,
) -> Result<Description, Error> {
    let structure = Structure { servers, ..found.structure().clone() };
    let mut description = match &request.description {
        None => Description::new(structure, found.settings().clone())?,
        Some(asked) => {
            let structure = Structure { name: asked.name().to_owned(), ..structure };
            let fixed = Description::new(structure.clone(), asked.settings().clone())?;
            // The order of the directories and the metadata server are known; the sizes have to be right.
            let (servers, metadata) = (structure.servers, structure.metadata);
            let asked = Structure { servers, metadata, ..asked.structure().clone() };
            fixed.check_same_structure(&Description::new(asked, fixed.settings().clone())?)?;
            fixed
        }
    };
    for (key, value) in &request.set {
        description = description.with(key, value)?;
    }
    Ok(description)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pario_types::{Epoch, PartitionId};

    fn found(id: u128, server: u16, place: &str) -> (Resource, Manifest) {
        let description = Description::parse("servers = ['/a', 'n1:/b', '/c']", Some("p")).expect("sound");
        let (server, epoch, peers) = (ServerId(server), Epoch(0), Vec::new());
        let manifest = Manifest { id: PartitionId(id), server, description, epoch, peers };
        (Resource::parse(place).expect("a place"), manifest)
    }

    #[test]
    fn directories_come_in_any_order_and_may_have_moved() {
        let all = [found(1, 2, "n9:/z"), found(1, 0, "/x"), found(1, 1, "n1:/b")];
        let (_, servers) = together(&all).expect("complete");
        assert_eq!(servers.iter().map(ToString::to_string).collect::<Vec<_>>(), ["/x", "n1:/b", "n9:/z"]);
    }

    #[test]
    fn the_latest_set_of_servers_counts() {
        let mut old = found(1, 0, "/a");
        old.1.description = Description::parse("servers = ['/a', 'n1:/b']", Some("p")).expect("sound");
        let mut all = [old, found(1, 1, "n1:/b"), found(1, 2, "/c")];
        all[1].1.epoch = Epoch(1);
        all[2].1.epoch = Epoch(1);
        let (manifest, servers) = together(&all).expect("complete");
        assert_eq!((manifest.epoch, servers.len()), (Epoch(1), 3));
    }

    #[test]
    fn what_is_missing_or_foreign_is_named() {
        let said = |all: &[(Resource, Manifest)]| together(all).expect_err("refused").to_string();
        let missing = said(&[found(1, 2, "/c"), found(1, 0, "/a")]);
        assert!(missing.contains("server 1") && missing.contains("n1:/b"), "{missing}");
        let foreign = said(&[found(1, 0, "/a"), found(2, 1, "/other"), found(1, 2, "/c")]);
        assert!(foreign.contains("/other"), "{foreign}");
        let twice = said(&[found(1, 0, "/a"), found(1, 0, "/copy")]);
        assert!(twice.contains("/a") && twice.contains("/copy"), "{twice}");
    }
}
