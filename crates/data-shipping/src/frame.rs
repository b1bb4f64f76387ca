//! The messages between a shipper and an agent, version 1. Numbers are little-endian; `zero` bytes must be 0.
//!
//! A connection begins with a hello, answered by a welcome:
//!
//! ```text
//! hello, 32 bytes                          welcome, 16 bytes
//!  0  8  "parioshp"                         0  8  "parioshp"
//!  8  2  version = 1                        8  2  version = 1
//! 10  2  zero                              10  1  0 welcome, 1 refused (the connection ends)
//! 12  4  rank of the shipper               11  5  zero
//! 16 16  secret of this open of the file
//! ```
//!
//! Then come requests, answered in their order; a view has no answer:
//!
//! ```text
//! request, 32 bytes and a body             answer, 32 bytes and a body
//!  0  1  1 view, 2 write, 3 read            0  1  0 done, 1 failed
//!  1  1  slot of the view, below 16         1  3  zero
//!  2  2  zero                               4  4  length of the body
//!  4  4  length of the body                 8  8  share bytes moved; 0 if failed
//!  8  8  position; 0 for a view            16  8  offset of the failure; all ones if unknown
//! 16  8  length in positions; 0            24  1  code of the error kind; 0 if done
//! 24  8  bytes of the agent's share; 0     25  3  zero
//!                                          28  4  errno; 0 if there is none
//! ```
//!
//! The body of a view: 8 bytes displacement, then its tile as the view crate encodes patterns. It replaces
//! what the slot held. The body of a write is the agent's share: of the positions asked for those whose bytes
//! it owns, in order, without gaps. The body of an answer is the share of a read as far as the file reaches,
//! or the text of a failure (UTF-8, cut at 4096 bytes). A frame that breaks a rule ends the connection.

use pario_types::{ErrorKind, Offset};
use pario_view::View;

/// Bytes of a hello.
pub const HELLO: usize = 32;
/// Bytes of a welcome.
pub const WELCOME: usize = 16;
/// Bytes before the body of a request or of an answer.
pub const HEADER: usize = 32;
/// Views that a connection keeps.
pub const SLOTS: usize = 16;
/// Most bytes of a share.
pub const MOST_DATA: u64 = 4 << 20;
/// Most bytes of a view. A shipper sends none whose pattern takes more than a sixteenth of it in memory.
pub const MOST_VIEW: u64 = 256 << 20;
/// Most bytes of a failure's text.
pub const MOST_TEXT: usize = 4096;

const MAGIC: [u8; 8] = *b"parioshp";
const VERSION: u16 = 1;

/// The first message of a shipper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShippingHello {
    pub rank: u32,
    pub secret: u128,
}

impl ShippingHello {
    pub fn to_bytes(self) -> [u8; HELLO] {
        let mut out = [0; HELLO];
        out[..8].copy_from_slice(&MAGIC);
        out[8..10].copy_from_slice(&VERSION.to_le_bytes());
        out[12..16].copy_from_slice(&self.rank.to_le_bytes());
        out[16..].copy_from_slice(&self.secret.to_le_bytes());
        out
    }

    pub fn from_bytes(bytes: &[u8; HELLO]) -> Option<ShippingHello> {
        let begins = bytes[..8] == MAGIC && u16::from_le_bytes(part(bytes, 8)) == VERSION;
        let zero = bytes[10..12] == [0; 2];
        (begins && zero).then(|| ShippingHello {
            rank: u32::from_le_bytes(part(bytes, 12)),
            secret: u128::from_le_bytes(part(bytes, 16)),
        })
    }
}

/// The agent's reply to a hello.
pub fn welcome(refused: bool) -> [u8; WELCOME] {
    let mut out = [0; WELCOME];
    out[..8].copy_from_slice(&MAGIC);
    out[8..10].copy_from_slice(&VERSION.to_le_bytes());
    out[10] = u8::from(refused);
    out
}

/// Whether these bytes are a welcome, and if so, whether it is a refusal.
pub fn is_refusal(bytes: &[u8; WELCOME]) -> Option<bool> {
    [false, true].into_iter().find(|&refused| *bytes == welcome(refused))
}

/// A request to an agent, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShippingRequest {
    /// The body is a view for a slot.
    View { slot: u8, body: u32 },
    /// Move the agent's share of a range of positions.
    Move { write: bool, slot: u8, at: u64, len: u64, share: u32 },
}

impl ShippingRequest {
    pub fn to_bytes(self) -> [u8; HEADER] {
        let (op, slot, body, numbers) = match self {
            ShippingRequest::View { slot, body } => (1, slot, body, [0; 3]),
            ShippingRequest::Move { write, slot, at, len, share } => {
                let (op, body) = if write { (2, share) } else { (3, 0) };
                (op, slot, body, [at, len, u64::from(share)])
            }
        };
        let mut out = [0; HEADER];
        out[0] = op;
        out[1] = slot;
        out[4..8].copy_from_slice(&body.to_le_bytes());
        for (to, number) in out[8..].chunks_exact_mut(8).zip(numbers) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        out
    }

    pub fn from_bytes(bytes: &[u8; HEADER]) -> Option<ShippingRequest> {
        let (op, slot) = (bytes[0], bytes[1]);
        let body = u32::from_le_bytes(part(bytes, 4));
        let [at, len, share] = [8, 16, 24].map(|from| u64::from_le_bytes(part(bytes, from)));
        if usize::from(slot) >= SLOTS || bytes[2..4] != [0; 2] {
            return None;
        }
        if op == 1 {
            let fits = u64::from(body) <= MOST_VIEW && [at, len, share] == [0; 3];
            return fits.then_some(ShippingRequest::View { slot, body });
        }
        let write = op == 2;
        let known = write || op == 3;
        let in_file = at.checked_add(len).is_some_and(|end| end <= i64::MAX as u64);
        let some = (1..=len.min(MOST_DATA)).contains(&share);
        let framed = u64::from(body) == if write { share } else { 0 };
        let moves = known && in_file && some && framed;
        moves.then_some(ShippingRequest::Move { write, slot, at, len, share: share as u32 })
    }
}

/// The reply to a request, without its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShippingReply {
    /// The number of bytes of the share that were moved; for a read, the body has that many bytes.
    Done { moved: u64, body: u32 },
    /// The body is the text of the error.
    Failed { kind: ErrorKind, errno: Option<i32>, at: Option<Offset>, body: u32 },
}

impl ShippingReply {
    pub fn to_bytes(self) -> [u8; HEADER] {
        let mut out = [0; HEADER];
        match self {
            ShippingReply::Done { moved, body } => {
                out[4..8].copy_from_slice(&body.to_le_bytes());
                out[8..16].copy_from_slice(&moved.to_le_bytes());
                out[16..24].fill(0xff);
            }
            ShippingReply::Failed { kind, errno, at, body } => {
                out[0] = 1;
                out[4..8].copy_from_slice(&body.to_le_bytes());
                out[16..24].copy_from_slice(&at.map_or(u64::MAX, |at| at.0).to_le_bytes());
                out[24] = kind.code() as u8; // there are 25 kinds
                out[28..].copy_from_slice(&errno.unwrap_or(0).to_le_bytes());
            }
        }
        out
    }

    pub fn from_bytes(bytes: &[u8; HEADER]) -> Option<ShippingReply> {
        let body = u32::from_le_bytes(part(bytes, 4));
        let [moved, at] = [8, 16].map(|from| u64::from_le_bytes(part(bytes, from)));
        let errno = i32::from_le_bytes(part(bytes, 28));
        if bytes[1..4] != [0; 3] || bytes[25..28] != [0; 3] {
            return None;
        }
        match bytes[0] {
            0 => (at == u64::MAX && bytes[24] == 0 && errno == 0)
                .then_some(ShippingReply::Done { moved, body }),
            1 if moved == 0 && body as usize <= MOST_TEXT => Some(ShippingReply::Failed {
                kind: ErrorKind::from_code(u64::from(bytes[24]))?,
                errno: (errno != 0).then_some(errno),
                at: (at != u64::MAX).then_some(Offset(at)),
                body,
            }),
            _ => None,
        }
    }
}

/// The view of a body; only such as can be shipped.
pub fn view_from_bytes(bytes: &[u8]) -> Option<View> {
    View::from_bytes(bytes).ok().filter(|view| view.tile().size() > 0 && view.is_monotone())
}

fn part<const N: usize>(bytes: &[u8], from: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[from..from + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn frames_decode_to_what_was_encoded() {
        let hello = ShippingHello { rank: 9, secret: 1 << 100 | 7 };
        assert_eq!(ShippingHello::from_bytes(&hello.to_bytes()), Some(hello));
        assert_eq!(is_refusal(&welcome(true)), Some(true));
        assert_eq!(is_refusal(&welcome(false)), Some(false));
        assert_eq!(is_refusal(&[0; WELCOME]), None);
        for request in [
            ShippingRequest::View { slot: 3, body: 100 },
            ShippingRequest::Move { write: true, slot: 15, at: 77, len: 90, share: 12 },
            ShippingRequest::Move { write: false, slot: 0, at: 0, len: 1, share: 1 },
        ] {
            assert_eq!(ShippingRequest::from_bytes(&request.to_bytes()), Some(request));
        }
        let (kind, errno, at) = (ErrorKind::NoSpace, Some(28), Some(Offset(5)));
        for answer in
            [ShippingReply::Done { moved: 8, body: 8 }, ShippingReply::Failed { kind, errno, at, body: 3 }]
        {
            assert_eq!(ShippingReply::from_bytes(&answer.to_bytes()), Some(answer));
        }
    }

    #[test]
    fn an_invalid_request_is_not_decoded() {
        let at_end = ShippingRequest::Move { write: false, slot: 0, at: i64::MAX as u64, len: 1, share: 1 };
        assert_eq!(ShippingRequest::from_bytes(&at_end.to_bytes()), None);
        let more_than_asked = ShippingRequest::Move { write: true, slot: 0, at: 0, len: 1, share: 2 };
        assert_eq!(ShippingRequest::from_bytes(&more_than_asked.to_bytes()), None);
        let nothing = ShippingRequest::Move { write: true, slot: 0, at: 0, len: 1, share: 0 };
        assert_eq!(ShippingRequest::from_bytes(&nothing.to_bytes()), None);
        assert_eq!(
            ShippingRequest::from_bytes(&ShippingRequest::View { slot: 16, body: 9 }.to_bytes()),
            None
        );
        assert_eq!(view_from_bytes(b"short"), None);
    }

    proptest! {
        #[test]
        fn any_bytes_decode_to_a_frame_or_an_error(bytes in any::<[u8; HEADER]>(), op in 0u8..4) {
            let mut bytes = bytes;
            bytes[0] = op;
            if let Some(request) = ShippingRequest::from_bytes(&bytes) {
                prop_assert_eq!(request.to_bytes(), bytes);
            }
            if let Some(answer) = ShippingReply::from_bytes(&bytes) {
                prop_assert_eq!(answer.to_bytes(), bytes);
            }
            let _ = view_from_bytes(&bytes);
        }
    }
}
