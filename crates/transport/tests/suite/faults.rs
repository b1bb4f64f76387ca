//! Peers that crash, are slow or send garbage: the client gets an error of the right kind, the connection ends, and no call hangs.

use std::io::{IoSlice, IoSliceMut};
use std::sync::mpsc;

use pario_transport::{Connection, Error};
use pario_types::{ErrorKind, FileId, RequestId};
use pario_wire::message::{ByteRange, ByteSelection};
use pario_wire::{Envelope, HEAD, Reply, Request, TAG};

use crate::support::{Medium, Server, at_once, envelope, hello, on_all, reply_bytes, secret, soon};

const LEN: usize = 1000;
const LARGE: usize = 8 << 20;

fn read() -> Request {
    Request::Read { file: FileId(1), what: ByteSelection::Ranges(vec![ByteRange { at: 0, len: LEN as u64 }]) }
}

fn write_large() -> Request {
    Request::Write {
        file: FileId(1),
        what: ByteSelection::Ranges(vec![ByteRange { at: 0, len: LARGE as u64 }]),
    }
}

/// Reads once; returns the error, after which the connection must be dead.
fn read_fails(connection: &mut Connection) -> Error {
    let mut back = [0; LEN];
    let into = &mut [IoSliceMut::new(&mut back)];
    let error = connection.call(envelope(1), &read(), &[], into, soon()).unwrap_err();
    assert!(connection.is_dead());
    assert_eq!(connection.outstanding(), 0);
    let later = connection.call(envelope(2), &Request::Ping, &[], &mut [], soon()).unwrap_err();
    assert!(matches!(later, Error::Dead { .. }) && later.kind() == ErrorKind::Unreachable, "{later}");
    error
}

#[test]
fn a_server_that_dies_in_mid_reply_is_noticed() {
    let whole = reply_bytes(envelope(1), &Reply::Data { end: 5 }, &[1; LEN]);
    for cut in [0, 1, HEAD - 1, HEAD, HEAD + 1, HEAD + 8, HEAD + 9, whole.len() - 1, whole.len() + TAG] {
        on_all(
            |mut server| {
                server.next().expect("a request");
                let records = server.seal(&whole);
                server.write(&records[..cut]);
            },
            |_, mut connection| {
                let error = read_fails(&mut connection);
                assert!(matches!(error, Error::Closed { .. }), "cut at {cut}: {error}");
                assert_eq!(error.kind(), ErrorKind::Unreachable);
            },
        );
    }
}

#[test]
fn a_server_that_dies_in_mid_request_is_noticed() {
    let data = vec![1; LARGE];
    on_all(
        |server| {
            // It receives some of it and closes the connection.
            server.stream.read(&mut [0; 10000]).expect("some bytes");
        },
        |_, mut connection| {
            let error = connection
                .call(envelope(1), &write_large(), &[IoSlice::new(&data)], &mut [], soon())
                .unwrap_err();
            assert!(matches!(error, Error::Closed { .. }), "{error}");
            assert!(connection.is_dead());
        },
    );
}

#[test]
fn no_call_waits_beyond_its_deadline() {
    let data = vec![1; LARGE];
    for medium in Medium::ALL {
        // Ends when the sender is dropped: the server stays silent as long as the client waits.
        let (done, wait) = mpsc::channel::<()>();
        let (near, far) = medium.ends();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let server = Server::let_in(far);
                let _ = wait.recv();
                drop(server);
            });
            let (mut connection, _, _) =
                Connection::over(near, "mute".into(), &hello(), &secret(), soon()).unwrap();
            // As a rule the first few small requests fit into the socket's buffers and the large one does
            // not.
            connection.send(envelope(1), &Request::Ping, &[], at_once()).unwrap();
            let error =
                connection.send(envelope(2), &write_large(), &[IoSlice::new(&data)], at_once()).unwrap_err();
            assert!(
                matches!(error, Error::TimedOut { .. }) && error.kind() == ErrorKind::Unreachable,
                "{error}"
            );
            assert!(connection.is_dead());
            drop(done);
        });
    }
}

#[test]
fn a_slow_reply_fails_at_the_deadline() {
    let (done, wait) = mpsc::channel::<()>();
    let wait = std::sync::Mutex::new(wait);
    let whole = reply_bytes(envelope(1), &Reply::Data { end: 5 }, &[1; LEN]);
    on_all(
        |mut server| {
            server.next().expect("a request");
            let records = server.seal(&whole);
            server.write(&records[..records.len() - 1]);
            wait.lock().unwrap().recv().expect("the client is done");
        },
        |_, mut connection| {
            let mut back = [0; LEN];
            let into = &mut [IoSliceMut::new(&mut back)];
            let error = connection.call(envelope(1), &read(), &[], into, at_once()).unwrap_err();
            assert!(matches!(error, Error::TimedOut { .. }), "{error}");
            assert!(connection.is_dead());
            done.send(()).unwrap();
        },
    );
}

/// Returns the client's result for these bytes as a reply to its request.
fn answered_with(bytes: Vec<u8>) -> Vec<Error> {
    let errors = std::cell::RefCell::new(Vec::new());
    on_all(
        |mut server| {
            server.next().expect("a request");
            server.send(&bytes);
            // Stays until the client goes.
            assert!(server.next().is_none());
        },
        |_, mut connection| errors.borrow_mut().push(read_fails(&mut connection)),
    );
    errors.into_inner()
}

#[test]
fn an_invalid_reply_ends_the_connection() {
    let sound = reply_bytes(envelope(1), &Reply::Data { end: 5 }, &[1; LEN]);
    let mut damaged = sound.clone();
    damaged[0] ^= 1;
    let mut request = Vec::new();
    pario_wire::encode_request(&mut request, envelope(1), &Request::Ping).unwrap();
    let malformed = [b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n".to_vec(), damaged, request];
    for error in malformed.into_iter().flat_map(answered_with) {
        assert!(matches!(error, Error::Malformed { .. }) && error.kind() == ErrorKind::Protocol, "{error}");
    }
    let other = Envelope { id: RequestId(2), ..envelope(1) };
    let data = Reply::Data { end: 5 };
    let wrong = [
        reply_bytes(other, &data, &[1; LEN]),
        reply_bytes(envelope(1), &data, &[1; LEN + 1]),
        reply_bytes(envelope(1), &data, &[1; LEN - 1]),
        reply_bytes(envelope(1), &data, &[]),
    ];
    for error in wrong.into_iter().flat_map(answered_with) {
        assert!(
            matches!(error, Error::UnexpectedMessage { .. }) && error.kind() == ErrorKind::Protocol,
            "{error}"
        );
    }
}

#[test]
fn a_failure_needs_no_payload_and_leaves_the_connection_alive() {
    let failure = pario_wire::message::Failure { kind: ErrorKind::Damaged, errno: 5, text: "block 3".into() };
    let failed = Reply::Failed(failure);
    on_all(
        |mut server| {
            while let Some((envelope, _, _)) = server.next() {
                server.reply(envelope, &failed, &[]);
            }
        },
        |_, mut connection| {
            for id in 1..3 {
                let mut back = [7; LEN];
                let into = &mut [IoSliceMut::new(&mut back)];
                assert_eq!(connection.call(envelope(id), &read(), &[], into, soon()).unwrap(), failed);
                assert_eq!(back, [7; LEN]);
            }
        },
    );
}

#[test]
fn an_unexpected_reply_ends_the_connection() {
    on_all(
        |mut server| {
            let (envelope, _, _) = server.next().expect("a request");
            server.reply(envelope, &Reply::Done, &[]);
            server.reply(envelope, &Reply::Done, &[]);
            while server.next().is_some() {}
        },
        |_, mut connection| {
            connection.call(envelope(1), &Request::Ping, &[], &mut [], soon()).unwrap();
            // The extra reply is taken for an answer to this, and has the wrong id.
            let error = connection.call(envelope(2), &Request::Ping, &[], &mut [], soon()).unwrap_err();
            assert!(matches!(error, Error::UnexpectedMessage { .. }), "{error}");
            assert!(connection.is_dead());
        },
    );
}
