//! The payload of a graph key's entry: the recipe and the keys of the executables.

use clutch_cache::{FieldValue, KeyKind, KeyRecord};

use crate::recipe::Recipe;
use crate::recipe_codec;

/// What a hit at the graph key gives.
pub struct GraphEntry {
    /// The program's plan.
    pub recipe: Recipe,
    /// Key of the main executable.
    pub main: KeyRecord,
    /// Key of the weight program's executable.
    pub weights: Option<KeyRecord>,
}

impl GraphEntry {
    /// The entry's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        put(&mut out, &recipe_codec::encode(&self.recipe));
        put_record(&mut out, &self.main);
        if let Some(weights) = &self.weights {
            put_record(&mut out, weights);
        }
        out
    }

    /// The entry in `bytes`; `None` when they are no such entry, which a verified entry of the same version never is.
    pub fn decode(mut bytes: &[u8]) -> Option<GraphEntry> {
        let recipe = recipe_codec::decode(take(&mut bytes)?).ok()?;
        let main = take_record(&mut bytes)?;
        let weights = if bytes.is_empty() { None } else { Some(take_record(&mut bytes)?) };
        bytes.is_empty().then_some(GraphEntry { recipe, main, weights })
    }
}

/// Appends a length and the bytes.
pub(crate) fn put(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend((bytes.len() as u32).to_le_bytes());
    out.extend(bytes);
}

/// Takes what [`put`] appended.
pub(crate) fn take<'a>(bytes: &mut &'a [u8]) -> Option<&'a [u8]> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let (found, rest) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    *bytes = rest;
    Some(found)
}

fn put_record(out: &mut Vec<u8>, record: &KeyRecord) {
    out.extend((record.fields().len() as u32).to_le_bytes());
    for (name, value) in record.fields() {
        put(out, name.as_bytes());
        match value {
            FieldValue::Text(text) => {
                out.push(0);
                put(out, text.as_bytes());
            }
            FieldValue::Digest { len, digest } => {
                out.push(1);
                out.extend(len.to_le_bytes());
                out.extend(digest);
            }
        }
    }
}

fn take_record(bytes: &mut &[u8]) -> Option<KeyRecord> {
    let (count, rest) = bytes.split_first_chunk::<4>()?;
    *bytes = rest;
    let mut record = KeyRecord::new(KeyKind::Executable);
    for _ in 0..u32::from_le_bytes(*count) {
        let name = String::from_utf8(take(bytes)?.to_vec()).ok()?;
        let (tag, rest) = bytes.split_first()?;
        *bytes = rest;
        let value = match tag {
            0 => FieldValue::Text(String::from_utf8(take(bytes)?.to_vec()).ok()?),
            1 => {
                let (len, rest) = bytes.split_first_chunk::<8>()?;
                let (digest, rest) = rest.split_first_chunk::<32>()?;
                *bytes = rest;
                FieldValue::Digest { len: u64::from_le_bytes(*len), digest: *digest }
            }
            _ => return None,
        };
        record.push(name, value);
    }
    Some(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_and_garbage_is_refused() {
        let main = KeyRecord::new(KeyKind::Executable).with_text("platform", "cpu").with_bytes("hlo", b"module");
        let entry = GraphEntry { recipe: Recipe { inputs: 3, ..Recipe::default() }, main: main.clone(), weights: Some(main.clone()) };
        let bytes = entry.encode();
        let back = GraphEntry::decode(&bytes).expect("its own bytes");
        assert_eq!((back.recipe.inputs, &back.main, back.weights.as_ref()), (3, &main, Some(&main)));
        assert_eq!(back.main.key(), main.key());
        for end in 0..bytes.len() {
            let cut = GraphEntry::decode(&bytes[..end]);
            assert!(cut.is_none() || cut.is_some_and(|c| c.weights.is_none()));
        }
    }
}
