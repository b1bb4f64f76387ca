//! `docs/PROTOCOL.md` agrees with the code: its examples byte by byte, and all numbers of messages.

use pario_layout::Striping;
use pario_types::{ClientId, Epoch, FileId, PartitionId, RequestId, ServerId, Stamp};
use pario_wire::greeting::{Greeting, Hello, Role, Welcome};
use pario_wire::message::{Attributes, ByteRange, ByteSelection, FileSize, InodeKind, LeaseRecall};
use pario_wire::{
    Envelope, HEAD, Nonce, Protection, Reply, Request, Secret, Side, Transcript, encode_reply, encode_request,
};

const DOCUMENT: &str = include_str!("../../../docs/PROTOCOL.md");

/// Sixteen bytes per line, as in the document.
fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().join(" ");
    bytes.chunks(16).map(line).collect::<Vec<_>>().join("\n")
}

fn assert_documented(what: &str, bytes: &[u8]) {
    let block = format!("```hex\n{}\n```", hex(bytes));
    assert!(DOCUMENT.contains(&block), "{what} is not in docs/PROTOCOL.md:\n{block}");
}

#[test]
fn the_document_has_the_frames() {
    let to = Envelope::new(ServerId(2), RequestId(5));
    let mut request = Vec::new();
    let what = ByteSelection::Ranges(vec![ByteRange { at: 65536, len: 3 }]);
    let write = Request::Write { file: FileId(0x1234), what };
    encode_request(&mut request, to, &write).unwrap();
    request.extend_from_slice(b"abc");
    assert_documented("the request", &request);

    let mut request = Vec::new();
    let what = ByteSelection::View { view: 0x0102_0304, at: 65536, len: 4096, bytes: 1024 };
    encode_request(&mut request, to, &Request::Read { file: FileId(0x1234), what }).unwrap();
    assert_documented("the read through a view", &request[HEAD..]);

    let mut reply = Vec::new();
    encode_reply(&mut reply, to, &Reply::Done, 0).unwrap();
    assert_documented("the reply", &reply);

    let to = Envelope::new(ServerId(0), RequestId(6));
    let mut request = Vec::new();
    let ranges = vec![ByteRange { at: 0, len: 4096 }, ByteRange { at: 65536, len: 100 }];
    encode_request(&mut request, to, &Request::Prefetch { file: FileId(0x1234), ranges }).unwrap();
    assert_documented("the prefetch", &request);
    let mut reply = Vec::new();
    encode_reply(&mut reply, to, &Reply::Prefetched { taken: 1 }, 0).unwrap();
    assert_documented("the reply to the prefetch", &reply);

    let attributes = Attributes {
        file: FileId(0x1234),
        kind: InodeKind::File,
        mode: 0o640,
        size: FileSize::Ask { seen: 7 },
        accessed: Stamp(1),
        modified: Stamp(2),
        changed: Stamp(3),
        created: Stamp(4),
        striping: Striping::new(65536, 3, 1, 4).unwrap(),
        table: None,
        truncating: None,
        opens: 2,
        entries: 0,
    };
    let mut reply = Vec::new();
    encode_reply(&mut reply, to, &Reply::Opened { attributes, created: true }, 0).unwrap();
    assert_documented("the attributes", &reply[HEAD..]);
}

#[test]
fn the_document_has_the_leases() {
    let to = Envelope::new(ServerId(2), RequestId(5));
    let range = ByteRange { at: 65536, len: 131_072 };
    let body = |request: &Request| {
        let mut bytes = Vec::new();
        encode_request(&mut bytes, to, request).unwrap();
        bytes.split_off(HEAD)
    };
    let (team, file) = (0xc0de, FileId(0x1234));
    assert_documented("the lease", &body(&Request::Lease { team, file, ranges: vec![range] }));
    assert_documented("the poll", &body(&Request::PollRecalls { team, anew: false, wait_ms: 5000 }));
    let gone = ByteRange { at: 65536, len: i64::MAX as u64 - 65536 };
    assert_documented("the yield", &body(&Request::Yield { number: 7, gone }));
    let mut reply = Vec::new();
    let recalls = vec![LeaseRecall { number: 7, file, range }];
    encode_reply(&mut reply, to, &Reply::Recalled { recalls, good_ms: 20_000 }, 0).unwrap();
    assert_documented("the recall", &reply[HEAD..]);
}

fn secret() -> Secret {
    Secret::new(std::array::from_fn(|i| i as u8))
}

fn agreed(protection: Protection) -> Transcript {
    let hello = Hello {
        partition: PartitionId(0x0102_0304),
        server: ServerId(2),
        servers: 4,
        epoch: Epoch(1),
        client: ClientId(0x0a0b),
        program: 0x0c0d,
        role: Role::Client,
        resume_ledger: Some(9),
    };
    Transcript { hello, client: Nonce([0xc1; 32]), server: Nonce([0x5e; 32]), protection }
}

#[test]
fn the_document_has_the_greetings() {
    let agreed = agreed(Protection::Authenticated);
    let Transcript { hello, client, server, protection } = agreed;
    assert_documented("hello", &Greeting::Hello { hello, nonce: client }.encode());
    let proof = agreed.prove_server(&secret());
    assert_documented("the challenge", &Greeting::Challenge { nonce: server, protection, proof }.encode());
    let proof = agreed.prove_client(&secret());
    assert_documented("the answer", &Greeting::Answer { proof }.encode());
    let welcome = Welcome {
        block: 65536,
        metadata: ServerId(0),
        epoch: Epoch(2),
        cache: 0x77,
        retired: [0; 16],
        ledger: Some(9),
    };
    let proof = agreed.prove_welcome(&secret(), &welcome);
    assert_documented("the welcome", &Greeting::Welcome { welcome, proof }.encode());
}

/// The first two requests of the client after that handshake.
#[test]
fn the_document_has_the_records() {
    for protection in [Protection::Authenticated, Protection::Encrypted] {
        let (mut sealer, _) = agreed(protection).session_keys(&secret()).ends(Side::Client);
        for id in [5, 6] {
            let mut request = Vec::new();
            encode_request(&mut request, Envelope::new(ServerId(2), RequestId(id)), &Request::Ping).unwrap();
            assert_documented(&format!("record {id}, {protection:?}"), &sealer.records(&request));
        }
    }
}

#[test]
fn every_message_is_in_its_table() {
    for (title, kinds) in [("## Requests", Request::KINDS), ("## Replies", Reply::KINDS)] {
        let (_, section) = DOCUMENT.split_once(title).expect("the section is there");
        let section = section.split("\n## ").next().unwrap_or(section);
        let rows = section.lines().filter(|line| line.starts_with("| ") && line.contains('`'));
        let documented: Vec<(u16, String)> = rows
            .map(|row| {
                let cells: Vec<&str> = row.split('|').map(str::trim).collect();
                (cells[1].parse().expect("a number"), cells[2].trim_matches('`').to_owned())
            })
            .collect();
        let expected: Vec<(u16, String)> =
            kinds.iter().map(|(kind, name)| (*kind, name.to_string())).collect();
        assert_eq!(documented, expected, "{title}");
    }
}
