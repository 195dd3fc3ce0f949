//! Listing, verifying and explaining what a store holds.

mod common;

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use clutch_cache::{EntryError, FieldValue, KeyKind, KeyRecord, LayerId, Problem, Store, StoreOptions};
use common::{directory, metadata, open, payload, record};
use pretty_assertions::assert_eq;

#[test]
fn listing_shows_what_was_put_in_every_layer() {
    let (local, shared) = (directory(), directory());
    open(local.path()).put(&record("a"), &metadata(), &payload(1, 300_000));
    open(shared.path()).put(&record("b"), &metadata(), b"x");
    let store = Store::open(StoreOptions { shared: vec![shared.path().into()], ..StoreOptions::new(local.path()) }).expect("opens");
    let listing = store.ls();
    let shown: Vec<_> = listing.entries.iter().map(|entry| (&entry.record, &entry.layer, entry.payload_bytes)).collect();
    assert_eq!(shown, [(&record("a"), &LayerId::Local, 300_000), (&record("b"), &LayerId::Shared(0), 1)]);
    assert_eq!((&listing.entries[0].metadata, listing.entries[0].key, listing.unreadable), (&metadata(), record("a").key(), 0));
    assert!(listing.entries[0].file_bytes < 200_000, "compressed");
    let usage = store.usage();
    assert_eq!((usage.executable_entries, usage.executable_bytes), (1, listing.entries[0].file_bytes));
}

#[test]
fn verify_finds_every_kind_of_fault_and_removes_those_it_may() {
    let dir = directory();
    let store = open(dir.path());
    let path = |label: &str| store.entry_path(&record(label)).expect("has a directory");
    for label in ["good", "cut", "flipped", "forged", "future", "empty", "garbage"] {
        assert!(store.put(&record(label), &metadata(), &payload(1, 1000)));
    }
    let edit = |label: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = fs::read(path(label)).expect("is there");
        change(&mut bytes);
        fs::write(path(label), bytes).expect("writes");
    };
    edit("cut", &|bytes| bytes.truncate(700));
    edit("flipped", &|bytes| bytes[600] ^= 4);
    edit("forged", &|bytes| *bytes = fs::read(path("good")).expect("is there"));
    edit("future", &|bytes| bytes[8] = 2);
    edit("empty", &|bytes| bytes.clear());
    edit("garbage", &|bytes| bytes.fill(0xaa));
    let shard = path("good").parent().expect("has a shard").to_owned();
    fs::write(shard.join("notes.txt"), "mine").expect("writes");
    let abandoned = File::create(shard.join(".tmp-abandoned")).expect("makes");
    abandoned.set_modified(SystemTime::now() - Duration::from_secs(100_000)).expect("is ours");

    let report = store.verify(false);
    assert_eq!((report.good, report.bad.len()), (1, 8));
    assert!(report.bad.iter().all(|bad| !bad.removed && bad.path.exists()));
    let problem = |label: &str| &report.bad.iter().find(|bad| bad.path == path(label)).expect("is reported").problem;
    assert!(matches!(problem("cut"), Problem::Entry(EntryError::Length { .. })));
    assert_eq!(problem("flipped"), &Problem::Entry(EntryError::Digest { part: "file" }));
    assert_eq!(problem("forged"), &Problem::WrongName { actual: record("good").key(), kind: KeyKind::Executable });
    assert_eq!(problem("future"), &Problem::Entry(EntryError::FutureVersion { found: 2 }));
    assert!(matches!(problem("empty"), Problem::Entry(EntryError::Length { .. })));
    assert_eq!(problem("garbage"), &Problem::Entry(EntryError::Magic));

    let shared = Store::open(StoreOptions { shared: vec![dir.path().into()], ..StoreOptions::default() }).expect("opens");
    assert!(shared.verify(true).bad.iter().all(|bad| !bad.removed), "shared directories are not written to");

    let removed: Vec<_> = store.verify(true).bad.into_iter().filter(|bad| bad.removed).collect();
    assert_eq!(removed.len(), 6);
    let left: Vec<_> = store.verify(true).bad.into_iter().map(|bad| bad.problem).collect();
    assert_eq!(left.len(), 2);
    assert!(left.contains(&Problem::Stray) && left.contains(&Problem::Entry(EntryError::FutureVersion { found: 2 })));
    assert!(store.get(&record("good")).is_some() && shard.join("notes.txt").exists());
}

#[test]
fn an_entry_in_the_wrong_shard_is_misnamed() {
    let dir = directory();
    let store = open(dir.path());
    store.put(&record("a"), &metadata(), b"x");
    let right = store.entry_path(&record("a")).expect("has a directory");
    let wrong = dir.path().join("v1").join(if record("a").key().shard() == "00" { "01" } else { "00" });
    fs::create_dir(&wrong).expect("makes");
    fs::copy(&right, wrong.join(right.file_name().expect("has a name"))).expect("copies");
    let report = store.verify(true);
    assert_eq!((report.good, report.bad.len()), (1, 1));
    assert!(matches!(&report.bad[0].problem, Problem::WrongName { .. }) && right.exists());
}

fn compiled(torch: &str, flags: &str, hlo: &[u8]) -> KeyRecord {
    KeyRecord::new(KeyKind::Executable).with_text("torch", torch).with_text("flags", flags).with_bytes("hlo", hlo)
}

#[test]
fn explain_names_the_nearest_entry_and_the_first_difference() {
    let dir = directory();
    let store = open(dir.path());
    assert_eq!(store.explain(&compiled("2.15", "-O2", b"m")).nearest, None);
    store.put(&compiled("2.14", "-O1", b"n"), &metadata(), b"x");
    store.put(&compiled("2.15", "-O1", b"m"), &metadata(), b"x");
    store.put(&compiled("2.15", "-O1", b"n"), &metadata(), b"x");
    store.put(&KeyRecord::new(KeyKind::Graph).with_text("torch", "2.15"), &metadata(), b"x");

    let explanation = store.explain(&compiled("2.15", "-O2", b"m"));
    let nearest = explanation.nearest.as_ref().expect("there are entries");
    assert_eq!((explanation.compared, nearest.differences.len()), (3, 1));
    assert_eq!(nearest.entry.record, compiled("2.15", "-O1", b"m"));
    let first = nearest.first().expect("they differ");
    assert_eq!((first.name.as_str(), &first.theirs), ("flags", &Some(FieldValue::Text("-O1".into()))));
    let shown = explanation.to_string();
    assert!(shown.ends_with("1 of its fields differ, the first is flags: \"-O2\" here, \"-O1\" there"), "{shown}");

    let exact = store.explain(&compiled("2.15", "-O1", b"n")).nearest.expect("there are entries");
    assert_eq!(exact.first(), None);
    let other = store.explain_others(&compiled("2.15", "-O1", b"n"));
    assert_eq!((other.compared, other.nearest.expect("there are others").differences.len()), (2, 1));
}

#[test]
fn explain_reads_headers_only_so_a_damaged_payload_does_not_matter() {
    let dir = directory();
    let store = open(dir.path());
    store.put(&compiled("2.15", "-O1", b"m"), &metadata(), &payload(1, 100_000));
    let path = store.entry_path(&compiled("2.15", "-O1", b"m")).expect("has a directory");
    let bytes = fs::read(&path).expect("is there");
    fs::write(&path, &bytes[..bytes.len() / 2]).expect("writes");
    assert_eq!(store.explain(&compiled("2.15", "-O2", b"m")).compared, 1);
    fs::write(&path, &bytes[..100]).expect("writes");
    assert_eq!(store.explain(&compiled("2.15", "-O2", b"m")).compared, 0);
    assert_eq!(store.ls().unreadable, 1);
}

#[test]
fn of_equally_near_entries_the_most_recently_used_is_named() {
    let dir = directory();
    let store = open(dir.path());
    for flags in ["-O0", "-O1", "-O3"] {
        store.put(&compiled("2.15", flags, b"m"), &metadata(), b"x");
        let path = store.entry_path(&compiled("2.15", flags, b"m")).expect("has a directory");
        let age = if flags == "-O1" { 10 } else { 1000 };
        File::open(path).expect("is there").set_modified(SystemTime::now() - Duration::from_secs(age)).expect("is ours");
    }
    let nearest = store.explain(&compiled("2.15", "-O2", b"m")).nearest.expect("there are entries");
    assert_eq!(nearest.entry.record, compiled("2.15", "-O1", b"m"));
}
