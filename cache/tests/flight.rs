//! Single flight between threads: one leads, all others get what it made.

mod common;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::Duration;

use clutch_cache::{FileSystem, Flight, LeadGuard, Store, StoreOptions};
use common::{FAR, directory, metadata, open, record};
use pretty_assertions::assert_eq;

fn lead(store: &Store, label: &str) -> LeadGuard {
    match store.lead_or_wait(&record(label), FAR) {
        Flight::Lead(guard) => guard,
        other => panic!("expected to lead, got {other:?}"),
    }
}

/// Until another thread has been seen to wait in this store.
fn until_waiting(store: &Store, waits: u64) {
    while store.stats().waits < waits {
        std::thread::yield_now();
    }
}

#[test]
fn the_first_leads_and_later_ones_hit() {
    let dir = directory();
    let store = open(dir.path());
    let guard = lead(&store, "a");
    assert!(guard.is_exclusive());
    assert_eq!(guard.record(), &record("a"));
    assert!(guard.publish(&metadata(), b"x"));
    assert!(matches!(store.lead_or_wait(&record("a"), FAR), Flight::Hit(entry) if entry.payload == b"x"));
    let stats = store.stats();
    assert_eq!((stats.hits, stats.misses, stats.leads, stats.waits, stats.takeovers), (1, 1, 1, 0, 0));
    assert_eq!(store.usage().locks, 0, "no lock file is left");
}

#[test]
fn different_keys_do_not_wait_for_each_other() {
    let dir = directory();
    let store = open(dir.path());
    let _a = lead(&store, "a");
    let _b = lead(&store, "b");
}

#[test]
fn of_many_threads_in_one_or_many_stores_exactly_one_leads() {
    for separate in [false, true] {
        let dir = directory();
        let first = open(dir.path());
        let (leads, barrier) = (AtomicUsize::new(0), Barrier::new(16));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                let store = if separate { open(dir.path()) } else { first.clone() };
                let (leads, barrier) = (&leads, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    match store.lead_or_wait(&record("a"), FAR) {
                        Flight::Lead(guard) => {
                            leads.fetch_add(1, Ordering::Relaxed);
                            guard.publish(&metadata(), b"made once");
                        }
                        Flight::Hit(entry) => assert_eq!(entry.payload, b"made once"),
                        Flight::TimedOut => panic!("timed out"),
                    }
                });
            }
        });
        assert_eq!(leads.into_inner(), 1, "separate stores: {separate}");
        assert_eq!(first.usage().locks, 0);
    }
}

#[test]
fn a_leader_that_gives_up_is_taken_over_from() {
    for separate in [false, true] {
        let dir = directory();
        let first = open(dir.path());
        let second = if separate { open(dir.path()) } else { first.clone() };
        let guard = lead(&first, "a");
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| lead(&second, "a").publish(&metadata(), b"second"));
            until_waiting(&second, 1);
            drop(guard);
            assert!(waiter.join().expect("does not panic"));
        });
        assert_eq!(second.stats().takeovers, 1, "separate stores: {separate}");
        assert_eq!(first.get(&record("a")).expect("was put").payload, b"second");
    }
}

#[test]
fn a_leader_that_panics_is_taken_over_from() {
    let dir = directory();
    let store = open(dir.path());
    let panicking = store.clone();
    let result = std::thread::spawn(move || {
        let _guard = lead(&panicking, "a");
        panic!("the compiler failed");
    })
    .join();
    assert!(result.is_err());
    assert!(lead(&store, "a").publish(&metadata(), b"x"));
}

#[test]
fn waiting_ends_at_its_limit() {
    let dir = directory();
    let (first, second) = (open(dir.path()), open(dir.path()));
    let _guard = lead(&first, "a");
    for store in [&first, &second] {
        assert!(matches!(store.lead_or_wait(&record("a"), Duration::ZERO), Flight::TimedOut));
        assert!(matches!(store.lead_or_wait(&record("a"), Duration::from_millis(5)), Flight::TimedOut));
        assert_eq!((store.stats().wait_timeouts, store.stats().waits), (2, 2));
    }
}

#[test]
fn an_entry_that_appears_ends_the_wait_though_the_lock_stays() {
    let dir = directory();
    let (first, second) = (open(dir.path()), open(dir.path()));
    let _guard = lead(&first, "a");
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| second.lead_or_wait(&record("a"), FAR));
        until_waiting(&second, 1);
        first.put(&record("a"), &metadata(), b"x");
        assert!(matches!(waiter.join().expect("does not panic"), Flight::Hit(_)));
    });
}

#[test]
fn without_a_directory_the_threads_of_a_process_still_share() {
    let store = Store::open(StoreOptions::default()).expect("opens");
    let guard = lead(&store, "a");
    assert!(!guard.is_exclusive());
    std::thread::scope(|scope| {
        let waiter = scope.spawn(|| store.lead_or_wait(&record("a"), FAR));
        until_waiting(&store, 1);
        assert!(!guard.publish(&metadata(), b"x"), "nowhere to write to");
        assert!(matches!(waiter.join().expect("does not panic"), Flight::Hit(entry) if entry.payload == b"x"));
    });
    assert_eq!(store.stats().hits_joined, 1);
}

#[derive(Debug)]
struct WithoutLocks;

impl FileSystem for WithoutLocks {
    fn try_lock(&self, _: &File) -> Result<(), TryLockError> {
        Err(TryLockError::Error(io::ErrorKind::Unsupported.into()))
    }
}

#[test]
fn where_there_are_no_locks_each_process_leads() {
    let dir = directory();
    let open = || {
        let options = StoreOptions { file_system: Arc::new(WithoutLocks), ..StoreOptions::new(dir.path()) };
        Store::open(options).expect("opens")
    };
    let (first, second) = (open(), open());
    let guard = lead(&first, "a");
    assert!(!guard.is_exclusive());
    assert!(lead(&second, "a").publish(&metadata(), b"x"));
    assert!(guard.publish(&metadata(), b"x"));
    assert_eq!((first.stats().lock_unavailable, second.stats().lock_unavailable), (1, 1));
    assert!(first.get(&record("a")).is_some());
}

/// Between the opening of a lock file and its locking, the former holder removes it, once.
#[derive(Debug)]
struct UnlinkedMeanwhile {
    locks: PathBuf,
    left: AtomicUsize,
}

impl FileSystem for UnlinkedMeanwhile {
    fn try_lock(&self, file: &File) -> Result<(), TryLockError> {
        if self.left.swap(0, Ordering::Relaxed) > 0 {
            for entry in fs::read_dir(&self.locks).expect("is there") {
                fs::remove_file(entry.expect("is there").path()).expect("is there");
            }
        }
        file.try_lock()
    }
}

#[test]
fn the_lock_of_an_unlinked_file_is_no_lock() {
    let dir = directory();
    let file_system = Arc::new(UnlinkedMeanwhile { locks: dir.path().join("v1/locks"), left: AtomicUsize::new(1) });
    let first = Store::open(StoreOptions { file_system: file_system.clone(), ..StoreOptions::new(dir.path()) }).expect("opens");
    let guard = lead(&first, "a");
    assert_eq!(file_system.left.load(Ordering::Relaxed), 0);
    let second = open(dir.path());
    assert!(matches!(second.lead_or_wait(&record("a"), Duration::ZERO), Flight::TimedOut), "one leader at a time");
    drop(guard);
    assert!(lead(&second, "a").is_exclusive());
}
