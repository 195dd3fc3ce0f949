//! What an entry is the result of: the key record, and the 256-bit key that names it.
//!
//! A [`KeyRecord`] is an ordered list of named fields. Its canonical encoding is length-prefixed, little-endian
//! and depends on nothing but the fields; the blake3 digest of that encoding is the [`Key`]. The key names the
//! file, the record inside the file decides whether the file is the one asked for.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// Start of every canonical encoding; changing the encoding changes this.
const DOMAIN: &[u8] = b"clutch-key-1";
/// Longest text shown in a [`FieldValue`]'s display form, in characters.
const SHOWN_CHARS: usize = 160;

/// Which of the two caches an entry belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KeyKind {
    /// Keyed by the captured graph; a hit skips the passes and the emission.
    Graph,
    /// Keyed by the emitted program and the device; a hit skips the compilation.
    Executable,
}

impl KeyKind {
    /// Every kind, in order.
    pub const ALL: [Self; 2] = [Self::Graph, Self::Executable];

    /// The short name, which is also the extension of the entry's file: `graph` or `exec`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Graph => "graph",
            Self::Executable => "exec",
        }
    }

    /// The kind with this short name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    pub(crate) fn code(self) -> u8 {
        match self {
            Self::Graph => 0,
            Self::Executable => 1,
        }
    }

    pub(crate) fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

impl fmt::Display for KeyKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A 256-bit key, written as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key with these bytes.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// The 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The folder an entry with this key lives in: the first byte as two hexadecimal digits.
    #[must_use]
    pub fn shard(&self) -> String {
        format!("{:02x}", self.0[0])
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex())
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({self})")
    }
}

/// The text is not a key of 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("not a cache key: expected 64 lower-case hexadecimal digits")]
pub struct InvalidKey;

impl FromStr for Key {
    type Err = InvalidKey;

    fn from_str(text: &str) -> Result<Self, InvalidKey> {
        if text.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidKey);
        }
        blake3::Hash::from_hex(text).map(|hash| Self(*hash.as_bytes())).map_err(|_| InvalidKey)
    }
}

/// The value of one field of a key record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum FieldValue {
    /// A text kept whole, so that a difference can be shown.
    Text(String),
    /// A byte string known by its blake3 digest and its length.
    Digest {
        /// Length of the byte string, in bytes.
        len: u64,
        /// blake3 digest of the byte string.
        digest: [u8; 32],
    },
}

impl FieldValue {
    /// The value standing for `bytes`.
    #[must_use]
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self::Digest { len: bytes.len() as u64, digest: *blake3::hash(bytes).as_bytes() }
    }
}

impl fmt::Display for FieldValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => match text.char_indices().nth(SHOWN_CHARS) {
                Some((end, _)) => write!(f, "\"{}...\" ({} bytes)", text[..end].escape_debug(), text.len()),
                None => write!(f, "\"{}\"", text.escape_debug()),
            },
            Self::Digest { len, digest } => {
                let hex = blake3::Hash::from_bytes(*digest).to_hex();
                write!(f, "{} ({len} bytes)", &hex[..16])
            }
        }
    }
}

/// One field in which two records differ.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldDifference {
    /// Name of the field; `kind` or `field order` when no single field is to blame.
    pub name: String,
    /// The value in the record asked about, if it has the field.
    pub ours: Option<FieldValue>,
    /// The value in the record compared with, if it has the field.
    pub theirs: Option<FieldValue>,
}

impl fmt::Display for FieldDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let show = |value: &Option<FieldValue>| value.as_ref().map_or_else(|| "absent".to_owned(), ToString::to_string);
        write!(f, "{}: {} here, {} there", self.name, show(&self.ours), show(&self.theirs))
    }
}

/// The ordered fields a result depends on.
///
/// Field names should be unique; a repeated name is allowed and compared occurrence by occurrence.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KeyRecord {
    kind: KeyKind,
    fields: Vec<(String, FieldValue)>,
}

impl KeyRecord {
    /// An empty record of this kind.
    #[must_use]
    pub fn new(kind: KeyKind) -> Self {
        Self { kind, fields: Vec::new() }
    }

    /// A record of this kind with these fields, in this order.
    #[must_use]
    pub fn from_fields(kind: KeyKind, fields: Vec<(String, FieldValue)>) -> Self {
        Self { kind, fields }
    }

    /// Appends a field.
    pub fn push(&mut self, name: impl Into<String>, value: FieldValue) {
        self.fields.push((name.into(), value));
    }

    /// Appends a text field.
    pub fn push_text(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.push(name, FieldValue::Text(value.into()));
    }

    /// Appends a field that stands for `bytes` by length and digest.
    pub fn push_bytes(&mut self, name: impl Into<String>, bytes: &[u8]) {
        self.push(name, FieldValue::of_bytes(bytes));
    }

    /// The record with a text field appended.
    #[must_use]
    pub fn with_text(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.push_text(name, value);
        self
    }

    /// The record with a field for `bytes` appended.
    #[must_use]
    pub fn with_bytes(mut self, name: impl Into<String>, bytes: &[u8]) -> Self {
        self.push_bytes(name, bytes);
        self
    }

    /// The kind.
    #[must_use]
    pub fn kind(&self) -> KeyKind {
        self.kind
    }

    /// The fields, in order.
    #[must_use]
    pub fn fields(&self) -> &[(String, FieldValue)] {
        &self.fields
    }

    /// The value of the first field with this name.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&FieldValue> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value)
    }

    /// The canonical bytes the key is the digest of.
    #[must_use]
    pub fn canonical(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(64 + self.fields.len() * 64);
        let length = |out: &mut Vec<u8>, len: usize| out.extend_from_slice(&(len as u64).to_le_bytes());
        out.extend_from_slice(DOMAIN);
        out.push(self.kind.code());
        length(&mut out, self.fields.len());
        for (name, value) in &self.fields {
            length(&mut out, name.len());
            out.extend_from_slice(name.as_bytes());
            match value {
                FieldValue::Text(text) => {
                    out.push(0);
                    length(&mut out, text.len());
                    out.extend_from_slice(text.as_bytes());
                }
                FieldValue::Digest { len, digest } => {
                    out.push(1);
                    out.extend_from_slice(&len.to_le_bytes());
                    out.extend_from_slice(digest);
                }
            }
        }
        out
    }

    /// The key: blake3 over the canonical bytes.
    #[must_use]
    pub fn key(&self) -> Key {
        Key(*blake3::hash(&self.canonical()).as_bytes())
    }

    /// The first field, in this record's order, that differs in `other`; `None` exactly when the records are equal.
    #[must_use]
    pub fn first_difference(&self, other: &Self) -> Option<FieldDifference> {
        self.differences(other).into_iter().next()
    }

    /// All differing fields: those of this record in its order, then those only `other` has.
    #[must_use]
    pub fn differences(&self, other: &Self) -> Vec<FieldDifference> {
        if self == other {
            return Vec::new();
        }
        let mut found = Vec::new();
        if self.kind != other.kind {
            let text = |kind: KeyKind| Some(FieldValue::Text(kind.name().to_owned()));
            found.push(FieldDifference { name: "kind".into(), ours: text(self.kind), theirs: text(other.kind) });
        }
        let mut theirs: BTreeMap<(&str, usize), &FieldValue> =
            occurrences(&other.fields).map(|(name, nth, value)| ((name, nth), value)).collect();
        for (name, nth, ours) in occurrences(&self.fields) {
            let value = theirs.remove(&(name, nth));
            if value != Some(ours) {
                found.push(FieldDifference { name: name.into(), ours: Some(ours.clone()), theirs: value.cloned() });
            }
        }
        for (name, nth, value) in occurrences(&other.fields) {
            if theirs.contains_key(&(name, nth)) {
                found.push(FieldDifference { name: name.into(), ours: None, theirs: Some(value.clone()) });
            }
        }
        if found.is_empty() {
            let moved = self.fields.iter().zip(&other.fields).find(|(ours, theirs)| ours.0 != theirs.0);
            let name = |(name, _): &(String, FieldValue)| FieldValue::Text(name.clone());
            found.push(FieldDifference {
                name: "field order".into(),
                ours: moved.map(|(ours, _)| name(ours)),
                theirs: moved.map(|(_, theirs)| name(theirs)),
            });
        }
        found
    }
}

/// The fields with, for each, how many fields of the same name came before it.
fn occurrences(fields: &[(String, FieldValue)]) -> impl Iterator<Item = (&str, usize, &FieldValue)> {
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    fields.iter().map(move |(name, value)| {
        let count = seen.entry(name).or_default();
        *count += 1;
        (name.as_str(), *count - 1, value)
    })
}
