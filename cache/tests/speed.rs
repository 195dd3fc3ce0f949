//! The store against the plain way to do it: a temporary file, a rename, a read.
//!
//! Run with `cargo test --release -p clutch-cache --test speed -- --ignored --nocapture`.

mod common;

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use common::{directory, metadata, open, payload, record};

const ENTRIES: usize = 200;
const BYTES: usize = 200_000;
const ROUNDS: usize = 7;

fn plain(directory: &Path, payloads: &[Vec<u8>]) {
    for (index, payload) in payloads.iter().enumerate() {
        let temporary = directory.join(format!("{index}.tmp"));
        fs::write(&temporary, payload).expect("writes");
        fs::rename(&temporary, directory.join(index.to_string())).expect("renames");
    }
    for (index, payload) in payloads.iter().enumerate() {
        assert_eq!(fs::read(directory.join(index.to_string())).expect("reads").len(), payload.len());
    }
}

fn stored(directory: &Path, payloads: &[Vec<u8>]) {
    let store = open(directory);
    for (index, payload) in payloads.iter().enumerate() {
        assert!(store.put(&record(&index.to_string()), &metadata(), payload));
    }
    for (index, payload) in payloads.iter().enumerate() {
        assert_eq!(store.get(&record(&index.to_string())).expect("was put").payload.len(), payload.len());
    }
}

fn time(run: fn(&Path, &[Vec<u8>]), payloads: &[Vec<u8>]) -> Duration {
    let dir = directory();
    let start = Instant::now();
    run(dir.path(), payloads);
    start.elapsed()
}

#[test]
#[ignore = "a measurement: needs a release build and a quiet machine"]
fn putting_and_getting_costs_at_most_twice_the_plain_way() {
    let payloads: Vec<Vec<u8>> = (0..ENTRIES as u64).map(|seed| payload(seed, BYTES)).collect();
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        best[0] = best[0].min(time(plain, &payloads));
        best[1] = best[1].min(time(stored, &payloads));
    }
    let ratio = best[1].as_secs_f64() / best[0].as_secs_f64();
    println!("plain {:?}, store {:?}, ratio {ratio:.2}", best[0], best[1]);
    assert!(ratio <= 2.0, "ratio {ratio:.2}");
}
