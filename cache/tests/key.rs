//! Keys follow from the fields alone, and records name what differs.

use clutch_cache::{FieldValue, Key, KeyKind, KeyRecord};
use pretty_assertions::assert_eq;
use proptest::prelude::*;

fn base() -> KeyRecord {
    KeyRecord::new(KeyKind::Graph).with_text("target", "v5e:2x2").with_bytes("graph", b"abc").with_text("torch", "2.15")
}

#[test]
fn the_key_of_a_record_never_changes() {
    assert_eq!(base().key().to_string(), "d80c3cf15393fb1bf4a3937d5cc0114d26789e770311180b9217b3c91028406a");
}

#[test]
fn keys_round_trip_through_text() {
    let key = base().key();
    assert_eq!(key.to_string().parse::<Key>(), Ok(key));
    assert_eq!(key.shard(), key.to_string()[..2]);
    for bad in ["", "00", &"g".repeat(64), &key.to_string().to_uppercase()] {
        assert!(bad.parse::<Key>().is_err(), "{bad}");
    }
}

#[test]
fn moving_bytes_between_name_and_value_or_fields_changes_the_key() {
    let of = |fields: &[(&str, &str)]| {
        fields.iter().fold(KeyRecord::new(KeyKind::Graph), |record, (name, value)| record.with_text(*name, *value)).key()
    };
    let keys = [
        of(&[("ab", "c")]),
        of(&[("a", "bc")]),
        of(&[("a", "b"), ("c", "")]),
        of(&[("a", ""), ("b", "c")]),
        of(&[("a", "b"), ("", "c")]),
        KeyRecord::new(KeyKind::Executable).with_text("ab", "c").key(),
        KeyRecord::new(KeyKind::Graph).with_bytes("ab", b"c").key(),
    ];
    for (index, key) in keys.iter().enumerate() {
        assert!(!keys[..index].contains(key), "key {index} is an earlier one's");
    }
}

#[test]
fn the_first_difference_names_the_field_and_both_values() {
    let other = KeyRecord::new(KeyKind::Graph).with_text("target", "v5e:2x2").with_bytes("graph", b"abd").with_text("torch", "2.14");
    let first = base().first_difference(&other).expect("they differ");
    assert_eq!(first.name, "graph");
    assert_eq!((first.ours, first.theirs), (Some(FieldValue::of_bytes(b"abc")), Some(FieldValue::of_bytes(b"abd"))));
    assert_eq!(base().differences(&other).iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["graph", "torch"]);
    assert_eq!(base().differences(&other)[1].to_string(), "torch: \"2.15\" here, \"2.14\" there");
}

#[test]
fn missing_extra_and_reordered_fields_are_differences() {
    let extra = base().with_text("donate", "0");
    assert_eq!(base().first_difference(&extra).map(|d| (d.name, d.ours.is_some())), Some(("donate".into(), false)));
    assert_eq!(extra.first_difference(&base()).map(|d| (d.name, d.theirs.is_some())), Some(("donate".into(), false)));
    let swapped = KeyRecord::from_fields(KeyKind::Graph, base().fields().iter().rev().cloned().collect());
    assert_ne!(swapped.key(), base().key());
    assert_eq!(base().first_difference(&swapped).map(|d| d.name), Some("field order".into()));
    let kind = KeyRecord::from_fields(KeyKind::Executable, base().fields().to_vec());
    assert_eq!(base().first_difference(&kind).map(|d| d.name), Some("kind".into()));
    assert_eq!(base().first_difference(&base()), None);
}

fn any_record() -> impl Strategy<Value = KeyRecord> {
    let value = prop_oneof!["[ab]{0,2}".prop_map(FieldValue::Text), "[ab]{0,2}".prop_map(|text| FieldValue::of_bytes(text.as_bytes()))];
    (any::<bool>(), prop::collection::vec(("[xy]{0,2}", value), 0..4))
        .prop_map(|(graph, fields)| KeyRecord::from_fields(if graph { KeyKind::Graph } else { KeyKind::Executable }, fields))
}

proptest! {
    #[test]
    fn keys_are_equal_exactly_when_records_are(a in any_record(), b in any_record()) {
        prop_assert_eq!(a == b, a.key() == b.key());
        prop_assert_eq!(a == b, a.first_difference(&b).is_none());
        prop_assert_eq!(a == b, b.first_difference(&a).is_none());
    }
}
