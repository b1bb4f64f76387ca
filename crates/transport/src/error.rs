//! Errors of connections.

use std::io;

use pario_types::{ErrorKind, Retry};

/// The operation that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionAction {
    /// Opening a connection.
    Connect,
    /// The handshake.
    Greet,
    /// Sending a request.
    Send,
    /// Waiting for a reply.
    Receive,
}

impl ConnectionAction {
    fn words(self) -> &'static str {
        match self {
            ConnectionAction::Connect => "connecting to",
            ConnectionAction::Greet => "greeting",
            ConnectionAction::Send => "sending to",
            ConnectionAction::Receive => "waiting for a reply of",
        }
    }
}

/// The reason why a connection failed. `peer` is the other side.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A text that is no address.
    #[error("`{text}` is no address: write unix:/PATH or tcp:HOST:PORT")]
    Address {
        /// The text.
        text: String,
    },
    /// The system does not allow listening at an address.
    #[error("cannot listen at {address}: {cause}")]
    Listen {
        /// The address.
        address: String,
        /// The reason.
        #[source]
        cause: io::Error,
    },
    /// The system reported an error.
    #[error("{}", system(*action, peer, cause))]
    System {
        /// The operation.
        action: ConnectionAction,
        /// The other side.
        peer: String,
        /// The system's error.
        #[source]
        cause: io::Error,
    },
    /// The deadline passed.
    #[error("{} {peer}: not done before the deadline", action.words())]
    TimedOut {
        /// The operation.
        action: ConnectionAction,
        /// The other side.
        peer: String,
    },
    /// The other side closed the connection, or ended.
    #[error("{} {peer}: it closed the connection", action.words())]
    Closed {
        /// The operation.
        action: ConnectionAction,
        /// The other side.
        peer: String,
    },
    /// An earlier error has ended this connection.
    #[error("the connection to {peer} ended with an earlier error; connect again")]
    Dead {
        /// The other side.
        peer: String,
    },
    /// The received bytes are no message of the protocol.
    #[error("{peer}: {cause}")]
    Malformed {
        /// The other side.
        peer: String,
        /// The error.
        #[source]
        cause: pario_wire::Error,
    },
    /// The received message must not come now.
    #[error("{peer}: {what}")]
    UnexpectedMessage {
        /// The other side.
        peer: String,
        /// The error.
        what: &'static str,
    },
    /// The received bytes are not what the other side sent: the path is tampered with, or broken.
    #[error("{peer}: {}", pario_wire::Error::Tampered)]
    Tampered {
        /// The other side.
        peer: String,
    },
    /// The other side does not know the partition's secret.
    #[error(
        "{peer} does not know the partition's secret, or something on the way changes what it says; is this the right \
         partition?"
    )]
    WrongSecret {
        /// The other side.
        peer: String,
    },
    /// The server refuses this client.
    #[error("{peer} refuses: {text}")]
    Refused {
        /// The other side.
        peer: String,
        /// The kind of reason.
        kind: ErrorKind,
        /// The reason.
        text: String,
    },
    /// A request that cannot be encoded. Nothing was sent, and the connection is as before.
    #[error("a request cannot be sent: {cause}")]
    Unsendable {
        /// The reason.
        #[source]
        cause: pario_wire::Error,
    },
    /// The maximum number of requests is outstanding; nothing was sent. Receive a reply first.
    #[error("too many requests to {peer} are outstanding")]
    Full {
        /// The other side.
        peer: String,
    },
    /// The caller's memory does not have the length of the payload; nothing was sent or received.
    #[error("memory of {given} bytes for a payload of {payload}")]
    Length {
        /// Bytes of the payload.
        payload: u64,
        /// Bytes of the caller's slices.
        given: u64,
    },
}

impl Error {
    /// The kind, on which a caller can act.
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
            Error::TimedOut { .. } | Error::Closed { .. } | Error::Dead { .. } | Error::Tampered { .. } => {
                ErrorKind::Unreachable
            }
            Error::Malformed { .. } | Error::UnexpectedMessage { .. } | Error::Unsendable { .. } => {
                ErrorKind::Protocol
            }
            Error::WrongSecret { .. } => ErrorKind::Access,
            Error::Refused { kind, .. } => *kind,
            Error::Full { .. } => ErrorKind::Intern,
        }
    }

    /// Whether another attempt can help. It cannot if this process or its host has no descriptor left, because waiting
    /// for the server does not change that.
    pub fn retry(&self) -> Retry {
        match self {
            Error::System { cause, .. }
                if matches!(cause.raw_os_error(), Some(libc::EMFILE | libc::ENFILE)) =>
            {
                Retry::Never
            }
            _ => self.kind().retry(),
        }
    }
}

fn system(action: ConnectionAction, peer: &str, cause: &io::Error) -> String {
    match action {
        ConnectionAction::Connect => format!("cannot connect to {peer}: {cause}; is the partition up?"),
        _ => format!("{} {peer}: {cause}", action.words()),
    }
}
