//! A client's side of the handshake.

use std::os::fd::OwnedFd;

use pario_wire::greeting::{Greeting, Hello, PREFIX, Prefix, Welcome};
use pario_wire::{Secret, Side};

use crate::error::Error;
use crate::patience::Patience;
use crate::sys;

/// Makes each side sure of the other. What the server says, and its pool.
pub(crate) fn greet(
    with: &Patience<'_>,
    hello: &Hello,
    secret: &Secret,
) -> Result<(Welcome, Option<OwnedFd>), Error> {
    let ours = sys::fresh_nonce().map_err(|error| with.failed(error))?;
    with.write_all(&Greeting::Hello { hello: *hello, nonce: ours }.encode())?;
    let Greeting::Challenge { nonce: theirs, proof } = next(with)? else {
        return Err(with.out_of_turn("it did not answer a hello with a challenge"));
    };
    if proof != secret.proof(Side::Server, hello, ours, theirs) {
        return Err(Error::Impostor { peer: with.peer.to_owned() });
    }
    let proof = secret.proof(Side::Client, hello, ours, theirs);
    with.write_all(&Greeting::Answer { proof }.encode())?;
    let Greeting::Welcome(welcome) = next(with)? else {
        return Err(with.out_of_turn("it did not answer a proof with a welcome"));
    };
    match welcome.ledger {
        None => Ok((welcome, None)),
        Some(_) if with.stream.is_local() => Ok((welcome, Some(with.receive_descriptor()?))),
        Some(_) => Err(with.out_of_turn("it promised a descriptor over TCP")),
    }
}

/// The next greeting, to its last byte and not beyond.
fn next(with: &Patience<'_>) -> Result<Greeting, Error> {
    let mut prefix = [0; PREFIX];
    with.read_exact(&mut prefix)?;
    let prefix = Prefix::decode(&prefix).map_err(|cause| with.malformed(cause))?;
    let mut body = vec![0; prefix.length as usize];
    with.read_exact(&mut body)?;
    match prefix.greeting(&body).map_err(|cause| with.malformed(cause))? {
        Greeting::Refused(refusal) => {
            Err(Error::Refused { peer: with.peer.to_owned(), kind: refusal.kind, text: refusal.text })
        }
        greeting => Ok(greeting),
    }
}
