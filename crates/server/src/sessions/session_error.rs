//! Why a session ends.

use pario_transport::RecordReadError;

/// Why a session ends.
#[derive(Debug, thiserror::Error)]
pub(super) enum SessionError {
    /// The other side has closed the connection, as clients do when they end.
    #[error("the connection ended")]
    Disconnected,
    /// The other side did not complete the handshake in time.
    #[error("closed a connection that did not greet")]
    HandshakeTimeout,
    /// The handshake failed.
    #[error("refused a connection: {0}")]
    Refused(#[source] pario_transport::Error),
    /// A client that is not a server has sent a forwarded request.
    #[error("closed a connection: a client pretends to pass on requests")]
    ForwardedByClient,
    /// The other side has sent bytes that are no message, or sent a record that fails authentication.
    #[error("closed a connection: {0}")]
    Protocol(#[from] pario_wire::Error),
}

impl SessionError {
    /// Whether the error is worth a line in the server's log.
    pub fn is_notable(&self) -> bool {
        !matches!(self, SessionError::Disconnected)
    }
}

impl From<RecordReadError> for SessionError {
    fn from(error: RecordReadError) -> SessionError {
        match error {
            RecordReadError::Stream(_) => SessionError::Disconnected,
            RecordReadError::Tampered => SessionError::Protocol(pario_wire::Error::Tampered),
        }
    }
}
