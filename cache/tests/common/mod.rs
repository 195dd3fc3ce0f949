//! What the store's tests share.
#![allow(dead_code, reason = "each test binary uses its own part")]

use std::path::Path;
use std::time::Duration;

use clutch_cache::{KeyKind, KeyRecord, Metadata, Store, StoreOptions};

/// A limit on waiting that no passing test comes near.
pub const FAR: Duration = Duration::from_secs(600);

/// A fresh directory that only this user can write.
pub fn directory() -> tempfile::TempDir {
    tempfile::tempdir().expect("temporary directories can be made")
}

pub fn open(directory: &Path) -> Store {
    Store::open(StoreOptions::new(directory)).expect("a fresh directory opens")
}

pub fn record(label: &str) -> KeyRecord {
    KeyRecord::new(KeyKind::Executable).with_text("label", label).with_text("target", "cpu").with_bytes("hlo", label.as_bytes())
}

pub fn metadata() -> Metadata {
    Metadata::from([("graph".to_owned(), "mlp".to_owned()), ("seconds".to_owned(), "1.5".to_owned())])
}

/// Bytes that compress to about a third, as executables do, different for each seed.
pub fn payload(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut out = Vec::with_capacity(len + 24);
    while out.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        out.extend_from_slice(&state.to_le_bytes());
        let words = [b"\x48\x8b\x05\x00", b"\x00\x00\xc5\xf8", b"\x10\x44\x24\x08", b"\xff\xff\xff\xff"];
        for shift in [0, 2, 4, 6] {
            out.extend_from_slice(words[(state >> shift) as usize & 3]);
        }
    }
    out.truncate(len);
    out
}
