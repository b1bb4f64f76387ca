//! Damaged messages. Decoding them neither panics nor allocates memory beyond the limits; accepted bytes encode to the same bytes.

use pario_wire::{
    Envelope, Error, HEAD, Head, MAX_BODY, Reply, Request, decode_reply, decode_request, encode_reply,
    encode_request,
};

use super::samples::{RandomMessages, decode_greeting};

/// How many of the tried byte strings were accepted.
pub fn run(seed: u64, count: u64) -> u64 {
    let mut random = RandomMessages::new(seed);
    (0..count).map(|_| u64::from(once(&mut random))).sum()
}

fn once(random: &mut RandomMessages) -> bool {
    match random.below(4) {
        0 => body(random),
        1 => frame(random),
        2 => greeting(random),
        _ => noise(random),
    }
}

fn body_of(request: &Request) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_request(&mut bytes, Envelope::new(Default::default(), Default::default()), request)
        .expect("small");
    bytes.split_off(HEAD)
}

fn body_of_reply(reply: &Reply) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_reply(&mut bytes, Envelope::new(Default::default(), Default::default()), reply, 0).expect("small");
    bytes.split_off(HEAD)
}

/// A damaged body.
fn body(random: &mut RandomMessages) -> bool {
    if random.coin() {
        let request = random.any_request();
        let mut bytes = body_of(&request);
        random.spoil(&mut bytes);
        accepted_request(request.kind(), &bytes)
    } else {
        let reply = random.any_reply();
        let mut bytes = body_of_reply(&reply);
        random.spoil(&mut bytes);
        accepted_reply(reply.kind(), &bytes)
    }
}

fn accepted_request(kind: u16, bytes: &[u8]) -> bool {
    let decoded = decode_request(kind, bytes);
    if let Ok(again) = &decoded {
        // Payloads beyond the limit are refused by the head, not by the body.
        let small = again.payload().max(again.reply_payload()) <= u64::from(pario_wire::MAX_PAYLOAD);
        assert!(!small || body_of(again) == bytes, "two ways to write {again:?}");
    }
    decoded.is_ok()
}

fn accepted_reply(kind: u16, bytes: &[u8]) -> bool {
    let decoded = decode_reply(kind, bytes);
    if let Ok(again) = &decoded {
        assert!(body_of_reply(again) == bytes, "two ways to write {again:?}");
    }
    decoded.is_ok()
}

/// A damaged frame.
fn frame(random: &mut RandomMessages) -> bool {
    let mut bytes = Vec::new();
    let envelope = random.envelope();
    encode_request(&mut bytes, envelope, &random.any_request()).expect("small");
    random.spoil(&mut bytes);
    let Some((head, body)) = bytes.split_first_chunk() else { return false };
    let decoded = Head::decode(head).and_then(|head| {
        assert!(head.body <= MAX_BODY);
        head.request(body)
    });
    if let Ok((envelope, request)) = &decoded {
        let mut again = Vec::new();
        encode_request(&mut again, *envelope, request).expect("it was decoded");
        assert_eq!(again, bytes);
    }
    decoded.is_ok()
}

fn greeting(random: &mut RandomMessages) -> bool {
    let mut bytes = random.greeting().encode();
    random.spoil(&mut bytes);
    match decode_greeting(&bytes) {
        Ok(greeting) => {
            // A refusal of another version decodes, but encodes in this version.
            assert_eq!(greeting.encode()[6..], bytes[6..]);
            true
        }
        Err(_) => false,
    }
}

/// Random bytes.
fn noise(random: &mut RandomMessages) -> bool {
    let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
    let kind = random.below(80) as u16;
    if let Some((head, _)) = bytes.split_first_chunk() {
        assert_eq!(Head::decode(head), Err(Error::BadMagic));
    }
    accepted_request(kind, &bytes) | accepted_reply(kind, &bytes)
}
