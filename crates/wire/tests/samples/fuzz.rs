//! Bytes that are almost messages. Whatever they are, decoding neither panics nor takes memory beyond the
//! limits; what it accepts encodes to the very same bytes.

use pario_wire::{
    Envelope, Error, HEAD, Head, MAX_BODY, Reply, Request, decode_reply, decode_request, encode_reply,
    encode_request,
};

use super::samples::{Dice, decode_greeting};

/// How many of the tried byte strings were accepted.
pub fn run(seed: u64, count: u64) -> u64 {
    let mut dice = Dice::new(seed);
    (0..count).map(|_| u64::from(once(&mut dice))).sum()
}

fn once(dice: &mut Dice) -> bool {
    match dice.below(4) {
        0 => body(dice),
        1 => frame(dice),
        2 => greeting(dice),
        _ => noise(dice),
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

/// A spoilt body.
fn body(dice: &mut Dice) -> bool {
    if dice.coin() {
        let request = dice.any_request();
        let mut bytes = body_of(&request);
        dice.spoil(&mut bytes);
        accepted_request(request.kind(), &bytes)
    } else {
        let reply = dice.any_reply();
        let mut bytes = body_of_reply(&reply);
        dice.spoil(&mut bytes);
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

/// A spoilt frame.
fn frame(dice: &mut Dice) -> bool {
    let mut bytes = Vec::new();
    let envelope = dice.envelope();
    encode_request(&mut bytes, envelope, &dice.any_request()).expect("small");
    dice.spoil(&mut bytes);
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

fn greeting(dice: &mut Dice) -> bool {
    let mut bytes = dice.greeting().encode();
    dice.spoil(&mut bytes);
    match decode_greeting(&bytes) {
        Ok(greeting) => {
            // A refusal of another version is understood but not repeated as such.
            assert_eq!(greeting.encode()[6..], bytes[6..]);
            true
        }
        Err(_) => false,
    }
}

/// Bytes without any sense.
fn noise(dice: &mut Dice) -> bool {
    let bytes: Vec<u8> = (0..dice.below(200)).map(|_| dice.next() as u8).collect();
    let kind = dice.below(80) as u16;
    if let Some((head, _)) = bytes.split_first_chunk() {
        assert_eq!(Head::decode(head), Err(Error::BadMagic));
    }
    accepted_request(kind, &bytes) | accepted_reply(kind, &bytes)
}
