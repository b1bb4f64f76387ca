//! The head of every request and reply.
//!
//! | bytes | field |
//! |---|---|
//! | 0..4 | magic `PARF` |
//! | 4..8 | length of the body |
//! | 8..12 | length of the payload |
//! | 12..14 | number of the request or reply |
//! | 14..16 | the server that executes the request |
//! | 16..18 | flags: 1 a reply, 2 forwarded |
//! | 18..20 | 0 |
//! | 20..28 | request id; a reply has that of its request |
//!
//! The body of a forwarded request begins with the id of its client (16 bytes).

use pario_types::{ClientId, RequestId, ServerId};

use crate::codec::{Field, Reader};
use crate::error::Error;
use crate::message::{Reply, Request};
use crate::table::{decode_reply, decode_request};

/// Bytes of a head.
pub const HEAD: usize = 28;

/// The largest number of bytes of a body.
pub const MAX_BODY: u32 = 1 << 20;

/// The largest number of bytes of a payload.
pub const MAX_PAYLOAD: u32 = 8 << 20;

const MAGIC: [u8; 4] = *b"PARF";
const REPLY: u16 = 1;
const FORWARDED: u16 = 2;

/// The address and the id of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Envelope {
    /// The server that executes the request; another server may receive and forward it.
    pub server: ServerId,
    /// The id of the request, unique for its client.
    pub id: RequestId,
    /// The client of the request, if a server forwards it.
    pub origin: Option<ClientId>,
}

impl Envelope {
    /// The envelope of a request that is not forwarded.
    pub fn new(server: ServerId, id: RequestId) -> Envelope {
        Envelope { server, id, origin: None }
    }
}

/// A decoded head: its lengths are within the limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Bytes of the body.
    pub body: u32,
    /// Bytes of the payload.
    pub payload: u32,
    /// Number of the request or reply.
    pub kind: u16,
    /// The server that executes the request.
    pub server: ServerId,
    /// Whether this is a reply.
    pub reply: bool,
    /// Whether a server forwards this request for a client.
    pub forwarded: bool,
    /// The id of the request.
    pub id: RequestId,
}

impl Head {
    /// Decodes a head. [`Head::request`] and [`Head::reply`] decode the body.
    pub fn decode(bytes: &[u8; HEAD]) -> Result<Head, Error> {
        let mut from = Reader::new(bytes);
        if from.array()? != MAGIC {
            return Err(Error::BadMagic);
        }
        let [body, payload] = [u32::take(&mut from)?, u32::take(&mut from)?];
        limit("body", body.into(), MAX_BODY)?;
        limit("payload", payload.into(), MAX_PAYLOAD)?;
        let kind = u16::take(&mut from)?;
        let server = ServerId::take(&mut from)?;
        let (reply, forwarded) = match u16::take(&mut from)? {
            0 => (false, false),
            REPLY => (true, false),
            FORWARDED => (false, true),
            _ => return Err(Error::BadField("flag")),
        };
        if u16::take(&mut from)? != 0 {
            return Err(Error::BadField("reserved field"));
        }
        let id = RequestId::take(&mut from)?;
        Ok(Head { body, payload, kind, server, reply, forwarded, id })
    }

    fn encode(&self) -> [u8; HEAD] {
        let flags = if self.reply { REPLY } else { 0 } | if self.forwarded { FORWARDED } else { 0 };
        let mut bytes = [0; HEAD];
        bytes[0..4].copy_from_slice(&MAGIC);
        bytes[4..8].copy_from_slice(&self.body.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.payload.to_le_bytes());
        bytes[12..14].copy_from_slice(&self.kind.to_le_bytes());
        bytes[14..16].copy_from_slice(&self.server.0.to_le_bytes());
        bytes[16..18].copy_from_slice(&flags.to_le_bytes());
        bytes[20..28].copy_from_slice(&self.id.0.to_le_bytes());
        bytes
    }

    fn check(&self, body: &[u8]) -> Result<(), Error> {
        if body.len() != self.body as usize { Err(Error::Truncated) } else { Ok(()) }
    }

    /// Decodes the request in the body, and its envelope. The payload has the length that the request states.
    pub fn request(&self, body: &[u8]) -> Result<(Envelope, Request), Error> {
        self.check(body)?;
        if self.reply {
            return Err(Error::BadField("flag"));
        }
        let mut from = Reader::new(body);
        let origin = if self.forwarded { Some(ClientId::take(&mut from)?) } else { None };
        let request = decode_request(self.kind, &body[origin.map_or(0, |_| ClientId::LEAST)..])?;
        request.check_payloads()?;
        if request.payload() != u64::from(self.payload) {
            return Err(Error::BadField("length of a payload"));
        }
        Ok((Envelope { server: self.server, id: self.id, origin }, request))
    }

    /// Decodes the reply in the body. Only [`Reply::Data`] has a payload.
    pub fn reply(&self, body: &[u8]) -> Result<Reply, Error> {
        self.check(body)?;
        if !self.reply {
            return Err(Error::BadField("flag"));
        }
        let reply = decode_reply(self.kind, body)?;
        if self.payload > 0 && !matches!(reply, Reply::Data { .. }) {
            return Err(Error::BadField("length of a payload"));
        }
        Ok(reply)
    }
}

/// Appends a request's head and body; the caller sends its payload after them.
pub fn encode_request(out: &mut Vec<u8>, envelope: Envelope, request: &Request) -> Result<(), Error> {
    request.check_payloads()?;
    let head = Head {
        body: 0,
        payload: request.payload() as u32,
        kind: request.kind(),
        server: envelope.server,
        reply: false,
        forwarded: envelope.origin.is_some(),
        id: envelope.id,
    };
    frame(out, head, |out| {
        envelope.origin.iter().for_each(|client| client.put(out));
        request.put(out);
    })
}

/// Appends a reply's head and body; the caller sends a payload of this many bytes after them. `to` is the request's envelope.
pub fn encode_reply(out: &mut Vec<u8>, to: Envelope, reply: &Reply, payload: u64) -> Result<(), Error> {
    assert!(payload == 0 || matches!(reply, Reply::Data { .. }), "a payload with {}", reply.name());
    limit("payload", payload, MAX_PAYLOAD)?;
    let head = Head {
        body: 0,
        payload: payload as u32,
        kind: reply.kind(),
        server: to.server,
        reply: true,
        forwarded: false,
        id: to.id,
    };
    frame(out, head, |out| reply.put(out))
}

/// Appends a frame whose body `put` appends; nothing on an error.
fn frame(out: &mut Vec<u8>, mut head: Head, put: impl FnOnce(&mut Vec<u8>)) -> Result<(), Error> {
    let start = out.len();
    out.extend_from_slice(&[0; HEAD]);
    put(out);
    let body = start + HEAD;
    if let Err(error) = limit("body", (out.len() - body) as u64, MAX_BODY) {
        out.truncate(start);
        return Err(error);
    }
    head.body = (out.len() - body) as u32;
    out[start..body].copy_from_slice(&head.encode());
    Ok(())
}

fn limit(what: &'static str, length: u64, limit: u32) -> Result<(), Error> {
    let limit = u64::from(limit);
    if length > limit { Err(Error::TooLarge { what, length, limit }) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{ByteRange, ByteSelection};
    use pario_types::FileId;

    const TO: Envelope = Envelope { server: ServerId(3), id: RequestId(9), origin: None };

    fn split(bytes: &[u8]) -> (Head, &[u8]) {
        let (head, body) = bytes.split_first_chunk().expect("a head");
        (Head::decode(head).expect("sound"), body)
    }

    fn encoded(request: &Request) -> Vec<u8> {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, TO, request).expect("within the limits");
        bytes
    }

    #[test]
    fn what_is_too_large_is_refused_on_both_sides() {
        let path = "x".repeat(MAX_BODY as usize);
        let mut bytes = vec![1, 2, 3];
        let refused = encode_request(&mut bytes, TO, &Request::Unlink { path });
        let length = u64::from(MAX_BODY) + 4;
        assert_eq!(refused, Err(Error::TooLarge { what: "body", length, limit: MAX_BODY.into() }));
        assert_eq!(bytes, [1, 2, 3]);

        let ranges = vec![ByteRange { at: 0, len: u64::from(MAX_PAYLOAD) }, ByteRange { at: 0, len: 1 }];
        for request in [
            Request::Read { file: FileId(1), what: ByteSelection::Ranges(ranges.clone()) },
            Request::Write { file: FileId(1), what: ByteSelection::Ranges(ranges) },
        ] {
            assert!(matches!(encode_request(&mut bytes, TO, &request), Err(Error::TooLarge { .. })));
        }

        let mut head = encoded(&Request::Ping);
        head[4..8].copy_from_slice(&(MAX_BODY + 1).to_le_bytes());
        let head = Head::decode(head.first_chunk().expect("a head"));
        assert!(matches!(head, Err(Error::TooLarge { what: "body", .. })));
    }

    #[test]
    fn a_payload_whose_length_differs_from_the_request_is_refused() {
        let what = ByteSelection::Ranges(vec![ByteRange { at: 5, len: 7 }]);
        let write = Request::Write { file: FileId(1), what };
        let bytes = encoded(&write);
        let (mut head, body) = split(&bytes);
        assert_eq!(head.payload, 7);
        assert_eq!(head.request(body), Ok((TO, write)));
        head.payload = 8;
        assert_eq!(head.request(body), Err(Error::BadField("length of a payload")));
    }

    #[test]
    fn a_request_does_not_decode_as_a_reply() {
        let bytes = encoded(&Request::Ping);
        let (head, body) = split(&bytes);
        assert_eq!(head.reply(body), Err(Error::BadField("flag")));
        let mut bytes = Vec::new();
        encode_reply(&mut bytes, TO, &Reply::Done, 0).expect("small");
        let (head, body) = split(&bytes);
        assert_eq!(head.request(body), Err(Error::BadField("flag")));
        assert_eq!((head.server, head.id, head.reply(body)), (TO.server, TO.id, Ok(Reply::Done)));
    }

    #[test]
    fn a_forwarded_request_has_the_id_of_its_client() {
        let envelope = Envelope { origin: Some(ClientId(77)), ..TO };
        let mut bytes = Vec::new();
        encode_request(&mut bytes, envelope, &Request::StorageSpace).expect("small");
        let (head, body) = split(&bytes);
        assert!(head.forwarded);
        assert_eq!(head.request(body), Ok((envelope, Request::StorageSpace)));
    }
}
