//! The store against the plain way to do it: a temporary file, a rename, a read.
//!
//! Run with `cargo test --release -p clutch-cache --test speed -- --ignored --nocapture`, and with `TMPDIR` in a memory
//! file system for a steady number: a disk shared with other work moves both times by several times.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use clutch_cache::Store;
use common::{directory, metadata, open, payload, record};

const ENTRIES: usize = 200;
const BYTES: usize = 200_000;
const ROUNDS: usize = 9;

fn plain(directory: &Path, round: usize, payloads: &[Vec<u8>]) -> Duration {
    let path = |index: usize| directory.join(format!("{round}-{index}"));
    let start = Instant::now();
    for (index, payload) in payloads.iter().enumerate() {
        let temporary = path(index).with_extension("tmp");
        fs::write(&temporary, payload).expect("writes");
        fs::rename(&temporary, path(index)).expect("renames");
    }
    for (index, payload) in payloads.iter().enumerate() {
        assert_eq!(fs::read(path(index)).expect("reads").len(), payload.len());
    }
    start.elapsed()
}

fn stored(store: &Store, round: usize, payloads: &[Vec<u8>]) -> Duration {
    let keyed = |index: usize| record(&format!("{round}-{index}"));
    let start = Instant::now();
    for (index, payload) in payloads.iter().enumerate() {
        assert!(store.put(&keyed(index), &metadata(), payload));
    }
    for (index, payload) in payloads.iter().enumerate() {
        assert_eq!(store.get(&keyed(index)).expect("was put").payload.len(), payload.len());
    }
    start.elapsed()
}

#[test]
#[ignore = "a measurement: needs a release build and a quiet machine"]
fn putting_and_getting_costs_at_most_twice_the_plain_way() {
    let payloads: Vec<Vec<u8>> = (0..ENTRIES as u64).map(|seed| payload(seed, BYTES)).collect();
    let (plain_directory, store_directory) = (directory(), directory());
    let store = open(store_directory.path());
    let mut best = [Duration::MAX; 2];
    for round in 0..ROUNDS {
        best[0] = best[0].min(plain(plain_directory.path(), round, &payloads));
        best[1] = best[1].min(stored(&store, round, &payloads));
    }
    let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
    println!("plain {:?}, store {:?}, ratio {ratio:.2}", best[0], best[1]);
    assert!(ratio <= 2.0, "ratio {ratio:.2}");
}
