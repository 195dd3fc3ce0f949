//! The bound is kept, least recently used first, whatever the clock did and whoever died.

mod common;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clutch_cache::{KeyRecord, Store, StoreOptions};
use common::{directory, metadata, open, payload, record};
use pretty_assertions::assert_eq;

const MIB: u64 = 1 << 20;

fn bounded(dir: &Path, max_bytes: u64) -> Store {
    Store::open(StoreOptions { max_bytes, ..StoreOptions::new(dir) }).expect("opens")
}

fn numbered(index: usize) -> KeyRecord {
    record(&index.to_string())
}

fn path(store: &Store, record: &KeyRecord) -> PathBuf {
    store.entry_path(record).expect("has a directory")
}

fn used(store: &Store, record: &KeyRecord, time: SystemTime) {
    File::open(path(store, record)).expect("is there").set_modified(time).expect("is ours");
}

fn total(store: &Store) -> u64 {
    store.ls().entries.iter().map(|entry| entry.file_bytes).sum()
}

#[test]
fn ten_entries_of_200_kb_under_a_mebibyte_leave_the_newest() {
    let dir = directory();
    let store = bounded(dir.path(), MIB);
    for index in 0..10 {
        assert!(store.put(&numbered(index), &metadata(), &payload(index as u64, 200_000)));
        assert!(total(&store) <= MIB, "after entry {index}");
    }
    let left: Vec<usize> = (0..10).filter(|index| path(&store, &numbered(*index)).exists()).collect();
    assert!(left.len() >= 4 && left == (10 - left.len()..10).collect::<Vec<_>>(), "{left:?}");
    assert_eq!(store.stats().evictions, 10 - left.len() as u64);
    assert!(left.iter().all(|index| store.get(&numbered(*index)).is_some()));
}

#[test]
fn what_was_used_lately_outlives_what_was_not() {
    let dir = directory();
    let store = bounded(dir.path(), MIB);
    let long_ago = SystemTime::now() - Duration::from_secs(10_000);
    for index in 0..4 {
        store.put(&numbered(index), &metadata(), &payload(index as u64, 200_000));
        used(&store, &numbered(index), long_ago + Duration::from_secs(index as u64));
    }
    assert!(store.get(&numbered(0)).is_some(), "a use");
    for index in 4..6 {
        store.put(&numbered(index), &metadata(), &payload(index as u64, 200_000));
    }
    let there = |index| path(&store, &numbered(index)).exists();
    assert!(there(0) && !there(1) && there(4) && there(5));
}

#[test]
fn an_entry_from_the_future_ages_from_now_on() {
    let dir = directory();
    let store = bounded(dir.path(), 10 * MIB);
    let future = SystemTime::now() + Duration::from_secs(1_000_000);
    for index in 0..3 {
        store.put(&numbered(index), &metadata(), &payload(index as u64, 1000));
        used(&store, &numbered(index), future);
    }
    store.prune(10 * MIB);
    let limit = SystemTime::now() + Duration::from_secs(120);
    assert!(store.ls().entries.iter().all(|entry| entry.last_used < limit));
    for index in 0..3 {
        used(&store, &numbered(index), SystemTime::UNIX_EPOCH);
    }
    assert_eq!(store.prune(0).removed, 3, "a clock far ahead makes everything old, nothing worse");
}

#[test]
fn an_entry_above_the_bound_is_not_kept_and_evicts_nothing() {
    let dir = directory();
    let store = bounded(dir.path(), 100_000);
    assert!(store.put(&record("small"), &metadata(), &payload(1, 1000)));
    assert!(!store.put(&record("large"), &metadata(), &payload(2, 200_000)));
    assert_eq!((store.stats().too_large, store.stats().evictions), (1, 0));
    assert!(store.get(&record("small")).is_some());
}

#[test]
fn an_entry_just_below_the_bound_is_kept_alone() {
    let dir = directory();
    let store = bounded(dir.path(), 100_000);
    store.put(&record("small"), &metadata(), &payload(1, 1000));
    assert!(store.put(&record("large"), &metadata(), &payload(2, 99_500)));
    assert!(store.get(&record("large")).is_some() && store.get(&record("small")).is_none());
}

#[test]
fn what_other_stores_wrote_counts_once_the_directory_is_counted_again() {
    let dir = directory();
    let stores: Vec<Store> = (0..3).map(|_| bounded(dir.path(), MIB)).collect();
    for index in 0..30 {
        stores[index % 3].put(&numbered(index), &metadata(), &payload(index as u64, 100_000));
    }
    assert!(total(&stores[0]) <= MIB);
}

#[test]
fn concurrent_evictions_never_show_a_reader_anything_but_whole_entries_or_none() {
    let dir = directory();
    std::thread::scope(|scope| {
        for writer in 0..3_usize {
            let store = bounded(dir.path(), MIB);
            scope.spawn(move || {
                for index in 0..60 {
                    store.put(&numbered(index), &metadata(), &payload(index as u64, 60_000));
                    if let Some(entry) = store.get(&numbered((index * 7 + writer) % 60)) {
                        let label = entry.record.get("label").expect("has a label").to_string();
                        let seed = label.trim_matches('"').parse().expect("a number");
                        assert!(entry.payload == payload(seed, 60_000));
                    }
                }
                let stats = store.stats();
                assert_eq!((stats.corrupt, stats.io_errors, stats.put_failures), (0, 0, 0));
            });
        }
    });
    let store = bounded(dir.path(), MIB);
    store.prune(MIB);
    assert!(total(&store) <= MIB);
}

#[test]
fn pruning_removes_what_dead_processes_left_and_spares_what_live_ones_have() {
    let dir = directory();
    let store = open(dir.path());
    store.put(&record("a"), &metadata(), b"x");
    let shard = path(&store, &record("a")).parent().expect("has a shard").to_owned();
    let temporary = |name: &str, age: u64| {
        let file = File::create(shard.join(name)).expect("makes");
        file.set_modified(SystemTime::now() - Duration::from_secs(age)).expect("is ours");
    };
    temporary(".tmp-dead", 100_000);
    temporary(".tmp-live", 10);
    let locks = dir.path().join("v1/locks");
    fs::create_dir_all(&locks).expect("makes");
    fs::write(locks.join("dead.lock"), "").expect("writes");
    let held = File::create(locks.join("held.lock")).expect("makes");
    held.lock().expect("locks");

    let report = store.prune(u64::MAX);
    assert_eq!((report.temporaries, report.locks, report.removed, report.remaining), (1, 1, 0, 1));
    assert!(!shard.join(".tmp-dead").exists() && shard.join(".tmp-live").exists());
    assert!(!locks.join("dead.lock").exists() && locks.join("held.lock").exists());
    let usage = store.usage();
    assert_eq!((usage.executable_entries, usage.graph_entries, usage.temporaries, usage.locks), (1, 0, 1, 1));
}

#[test]
fn folders_of_other_versions_are_left_alone() {
    let dir = directory();
    let other = dir.path().join("v2/ab/entry.exec");
    fs::create_dir_all(other.parent().expect("has a parent")).expect("makes");
    fs::write(&other, "later").expect("writes");
    let store = open(dir.path());
    store.put(&record("a"), &metadata(), b"x");
    assert_eq!(store.prune(0).removed, 1);
    assert!(store.verify(true).bad.is_empty());
    assert_eq!(fs::read(&other).expect("left"), b"later");
}
