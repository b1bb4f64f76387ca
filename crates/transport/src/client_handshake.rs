//! A client's side of the handshake.

use std::os::fd::OwnedFd;

use pario_wire::greeting::{Greeting, HandshakeRefusal, Hello, PREFIX, Prefix, Welcome};
use pario_wire::{Protection, Secret, SessionKeys, Transcript};

use crate::deadline_stream::DeadlineStream;
use crate::error::Error;
use crate::sys;

/// Authenticates both sides. Returns the server's welcome, its pool, and the keys of the connection.
pub(crate) fn greet(
    with: &DeadlineStream<'_>,
    hello: &Hello,
    secret: &Secret,
) -> Result<(Welcome, Option<OwnedFd>, SessionKeys), Error> {
    let wrong_secret = || Error::WrongSecret { peer: with.peer.to_owned() };
    let client = sys::fresh_nonce().map_err(|error| with.failed(error))?;
    with.write_all(&Greeting::Hello { hello: *hello, nonce: client }.encode())?;
    let Greeting::Challenge { nonce: server, protection, proof } = next(with)? else {
        return Err(with.unexpected_message("it did not answer a hello with a challenge"));
    };
    let agreed = Transcript { hello: *hello, client, server, protection };
    if proof != agreed.prove_server(secret) {
        return Err(wrong_secret());
    }
    if protection == Protection::None && !with.stream.is_local() {
        return Err(with.unexpected_message("it does not protect a connection that leaves the host"));
    }
    with.write_all(&Greeting::Answer { proof: agreed.prove_client(secret) }.encode())?;
    let Greeting::Welcome { welcome, proof } = next(with)? else {
        return Err(with.unexpected_message("it did not answer a proof with a welcome"));
    };
    if proof != agreed.prove_welcome(secret, &welcome) {
        return Err(wrong_secret());
    }
    let pool = match welcome.ledger {
        None => None,
        Some(_) if with.stream.is_local() => Some(with.receive_descriptor()?),
        Some(_) => return Err(with.unexpected_message("it promised a descriptor over TCP")),
    };
    Ok((welcome, pool, agreed.session_keys(secret)))
}

/// Reads the next greeting, to its last byte and not beyond.
fn next(with: &DeadlineStream<'_>) -> Result<Greeting, Error> {
    let mut prefix = [0; PREFIX];
    with.read_exact(&mut prefix)?;
    let prefix = Prefix::decode(&prefix).map_err(|cause| with.malformed(cause))?;
    let mut body = vec![0; prefix.length as usize];
    with.read_exact(&mut body)?;
    match prefix.greeting(&body).map_err(|cause| with.malformed(cause))? {
        Greeting::Refused(HandshakeRefusal { kind, text }) => {
            // A refusal is not authenticated, so its text is made one line.
            let text = text.replace(char::is_control, " ");
            Err(Error::Refused { peer: with.peer.to_owned(), kind, text })
        }
        greeting => Ok(greeting),
    }
}
