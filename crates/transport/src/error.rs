//! What can go wrong between two processes.

use std::fmt;
use std::io;

use pario_types::ErrorKind;

/// What was being done when it went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Opening a connection.
    Connect,
    /// Proving to each other who is there.
    Greet,
    /// Sending a request.
    Send,
    /// Waiting for a reply.
    Receive,
}

impl Action {
    fn words(self) -> &'static str {
        match self {
            Action::Connect => "connecting to",
            Action::Greet => "greeting",
            Action::Send => "sending to",
            Action::Receive => "waiting for a reply of",
        }
    }
}

/// A connection that did not do what it was asked to. `peer` is whom it was to.
#[derive(Debug)]
pub enum Error {
    /// A text that is no address.
    Address {
        /// The text.
        text: String,
    },
    /// An address cannot be listened at.
    Listen {
        /// Where.
        address: String,
        /// Why.
        cause: io::Error,
    },
    /// The system reported an error.
    System {
        /// When.
        action: Action,
        /// Whom it was about.
        peer: String,
        /// What it said.
        cause: io::Error,
    },
    /// The deadline passed.
    Late {
        /// When.
        action: Action,
        /// Whom it was about.
        peer: String,
    },
    /// The other side closed the connection, or ended.
    Closed {
        /// When.
        action: Action,
        /// Who.
        peer: String,
    },
    /// An earlier error has ended this connection.
    Dead {
        /// Whom it was to.
        peer: String,
    },
    /// What came is not a message of the protocol.
    Malformed {
        /// From whom.
        peer: String,
        /// What is wrong with it.
        cause: pario_wire::Error,
    },
    /// What came is a message, but not one that may come now.
    OutOfTurn {
        /// From whom.
        peer: String,
        /// What is wrong.
        what: &'static str,
    },
    /// What came is not what the other side has sent: somebody is in the way, or the way is broken.
    Tampered {
        /// From whom.
        peer: String,
    },
    /// The other side does not know the partition's secret.
    Impostor {
        /// Who.
        peer: String,
    },
    /// The server does not let this client in.
    Refused {
        /// Who.
        peer: String,
        /// The kind of reason.
        kind: ErrorKind,
        /// The reason.
        text: String,
    },
    /// A request that cannot be written down; nothing was sent, the connection is as before.
    Unsendable {
        /// Why.
        cause: pario_wire::Error,
    },
    /// As many requests are outstanding as may be; nothing was sent. Receive a reply first.
    Full {
        /// To whom.
        peer: String,
    },
    /// The caller's memory does not have the length of the payload; nothing was sent or received.
    Length {
        /// Bytes of the payload.
        payload: u64,
        /// Bytes of the caller's slices.
        given: u64,
    },
}

impl Error {
    /// What a caller can act on.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Error::Address { .. } | Error::Length { .. } => ErrorKind::Arg,
            Error::Listen { cause, .. } => cause.raw_os_error().map_or(ErrorKind::Io, ErrorKind::from_errno),
            Error::System { cause, .. } => match cause.kind() {
                io::ErrorKind::PermissionDenied => ErrorKind::Access,
                io::ErrorKind::OutOfMemory => ErrorKind::NoMem,
                _ => ErrorKind::Unreachable,
            },
            // On another connection it may work.
            Error::Late { .. } | Error::Closed { .. } | Error::Dead { .. } | Error::Tampered { .. } => {
                ErrorKind::Unreachable
            }
            Error::Malformed { .. } | Error::OutOfTurn { .. } | Error::Unsendable { .. } => {
                ErrorKind::Protocol
            }
            Error::Impostor { .. } => ErrorKind::Access,
            Error::Refused { kind, .. } => *kind,
            Error::Full { .. } => ErrorKind::Intern,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Address { text } => {
                write!(f, "`{text}` is no address: write unix:/PATH or tcp:HOST:PORT")
            }
            Error::Listen { address, cause } => write!(f, "cannot listen at {address}: {cause}"),
            Error::System { action: Action::Connect, peer, cause } => {
                write!(f, "cannot connect to {peer}: {cause}; is the partition up?")
            }
            Error::System { action, peer, cause } => write!(f, "{} {peer}: {cause}", action.words()),
            Error::Late { action, peer } => {
                write!(f, "{} {peer}: not done before the deadline", action.words())
            }
            Error::Closed { action, peer } => {
                write!(f, "{} {peer}: it closed the connection", action.words())
            }
            Error::Dead { peer } => {
                write!(f, "the connection to {peer} ended with an earlier error; connect again")
            }
            Error::Malformed { peer, cause } => write!(f, "{peer}: {cause}"),
            Error::OutOfTurn { peer, what } => write!(f, "{peer}: {what}"),
            Error::Tampered { peer } => write!(f, "{peer}: {}", pario_wire::Error::Tampered),
            Error::Impostor { peer } => {
                write!(
                    f,
                    "{peer} does not know the partition's secret, or something on the way changes what it says; \
                     is this the right partition?"
                )
            }
            Error::Refused { peer, text, .. } => write!(f, "{peer} refuses: {text}"),
            Error::Unsendable { cause } => write!(f, "a request cannot be sent: {cause}"),
            Error::Full { peer } => write!(f, "too many requests to {peer} are outstanding"),
            Error::Length { payload, given } => {
                write!(f, "memory of {given} bytes for a payload of {payload}")
            }
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Error::Listen { cause, .. } | Error::System { cause, .. } => Some(cause),
            Error::Malformed { cause, .. } | Error::Unsendable { cause } => Some(cause),
            _ => None,
        }
    }
}
