//! Bundles carry entries between directories, whole or as far as they are whole.

mod common;

use std::fs;

use clutch_cache::{BundleError, KeyKind, KeyRecord, Store, StoreOptions};
use common::{directory, metadata, open, payload, record};
use pretty_assertions::assert_eq;

const LABELS: [&str; 5] = ["a", "b", "c", "d", "e"];

fn filled(dir: &std::path::Path) -> Store {
    let store = open(dir);
    for (index, label) in LABELS.iter().enumerate() {
        store.put(&record(label), &metadata(), &payload(index as u64, 2000));
    }
    store
}

fn exported(store: &Store) -> Vec<u8> {
    let mut bytes = Vec::new();
    store.export(&mut bytes, &mut |_| true).expect("memory can be written");
    bytes
}

#[test]
fn a_bundle_moves_entries_to_another_directory() {
    let (from, to) = (directory(), directory());
    let path = from.path().join("cache.bundle");
    let report = filled(&from.path().join("cache")).export_file(&path, &mut |_| true).expect("writes");
    assert_eq!((report.exported, report.skipped, report.bytes), (5, 0, fs::metadata(&path).expect("is there").len()));
    let store = open(to.path());
    let report = store.import_file(&path).expect("reads");
    assert_eq!((report.imported, report.present, report.corrupt, report.complete), (5, 0, 0, true));
    for (index, label) in LABELS.iter().enumerate() {
        let entry = store.get(&record(label)).expect("was imported");
        assert_eq!((entry.metadata, entry.payload), (metadata(), payload(index as u64, 2000)));
    }
    let again = store.import_file(&path).expect("reads");
    assert_eq!((again.imported, again.present), (0, 5));
}

#[test]
fn the_same_entries_make_the_same_bundle_wherever_they_are() {
    let (one, other) = (directory(), directory());
    let bytes = exported(&filled(one.path()));
    assert!(bytes == exported(&filled(other.path())));
    let moved = open(other.path());
    moved.prune(0);
    moved.import(&mut bytes.as_slice()).expect("reads");
    assert!(bytes == exported(&moved));
}

#[test]
fn only_what_is_selected_is_exported_once_over_all_layers() {
    let (local, shared) = (directory(), directory());
    filled(shared.path());
    open(local.path()).put(&record("a"), &metadata(), b"local");
    open(local.path()).put(&KeyRecord::new(KeyKind::Graph).with_text("a", "b"), &metadata(), b"graph");
    let store = Store::open(StoreOptions { shared: vec![shared.path().into()], ..StoreOptions::new(local.path()) }).expect("opens");
    let mut bytes = Vec::new();
    let report = store.export(&mut bytes, &mut |entry| entry.record.kind() == KeyKind::Executable).expect("writes");
    assert_eq!(report.exported, 5);
    let to = directory();
    let imported = open(to.path());
    imported.import(&mut bytes.as_slice()).expect("reads");
    assert_eq!(imported.get(&record("a")).expect("was exported").payload, b"local");
}

#[test]
fn damaged_entries_are_left_out_on_both_sides() {
    let (from, to) = (directory(), directory());
    let store = filled(from.path());
    let path = store.entry_path(&record("b")).expect("has a directory");
    let mut bytes = fs::read(&path).expect("is there");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    fs::write(&path, &bytes).expect("writes");
    let mut bundle = Vec::new();
    let report = store.export(&mut bundle, &mut |_| true).expect("writes");
    assert_eq!((report.exported, report.skipped), (4, 1));

    let first_payload_byte = 12 + 9 + 1000;
    bundle[first_payload_byte] ^= 1;
    let report = open(to.path()).import(&mut bundle.as_slice()).expect("reads");
    assert_eq!((report.imported, report.corrupt, report.complete), (3, 1, false));
}

#[test]
fn entries_of_a_later_version_are_left_out() {
    let (from, to) = (directory(), directory());
    let mut bundle = exported(&filled(from.path()));
    bundle[12 + 9 + 8] = 7;
    let report = open(to.path()).import(&mut bundle.as_slice()).expect("reads");
    assert_eq!((report.imported, report.future_version, report.complete), (4, 1, false));
}

#[test]
fn a_bundle_cut_off_anywhere_gives_what_came_whole() {
    let from = directory();
    let bundle = exported(&filled(from.path()));
    let mut most = 0;
    for len in (12..bundle.len()).step_by(97).chain([bundle.len() - 1]) {
        let to = directory();
        let store = open(to.path());
        let report = store.import(&mut &bundle[..len]).expect("is a bundle");
        assert!(!report.complete, "cut off at {len}");
        assert_eq!((report.corrupt, store.verify(false).good), (0, report.imported));
        assert!(report.imported >= most);
        most = report.imported;
    }
    assert_eq!(most, 5);
}

#[test]
fn what_is_no_bundle_is_refused() {
    let (from, to) = (directory(), directory());
    let mut bundle = exported(&filled(from.path()));
    let store = open(to.path());
    for len in 0..12 {
        assert!(matches!(store.import(&mut &bundle[..len]), Err(BundleError::Magic)));
    }
    bundle[8] = 2;
    assert!(matches!(store.import(&mut bundle.as_slice()), Err(BundleError::Version { found: 2 })));
    bundle[0] = b'X';
    assert!(matches!(store.import(&mut bundle.as_slice()), Err(BundleError::Magic)));
    assert!(matches!(store.import_file(&to.path().join("absent")), Err(BundleError::Io { .. })));
    let nowhere = Store::open(StoreOptions::default()).expect("opens");
    assert!(matches!(nowhere.import(&mut bundle.as_slice()), Err(BundleError::NoDirectory)));
}

#[test]
fn an_absurd_length_is_the_end_not_an_allocation() {
    let (from, to) = (directory(), directory());
    let mut bundle = exported(&filled(from.path()));
    for length in [u64::MAX, 1 << 32] {
        bundle[13..21].copy_from_slice(&length.to_le_bytes());
        let report = open(to.path()).import(&mut bundle.as_slice()).expect("is a bundle");
        assert_eq!((report.imported, report.complete), (0, false));
    }
}

#[test]
fn an_import_keeps_the_bound() {
    let (from, to) = (directory(), directory());
    let bundle = exported(&filled(from.path()));
    let store = Store::open(StoreOptions { max_bytes: 6000, ..StoreOptions::new(to.path()) }).expect("opens");
    assert_eq!(store.import(&mut bundle.as_slice()).expect("reads").imported, 5);
    assert!(store.usage().executable_bytes <= 6000);
}
