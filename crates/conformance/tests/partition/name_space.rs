//! A name space with lost or damaged files: `pario up` fails without it, and its message says what to do.

use std::fs;
use std::path::PathBuf;

use pario::{OpenOptions, Partition};

use super::site::{Shape, Site};

fn names(site: &Site) -> PathBuf {
    site.data(0).join("names")
}

fn write(client: &Partition, path: &str) {
    let mut options = OpenOptions::new();
    let file = client.open(path, options.write(true).create(true)).expect("it can be created");
    file.write_at(&[7; 100_000], 0).and_then(|()| file.close()).expect("all servers are up");
}

/// The message of a `pario up` that fails.
#[track_caller]
fn refused(site: &Site) -> String {
    let output = site.try_pario(&["up", &site.file().to_string_lossy()]);
    assert!(!output.status.success(), "it came up");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_lost_name_space_is_never_replaced_by_an_empty_one() {
    let site = Site::up(Shape::new(2));
    write(&site.client(), "/file");
    site.stop();
    let away = site.path("away");
    for lost in ["", "journal.0", "current"] {
        let place = if lost.is_empty() { names(&site) } else { names(&site).join(lost) };
        fs::rename(&place, &away).expect("it is there");
        let said = refused(&site);
        assert!(said.contains(&*place.to_string_lossy()), "{said}");
        assert!(said.contains("put it back") || said.contains("put back its files"), "{said}");
        let _ = fs::remove_dir_all(&place);
        fs::rename(&away, &place).expect("it can be put back");
    }
    site.start();
    assert_eq!(site.client().metadata("/file").expect("it is there").len(), 100_000);
}

#[test]
fn damage_at_the_end_of_the_journal_is_reported_after_an_orderly_stop() {
    let site = Site::up(Shape::new(1));
    write(&site.client(), "/file");
    site.stop();
    let journal = names(&site).join("journal.0");
    let whole = fs::read(&journal).expect("it is there");
    let mut damaged = whole.clone();
    *damaged.last_mut().expect("it has records") ^= 1;
    for bytes in [damaged, whole[..whole.len() - 1].to_vec()] {
        fs::write(&journal, &bytes).expect("it can be written");
        let said = refused(&site);
        assert!(said.contains("journal.0 is damaged at byte"), "{said}");
        assert_eq!(fs::read(&journal).expect("it is there"), bytes, "it is left as it is");
    }
    fs::write(&journal, &whole).expect("it can be written");
    site.start();
    assert_eq!(site.client().metadata("/file").expect("it is there").len(), 100_000);
}

#[test]
fn a_removed_file_stays_for_those_who_have_it_open_when_the_partition_goes_down_and_up() {
    let site = Site::up(Shape::new(2));
    let client = site.client();
    write(&client, "/file");
    let open = client.open("/file", OpenOptions::new().read(true)).expect("it is there");
    let content = |open: &pario::File| {
        let mut bytes = vec![0xa5; 1000];
        open.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    let before = content(&open).expect("it is open");
    client.remove_file("/file").expect("it is there");
    site.stop();
    site.start();
    assert!(content(&open).expect("it is still open") == before, "its bytes are gone");
    open.close().expect("nothing is lost");
}
