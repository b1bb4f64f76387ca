//! The number of messages of accesses through a view, for a client of another host.

use pario::{File, Offset, OpenOptions, Partition, Pos, view};

use super::dice::Dice;
use super::site::{Shape, Site};

/// Requests that all servers together have got.
fn requests(site: &Site, client: &Partition) -> u64 {
    site.servers().map(|server| client.status(server).expect("it answers").traffic.requests).sum()
}

fn open(client: &Partition) -> File {
    let mut options = OpenOptions::new();
    client.open("/file", options.read(true).write(true).create(true)).expect("a new file")
}

/// A million and a half bytes in pieces of 24: lists of them would take more than a hundred messages.
#[test]
fn an_access_through_a_view_is_one_message_per_server() {
    let site = Site::up(Shape::new(2));
    let (near, far) = (site.client(), site.far_client());
    let (file, again) = (open(&far), open(&near));
    let pieces = || view::strided(Offset(77), 24, 50).expect("a view");
    let cost = |act: &mut dyn FnMut()| {
        let before = requests(&site, &near);
        act();
        // Asking how many there were is one to each server, too.
        requests(&site, &near) - before - 2
    };
    let mut back = vec![0; 1_500_000];
    for round in 0..3 {
        let bytes = Dice::new(round).bytes(back.len());
        let wrote = cost(&mut || file.write_view(&pieces(), Pos(round), &bytes).expect("there is room"));
        // The view goes first, once.
        assert_eq!(wrote, if round == 0 { 4 } else { 2 });
        let mut read = 0;
        let cost =
            cost(&mut || read = file.read_view(&pieces(), Pos(round), &mut back).expect("it is there"));
        assert_eq!((cost, read), (2, bytes.len()));
        assert!(back == bytes, "what was written comes back");
        again.read_view(&pieces(), Pos(round), &mut back).expect("it is there");
        assert!(back == bytes, "to others as well");
    }
    // Another client sends the view once more, and a restarted server that does not have it gets it again.
    let other = open(&site.far_client());
    let expected = std::mem::take(&mut back);
    for server in site.servers() {
        assert!(site.kill(server));
        for file in [&file, &other] {
            let mut back = vec![0; expected.len()];
            file.read_view(&pieces(), Pos(2), &mut back).expect("it comes back");
            assert!(back == expected, "nothing is lost");
        }
    }
}

/// The first client requests all blocks; later ones find them in the directory of the pool.
#[test]
fn clients_of_a_host_find_blocks_that_another_client_requested() {
    let site = Site::up(Shape::new(2));
    let (first, second) = (site.client(), site.client());
    let (file, again) = (open(&first), open(&second));
    let bytes = Dice::new(5).bytes(1_500_000);
    let cost = |act: &mut dyn FnMut()| {
        let before = requests(&site, &first);
        act();
        requests(&site, &first) - before - 2
    };
    let view = || view::strided(Offset(77), 24, 50).expect("a view");
    assert!(cost(&mut || file.write_view(&view(), Pos(0), &bytes).expect("there is room")) > 0);
    let mut back = vec![0; bytes.len()];
    let read = cost(&mut || {
        again.read_view(&view(), Pos(0), &mut back).expect("it is there");
    });
    let wrote = cost(&mut || again.write_view(&view(), Pos(0), &bytes).expect("there is room"));
    assert!(back == bytes, "what was written comes back");
    assert_eq!((read, wrote), (0, 0), "questions");
    // A server that comes back has its predecessor's pool and its directory.
    for server in site.servers() {
        assert!(site.kill(server));
    }
    let third = open(&site.client());
    back.fill(0);
    third.read_view(&view(), Pos(0), &mut back).expect("it comes back");
    assert!(back == bytes, "nothing is lost");
}
