//! The entry format: round trips, and nothing but a whole entry decodes.

mod common;

use clutch_cache::entry::{COMPRESS_FROM, MAX_HEADER_BYTES, MAX_PAYLOAD_BYTES, decode, decode_owned, encode, read_header};
use clutch_cache::{EntryError, KeyKind, KeyRecord};
use common::{metadata, payload, record};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn small() -> Vec<u8> {
    encode(&record("small"), &metadata(), &payload(1, 300), 0).expect("within limits").to_vec()
}

/// The same bytes with digests that match them: what a forger makes.
fn resealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let header_bytes = u32::from_le_bytes(bytes[12..16].try_into().expect("4 bytes")) as usize;
    if let Some(header) = bytes.get(64..64 + header_bytes) {
        let digest = *blake3::hash(header).as_bytes();
        bytes[32..64].copy_from_slice(&digest);
    }
    let end = bytes.len() - 32;
    let digest = *blake3::hash(&bytes[..end]).as_bytes();
    bytes[end..].copy_from_slice(&digest);
    bytes
}

#[test]
fn an_entry_round_trips_and_its_header_reads_alone() {
    for payload in [Vec::new(), vec![7], payload(2, 200_000), payload(2, 300_000), vec![0; 1 << 20], incompressible(300_000)] {
        let encoded = encode(&record("a"), &metadata(), &payload, 250_000).expect("within limits");
        let bytes = encoded.to_vec();
        assert_eq!(bytes.len() as u64, encoded.file_bytes());
        let entry = decode(&bytes).expect("sound");
        assert_eq!((&entry.record, &entry.metadata), (&record("a"), &metadata()));
        assert!(entry.payload == payload);
        assert!(decode_owned(bytes.clone()).expect("sound") == entry);
        let header = read_header(&bytes[..bytes.len().min(1000)]).expect("sound");
        assert_eq!((header.record, header.metadata, header.payload_bytes), (record("a"), metadata(), payload.len() as u64));
    }
}

#[test]
fn what_compresses_is_smaller_and_what_does_not_hardly_grows() {
    let size = |payload: &[u8]| encode(&record("a"), &metadata(), payload, 0).expect("within limits").file_bytes();
    assert!(size(&payload(3, 200_000)) < 150_000);
    assert!(size(&incompressible(200_000)) < 200_500);
}

#[test]
fn short_payloads_are_stored_as_they_are() {
    let size = |len: usize| encode(&record("a"), &metadata(), &payload(3, len), COMPRESS_FROM).expect("within limits").file_bytes();
    assert!(size(COMPRESS_FROM - 1) >= COMPRESS_FROM as u64);
    assert!(size(COMPRESS_FROM) < COMPRESS_FROM as u64 * 3 / 4);
}

#[test]
fn equal_arguments_give_equal_bytes() {
    assert_eq!(small(), small());
}

#[test]
fn a_prefix_of_any_length_is_refused() {
    let bytes = small();
    for len in 0..bytes.len() {
        let error = decode(&bytes[..len]).expect_err("cut short");
        assert!(matches!(error, EntryError::Length { .. }), "{len}: {error}");
    }
}

#[test]
fn trailing_bytes_are_refused() {
    let mut bytes = small();
    bytes.push(0);
    assert!(matches!(decode(&bytes), Err(EntryError::Length { .. })));
}

#[test]
fn a_flipped_bit_anywhere_is_refused() {
    let bytes = small();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << bit;
            assert!(decode(&damaged).is_err(), "byte {at} bit {bit}");
        }
    }
}

#[test]
fn later_versions_are_told_apart_from_damage() {
    let mut bytes = small();
    bytes[8..12].copy_from_slice(&2_u32.to_le_bytes());
    assert_eq!(decode(&bytes), Err(EntryError::FutureVersion { found: 2 }));
    assert_eq!(read_header(bytes.as_slice()), Err(EntryError::FutureVersion { found: 2 }));
    bytes[8..12].copy_from_slice(&0_u32.to_le_bytes());
    assert_eq!(decode(&bytes), Err(EntryError::UnknownVersion { found: 0 }));
}

#[test]
fn lengths_are_checked_before_anything_is_allocated() {
    let patched = |at: usize, value: &[u8]| {
        let mut bytes = small();
        bytes[at..at + value.len()].copy_from_slice(value);
        decode(&resealed(bytes))
    };
    let above = (MAX_HEADER_BYTES as u32 + 1).to_le_bytes();
    assert!(matches!(patched(12, &above), Err(EntryError::TooLarge { part: "header", .. })));
    assert!(matches!(patched(16, &u64::MAX.to_le_bytes()), Err(EntryError::TooLarge { part: "payload", .. })));
    assert!(matches!(patched(16, &(1_u64 << 32).to_le_bytes()), Err(EntryError::Length { .. })));
    assert!(matches!(patched(24, &(MAX_PAYLOAD_BYTES + 1).to_le_bytes()), Err(EntryError::TooLarge { part: "payload", .. })));
    assert!(matches!(patched(24, &MAX_PAYLOAD_BYTES.to_le_bytes()), Err(EntryError::Payload { .. })));
}

#[test]
fn a_resealed_header_with_a_huge_count_is_malformed() {
    let mut bytes = small();
    // Kind, then the number of fields: a variable-length integer whose marker 253 announces eight bytes.
    bytes[65] = 253;
    bytes[66..74].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(matches!(decode(&resealed(bytes)), Err(EntryError::Header { .. })));
}

#[test]
fn a_record_above_the_limit_is_not_encoded() {
    let huge = KeyRecord::new(KeyKind::Graph).with_text("text", "x".repeat(MAX_HEADER_BYTES));
    assert!(matches!(encode(&huge, &metadata(), b"", 0), Err(EntryError::TooLarge { part: "header", .. })));
}

fn incompressible(len: usize) -> Vec<u8> {
    let mut out = vec![0; len];
    blake3::Hasher::new().update(b"seed").finalize_xof().fill(&mut out);
    out
}

proptest! {
    #[test]
    fn garbage_is_refused_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        prop_assert!(decode(&bytes).is_err());
        prop_assert!(read_header(bytes.as_slice()).is_err());
    }

    #[test]
    fn garbage_after_a_sound_prelude_is_refused_without_a_panic(
        from in 12_usize..200, bytes in prop::collection::vec(any::<u8>(), 1..200),
    ) {
        let mut damaged = small();
        let end = (from + bytes.len()).min(damaged.len());
        damaged[from..end].copy_from_slice(&bytes[..end - from]);
        prop_assume!(damaged != small());
        prop_assert!(decode(&damaged).is_err());
        let _ = read_header(damaged.as_slice());
        // With matching digests the bytes may form another entry; they must not panic or exhaust memory.
        let _ = decode(&resealed(damaged));
    }

    #[test]
    fn any_entry_round_trips(
        fields in prop::collection::vec((".{0,8}", ".{0,16}", any::<bool>()), 0..6),
        labels in prop::collection::btree_map(".{0,8}", ".{0,8}", 0..4),
        payload in prop::collection::vec(0_u8..4, 0..2000),
    ) {
        let record = fields.iter().fold(KeyRecord::new(KeyKind::Graph), |record, (name, value, text)| {
            if *text { record.with_text(name.as_str(), value.as_str()) } else { record.with_bytes(name.as_str(), value.as_bytes()) }
        });
        let bytes = encode(&record, &labels, &payload, 0).expect("within limits").to_vec();
        let entry = decode(&bytes).expect("sound");
        prop_assert_eq!((entry.record, entry.metadata, entry.payload), (record, labels, payload));
    }
}
