//! Every encoded message decodes to the same message, and no other bytes decode.

#[path = "samples/fuzz.rs"]
mod fuzz;
mod samples;

use pario_wire::{HEAD, Head, Reply, Request, encode_reply, encode_request};
use proptest::prelude::*;
use samples::{RandomMessages, decode_greeting};

proptest! {
    #[test]
    fn requests_survive_encoding_and_decoding(seed in any::<u64>()) {
        for (kind, name) in Request::KINDS {
            let mut random = RandomMessages::new(seed ^ u64::from(*kind));
            let (envelope, request) = (random.envelope(), random.request(*kind));
            prop_assert_eq!(request.name(), *name);
            let mut bytes = vec![0xaa; 3];
            encode_request(&mut bytes, envelope, &request).unwrap();
            let (head, body) = bytes[3..].split_first_chunk().unwrap();
            let head = Head::decode(head).unwrap();
            prop_assert_eq!((head.body as usize, u64::from(head.payload)), (body.len(), request.payload()));
            prop_assert_eq!(head.request(body), Ok((envelope, request)));
        }
    }

    #[test]
    fn replies_survive_encoding_and_decoding(seed in any::<u64>()) {
        for (kind, name) in Reply::KINDS {
            let mut random = RandomMessages::new(seed ^ u64::from(*kind));
            let (envelope, reply) = (random.envelope(), random.reply(*kind));
            prop_assert_eq!(reply.name(), *name);
            let mut bytes = Vec::new();
            let payload = if matches!(reply, Reply::Data { .. }) { random.below(8 << 20) } else { 0 };
            encode_reply(&mut bytes, envelope, &reply, payload).unwrap();
            let head = Head::decode(bytes.first_chunk().unwrap()).unwrap();
            prop_assert_eq!((head.server, head.id), (envelope.server, envelope.id));
            prop_assert_eq!(u64::from(head.payload), payload);
            prop_assert_eq!(head.reply(&bytes[HEAD..]), Ok(reply));
        }
    }

    #[test]
    fn greetings_survive_encoding_and_decoding(seed in any::<u64>()) {
        let greeting = RandomMessages::new(seed).greeting();
        prop_assert_eq!(decode_greeting(&greeting.encode()), Ok(greeting));
    }

    #[test]
    fn a_truncated_message_does_not_decode(seed in any::<u64>()) {
        let mut random = RandomMessages::new(seed);
        let mut bytes = Vec::new();
        encode_request(&mut bytes, random.envelope(), &random.any_request()).unwrap();
        let body = &bytes[HEAD..];
        let head = Head::decode(bytes.first_chunk().unwrap()).unwrap();
        for len in 0..body.len() {
            prop_assert!(head.request(&body[..len]).is_err());
        }
        let greeting = random.greeting().encode();
        for len in 0..greeting.len() {
            prop_assert!(decode_greeting(&greeting[..len]).is_err());
        }
    }
}

/// The short run of `cargo run -p pario-wire --example fuzz_codec -- SEED COUNT`.
#[test]
fn damaged_messages_cause_no_panic() {
    let accepted = fuzz::run(1, 100_000);
    assert!(accepted > 1000, "only {accepted} were accepted: the test tests nothing");
}
