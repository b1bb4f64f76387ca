//! The messages between `pario up` and a server that starts: one JSON object per line.
//!
//! ```text
//! up → server   Start        the server's identity, the description of its partition, the secret
//! server → up   Ready        its process and addresses (or Failed, and the end)
//! up → server   Peers        the addresses of all servers of the partition
//! server → up   Serving      (or Failed, and the end)
//! ```
//!
//! A server whose input ends before `Peers` came ends as well, because the process that started it is gone. After `Serving`
//! the input may end. From then on only the supervisor, which forwards these messages, sends anything:
//!
//! ```text
//! supervisor → server   Probe    asks for a sign of life
//! server → supervisor   Alive    from one of its workers
//! ```
//!
//! A [task](crate::task) on a host is one line there and one line back.

use std::io::{self, BufRead, Read};
use std::path::PathBuf;
use std::time::Duration;

use pario_registry::{Description, Running, Secret};
use pario_types::{Epoch, PartitionId, ServerId};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::pools::HostPool;
use crate::task::DirectoryContents;

/// The version of these messages.
pub const VERSION: u32 = 4;
/// The longest line: a partition of 65535 servers fits.
const LONGEST: u64 = 64 << 20;

/// The parameters of a server.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerStart {
    /// See [`VERSION`].
    pub version: u32,
    /// The partition it is of.
    #[serde(with = "partition")]
    pub partition: PartitionId,
    /// Which server of the partition it is.
    #[serde(with = "server")]
    pub server: ServerId,
    /// The partition's structure and settings.
    pub description: Description,
    /// The version of the set of servers in the description.
    #[serde(with = "epoch")]
    pub epoch: Epoch,
    /// The secret that clients prove that they know.
    #[serde(with = "secret")]
    pub secret: Secret,
    /// Whether the partition has been up before: then the server's directory has to hold its data.
    pub made: bool,
    /// Whether every server of the partition is on one host.
    pub local: bool,
    /// The name by which other hosts know the server's node.
    pub node: String,
    /// The TCP port; 0: any.
    pub port: u16,
    /// Where run directories are, if not in the usual place.
    pub run_base: Option<PathBuf>,
    /// The registry in which it is started.
    pub home: PathBuf,
    /// Where its log goes, on its own host.
    pub log: PathBuf,
    /// See [`LaunchSettings::store_delay`](crate::LaunchSettings::store_delay).
    #[serde(default)]
    pub store_delay: Duration,
    /// See [`LaunchSettings::panics`](crate::LaunchSettings::panics).
    #[serde(default)]
    pub panics: Option<PathBuf>,
}

/// A message from a server, or from a task on a host.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "say", rename_all = "lowercase")]
pub enum HostMessage {
    /// It can be reached, and waits for [`PeerAddresses`].
    Ready {
        /// The server's process.
        pid: u32,
        /// Its socket for clients of its host.
        unix: String,
        /// The address for clients of other hosts.
        tcp: Option<String>,
        /// A note for the user.
        note: Option<String>,
    },
    /// It serves.
    Serving,
    /// A sign of life, the answer to a [`Probe`].
    Alive,
    /// It cannot do what it was asked, and ends.
    Failed {
        /// The reason, for the user.
        why: String,
    },
    /// These pools are on the host. Of the directories that were asked for, servers use those in `in_use`, and the last pool of
    /// those in `unretired` was not stored whole as far as is noted.
    Pools {
        /// The pools.
        pools: Vec<HostPool>,
        /// Directories that servers use.
        in_use: Vec<String>,
        /// Directories whose last pool is not noted as stored.
        unretired: Vec<String>,
    },
    /// This is in the directories that were asked for, in this order.
    Described {
        /// The contents of each directory.
        directories: Vec<DirectoryContents>,
    },
    /// So many bytes that only the pool had are stored, and the pool is gone.
    Saved {
        /// How many.
        bytes: u64,
    },
    /// The server was ended.
    Ended,
    /// The pool is gone, and so many bytes that only it had; `None` if the pool could not be read.
    Discarded {
        /// How many, if that is known.
        bytes: Option<u64>,
    },
    /// The server's directory is gone.
    Erased,
}

/// A question of a supervisor to a server that serves.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "ask", rename_all = "lowercase")]
pub enum Probe {
    /// Asks for [`HostMessage::Alive`] from one of the server's workers.
    Alive,
}

/// The addresses of the servers of a partition, in order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerAddresses {
    /// All servers of the partition.
    pub peers: Vec<Running>,
}

/// A message as a line.
pub fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("messages can be written as JSON");
    line.push(b'\n');
    line
}

/// The next line; `None` at the end.
pub fn next_line(from: &mut impl BufRead) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    from.by_ref().take(LONGEST).read_until(b'\n', &mut line)?;
    match line.last() {
        None => Ok(None),
        Some(b'\n') => Ok(Some(line)),
        // Cut short: its writer is gone.
        Some(_) if (line.len() as u64) < LONGEST => Ok(None),
        Some(_) => Err(io::Error::new(io::ErrorKind::InvalidData, "a line without end")),
    }
}

pub(crate) mod partition {
    use super::*;

    pub fn serialize<S: Serializer>(id: &PartitionId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PartitionId, D::Error> {
        let text = String::deserialize(deserializer)?;
        u128::from_str_radix(&text, 16).map(PartitionId).map_err(D::Error::custom)
    }
}

pub(crate) mod server {
    use super::*;

    pub fn serialize<S: Serializer>(id: &ServerId, serializer: S) -> Result<S::Ok, S::Error> {
        id.0.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ServerId, D::Error> {
        u16::deserialize(deserializer).map(ServerId)
    }
}

mod epoch {
    use super::*;

    pub fn serialize<S: Serializer>(epoch: &Epoch, serializer: S) -> Result<S::Ok, S::Error> {
        epoch.0.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Epoch, D::Error> {
        u64::deserialize(deserializer).map(Epoch)
    }
}

mod secret {
    use super::*;

    pub fn serialize<S: Serializer>(secret: &Secret, serializer: S) -> Result<S::Ok, S::Error> {
        let text: String = secret.bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        text.serialize(serializer)
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Secret, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
        let pairs = text.as_bytes().chunks(2).map(|pair| match pair {
            [high, low] => Some(digit(*high)? << 4 | digit(*low)?),
            _ => None,
        });
        let bytes: Option<Vec<u8>> = pairs.collect();
        let bytes = bytes.and_then(|bytes| <[u8; 32]>::try_from(bytes).ok());
        bytes.map(Secret::new).ok_or_else(|| D::Error::custom("a secret has 64 hexadecimal digits"))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub fn start() -> ServerStart {
        ServerStart {
            version: VERSION,
            partition: PartitionId(0xabcdef),
            server: ServerId(1),
            description: Description::parse("servers = ['/a', 'n1:/b']", Some("p")).expect("sound"),
            epoch: Epoch(0),
            secret: Secret::new(std::array::from_fn(|i| i as u8 * 7)),
            made: true,
            local: false,
            node: "n1".into(),
            port: 0,
            run_base: None,
            home: "/home/registry".into(),
            log: "/tmp/log".into(),
            store_delay: Duration::ZERO,
            panics: None,
        }
    }

    #[test]
    fn messages_read_back_from_their_lines() {
        let start = start();
        let text = line(&start);
        let mut input = io::Cursor::new([&text[..], b"{\"peers\":[]}\ncut short"].concat());
        let read = next_line(&mut input).expect("read").expect("a line");
        let read: ServerStart = serde_json::from_slice(&read).expect("a start");
        assert_eq!((read.partition, read.server, read.made), (start.partition, start.server, start.made));
        assert_eq!((read.secret, read.description), (start.secret, start.description));
        let read = next_line(&mut input).expect("read").expect("a line");
        assert_eq!(
            serde_json::from_slice::<PeerAddresses>(&read).expect("peers"),
            PeerAddresses { peers: Vec::new() }
        );
        assert_eq!(next_line(&mut input).expect("read"), None);
    }

    #[test]
    fn what_a_server_says_is_one_line() {
        let ready = HostMessage::Ready { pid: 7, unix: "/run/s".into(), tcp: None, note: None };
        let expected = b"{\"say\":\"ready\",\"pid\":7,\"unix\":\"/run/s\",\"tcp\":null,\"note\":null}\n";
        assert_eq!(line(&ready), expected);
        let failed = HostMessage::Failed { why: "two\nlines".into() };
        assert_eq!(line(&failed).iter().filter(|&&byte| byte == b'\n').count(), 1);
        assert_eq!(serde_json::from_slice::<HostMessage>(&line(&failed)).expect("said"), failed);
    }

    #[test]
    fn the_secret_is_not_in_debug_output() {
        assert!(format!("{:?}", start()).contains("secret: Secret(…)"), "{:?}", start());
    }
}
