//! The file format of one entry, and the only user of `bincode`.
//!
//! ```text
//! offset  size  field
//!      0     8  magic "CLUTCHE\n"
//!      8     4  format version, little-endian like all numbers
//!     12     4  header length H
//!     16     8  stored payload length P
//!     24     8  payload length before compression
//!     32    32  blake3 of the header
//!     64     H  header: key record, metadata, payload coding (bincode, standard configuration)
//!   64+H     P  payload, zstd level 1, or as it is where it is short or that is not smaller
//! 64+H+P    32  blake3 of everything before
//! ```
//!
//! The header has its own digest so that listing and explaining read the first bytes of a file and no payload.
//! Digests find damage, they do not authenticate: who may write entries is the directory check's concern.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::Read;
use std::ops::Range;

use bincode::{Decode, Encode, config};
use thiserror::Error;

use crate::key::{FieldValue, KeyKind, KeyRecord};

/// The format version this build writes and reads.
pub const FORMAT_VERSION: u32 = 1;
/// Largest accepted header, in bytes.
pub const MAX_HEADER_BYTES: usize = 16 << 20;
/// Largest accepted payload, before and after compression, in bytes.
pub const MAX_PAYLOAD_BYTES: u64 = 8 << 30;
/// Largest file that can be an entry, in bytes.
pub const MAX_ENTRY_BYTES: u64 = MAX_PAYLOAD_BYTES + MAX_HEADER_BYTES as u64 + (PRELUDE + DIGEST) as u64;

const MAGIC: &[u8; 8] = b"CLUTCHE\n";
const PRELUDE: usize = 64;
const DIGEST: usize = 32;
const LEVEL: i32 = 1;
/// A zstd block spends at least four bytes on at most 128 KiB, so no honest frame expands further.
const MAX_EXPANSION: u64 = 32 << 10;
const STORED_RAW: u8 = 0;
const STORED_ZSTD: u8 = 1;

/// Payloads below this many bytes are stored as they are by default: compressing them takes several times as long as
/// writing them, and they are a small part of what a cache holds.
pub const COMPRESS_FROM: usize = 256 << 10;

/// Labels kept beside the payload (graph name, seconds, sizes...). Not part of the key.
pub type Metadata = BTreeMap<String, String>;

/// A decoded, verified entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What the payload is the result of.
    pub record: KeyRecord,
    /// Labels; not part of the key.
    pub metadata: Metadata,
    /// The bytes that were put.
    pub payload: Vec<u8>,
}

/// What can be known of an entry without its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryHeader {
    /// What the payload is the result of.
    pub record: KeyRecord,
    /// Labels; not part of the key.
    pub metadata: Metadata,
    /// Length of the payload before compression, in bytes.
    pub payload_bytes: u64,
}

/// Why bytes are not an entry this build can use.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum EntryError {
    /// The file ends early, or goes on after its end.
    #[error("entry has {found} bytes, its lengths say {expected}")]
    Length {
        /// Bytes the lengths in the file call for.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// The file does not start as an entry does.
    #[error("not a cache entry: wrong magic")]
    Magic,
    /// Written by a later version of the format; left untouched.
    #[error("cache entry has format version {found}, this build reads up to {FORMAT_VERSION}")]
    FutureVersion {
        /// The version in the file.
        found: u32,
    },
    /// A version that never existed.
    #[error("cache entry has the impossible format version {found}")]
    UnknownVersion {
        /// The version in the file.
        found: u32,
    },
    /// A length is above what the format allows.
    #[error("cache entry {part} of {bytes} bytes is above the limit of {limit}")]
    TooLarge {
        /// `header` or `payload`.
        part: &'static str,
        /// The length given.
        bytes: u64,
        /// The largest length allowed.
        limit: u64,
    },
    /// The digest over a part does not match it.
    #[error("cache entry is damaged: digest of the {part} does not match")]
    Digest {
        /// `header` or `file`.
        part: &'static str,
    },
    /// The header's bytes do not describe a key record.
    #[error("cache entry header is malformed: {reason}")]
    Header {
        /// What the decoder said.
        reason: String,
    },
    /// The payload does not decompress to what the lengths promise.
    #[error("cache entry payload is malformed: {reason}")]
    Payload {
        /// What the decoder said.
        reason: String,
    },
}

#[derive(Encode, Decode)]
enum WireValue {
    Text(String),
    Digest { len: u64, digest: [u8; 32] },
}

#[derive(Encode, Decode)]
struct WireHeader {
    kind: u8,
    fields: Vec<(String, WireValue)>,
    metadata: BTreeMap<String, String>,
    stored: u8,
}

/// An entry ready to be written: its parts in file order.
#[derive(Debug)]
pub struct EncodedEntry<'a> {
    head: Vec<u8>,
    payload: Cow<'a, [u8]>,
    digest: [u8; DIGEST],
}

impl EncodedEntry<'_> {
    /// The parts, to be written one after the other.
    #[must_use]
    pub fn parts(&self) -> [&[u8]; 3] {
        [&self.head, &self.payload, &self.digest]
    }

    /// Length of the file, in bytes.
    #[must_use]
    pub fn file_bytes(&self) -> u64 {
        (self.head.len() + self.payload.len() + DIGEST) as u64
    }

    /// The file's bytes in one piece.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.parts().concat()
    }
}

/// Encodes an entry, compressing a payload of at least `compress_from` bytes where that makes it smaller. Equal
/// arguments give equal bytes.
///
/// # Errors
/// [`EntryError::TooLarge`] if header or payload is above the format's limits.
pub fn encode<'a>(
    record: &KeyRecord,
    metadata: &Metadata,
    payload: &'a [u8],
    compress_from: usize,
) -> Result<EncodedEntry<'a>, EntryError> {
    check_limit("payload", payload.len() as u64, MAX_PAYLOAD_BYTES)?;
    let compressed = if payload.len() < compress_from { None } else { compress(payload) };
    let (stored, body): (u8, Cow<'a, [u8]>) = match compressed {
        Some(bytes) => (STORED_ZSTD, bytes.into()),
        None => (STORED_RAW, payload.into()),
    };
    let wire_value = |value: &FieldValue| match value {
        FieldValue::Text(text) => WireValue::Text(text.clone()),
        FieldValue::Digest { len, digest } => WireValue::Digest { len: *len, digest: *digest },
    };
    let wire = WireHeader {
        kind: record.kind().code(),
        fields: record.fields().iter().map(|(name, value)| (name.clone(), wire_value(value))).collect(),
        metadata: metadata.clone(),
        stored,
    };
    let header = bincode::encode_to_vec(&wire, config::standard()).map_err(|error| EntryError::Header { reason: error.to_string() })?;
    check_limit("header", header.len() as u64, MAX_HEADER_BYTES as u64)?;

    let mut head = Vec::with_capacity(PRELUDE + header.len());
    head.extend_from_slice(MAGIC);
    head.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
    head.extend_from_slice(&(header.len() as u32).to_le_bytes());
    head.extend_from_slice(&(body.len() as u64).to_le_bytes());
    head.extend_from_slice(&(payload.len() as u64).to_le_bytes());
    head.extend_from_slice(blake3::hash(&header).as_bytes());
    head.extend_from_slice(&header);
    let digest = *blake3::Hasher::new().update(&head).update(&body).finalize().as_bytes();
    Ok(EncodedEntry { head, payload: body, digest })
}

/// Decodes and verifies a whole entry: lengths, both digests, header and payload.
///
/// # Errors
/// Any [`EntryError`]; no bytes whatever make it panic or allocate beyond what the lengths, checked against the
/// file's size first, allow.
pub fn decode(bytes: &[u8]) -> Result<Entry, EntryError> {
    let verified = verify(bytes)?;
    let payload = match verified.coding {
        Coding::Raw => bytes[verified.stored.clone()].to_vec(),
        Coding::Zstd => decompress(&bytes[verified.stored.clone()], verified.payload_bytes)?,
    };
    Ok(Entry { record: verified.record, metadata: verified.metadata, payload })
}

/// As [`decode`], reusing the memory of the file's bytes for a payload that is stored as it is.
///
/// # Errors
/// As [`decode`].
pub fn decode_owned(mut bytes: Vec<u8>) -> Result<Entry, EntryError> {
    let verified = verify(&bytes)?;
    let payload = match verified.coding {
        Coding::Raw => {
            bytes.truncate(verified.stored.end);
            bytes.drain(..verified.stored.start);
            bytes
        }
        Coding::Zstd => decompress(&bytes[verified.stored.clone()], verified.payload_bytes)?,
    };
    Ok(Entry { record: verified.record, metadata: verified.metadata, payload })
}

/// A whole entry whose lengths, digests and header are sound.
struct Verified {
    record: KeyRecord,
    metadata: Metadata,
    coding: Coding,
    stored: Range<usize>,
    payload_bytes: u64,
}

/// How the payload is stored.
#[derive(Clone, Copy)]
enum Coding {
    Raw,
    Zstd,
}

fn verify(bytes: &[u8]) -> Result<Verified, EntryError> {
    let prelude = Prelude::parse(bytes)?;
    let expected = prelude.file_bytes();
    if bytes.len() as u64 != expected {
        return Err(EntryError::Length { expected, found: bytes.len() as u64 });
    }
    let (body, digest) = bytes.split_at(bytes.len() - DIGEST);
    if blake3::hash(body) != *as_digest(digest) {
        return Err(EntryError::Digest { part: "file" });
    }
    let stored = PRELUDE + prelude.header_bytes..body.len();
    let (record, metadata, coding) = decode_header(&body[PRELUDE..stored.start], &prelude.header_digest)?;
    let payload_bytes = prelude.payload_bytes;
    if matches!(coding, Coding::Raw) && stored.len() as u64 != payload_bytes {
        return Err(EntryError::Payload { reason: format!("{} bytes stored, {payload_bytes} promised", stored.len()) });
    }
    Ok(Verified { record, metadata, coding, stored, payload_bytes })
}

/// Reads and verifies the header alone; the rest of the file is neither read nor checked.
///
/// # Errors
/// [`EntryError`] for bytes that are not an entry's head; a failure of the reader comes back as
/// [`EntryError::Length`] at the point it failed.
pub fn read_header(mut source: impl Read) -> Result<EntryHeader, EntryError> {
    let mut head = Vec::new();
    read_up_to(&mut source, &mut head, PRELUDE);
    let prelude = Prelude::parse(&head)?;
    let mut header = Vec::new();
    read_up_to(&mut source, &mut header, prelude.header_bytes);
    if header.len() != prelude.header_bytes {
        return Err(EntryError::Length { expected: prelude.file_bytes(), found: (head.len() + header.len()) as u64 });
    }
    let (record, metadata, _) = decode_header(&header, &prelude.header_digest)?;
    Ok(EntryHeader { record, metadata, payload_bytes: prelude.payload_bytes })
}

/// Appends at most `count` bytes; an early end or an error of the reader leaves fewer.
fn read_up_to(source: &mut impl Read, out: &mut Vec<u8>, count: usize) {
    // `read_to_end` keeps what it read before an error, and the caller compares the length.
    let _ = source.take(count as u64).read_to_end(out);
}

struct Prelude {
    header_bytes: usize,
    stored_bytes: u64,
    payload_bytes: u64,
    header_digest: [u8; DIGEST],
}

impl Prelude {
    fn parse(bytes: &[u8]) -> Result<Self, EntryError> {
        let short = EntryError::Length { expected: (PRELUDE + DIGEST) as u64, found: bytes.len() as u64 };
        let known = bytes.len().min(MAGIC.len());
        if bytes[..known] != MAGIC[..known] {
            return Err(EntryError::Magic);
        }
        let field = |at: usize, len: usize| bytes.get(at..at + len).ok_or_else(|| short.clone());
        match u32::from_le_bytes(as_array(field(8, 4)?)) {
            FORMAT_VERSION => {}
            found if found > FORMAT_VERSION => return Err(EntryError::FutureVersion { found }),
            found => return Err(EntryError::UnknownVersion { found }),
        }
        let header_bytes = u32::from_le_bytes(as_array(field(12, 4)?));
        let stored_bytes = u64::from_le_bytes(as_array(field(16, 8)?));
        let payload_bytes = u64::from_le_bytes(as_array(field(24, 8)?));
        let header_digest = as_array(field(32, DIGEST)?);
        check_limit("header", u64::from(header_bytes), MAX_HEADER_BYTES as u64)?;
        check_limit("payload", stored_bytes, MAX_PAYLOAD_BYTES)?;
        check_limit("payload", payload_bytes, MAX_PAYLOAD_BYTES)?;
        Ok(Self { header_bytes: header_bytes as usize, stored_bytes, payload_bytes, header_digest })
    }

    fn file_bytes(&self) -> u64 {
        (PRELUDE + self.header_bytes + DIGEST) as u64 + self.stored_bytes
    }
}

fn decode_header(bytes: &[u8], digest: &[u8; DIGEST]) -> Result<(KeyRecord, Metadata, Coding), EntryError> {
    if blake3::hash(bytes) != *digest {
        return Err(EntryError::Digest { part: "header" });
    }
    let malformed = |reason: String| EntryError::Header { reason };
    let limited = config::standard().with_limit::<{ 4 * MAX_HEADER_BYTES }>();
    let (wire, used): (WireHeader, usize) = bincode::decode_from_slice(bytes, limited).map_err(|error| malformed(error.to_string()))?;
    if used != bytes.len() {
        return Err(malformed(format!("{} bytes after its end", bytes.len() - used)));
    }
    let kind = KeyKind::from_code(wire.kind).ok_or_else(|| malformed(format!("unknown kind {}", wire.kind)))?;
    let value = |value| match value {
        WireValue::Text(text) => FieldValue::Text(text),
        WireValue::Digest { len, digest } => FieldValue::Digest { len, digest },
    };
    let fields = wire.fields.into_iter().map(|(name, field)| (name, value(field))).collect();
    let coding = match wire.stored {
        STORED_RAW => Coding::Raw,
        STORED_ZSTD => Coding::Zstd,
        other => return Err(malformed(format!("unknown payload coding {other}"))),
    };
    Ok((KeyRecord::from_fields(kind, fields), wire.metadata, coding))
}

fn decompress(stored: &[u8], payload_bytes: u64) -> Result<Vec<u8>, EntryError> {
    let malformed = |reason: String| EntryError::Payload { reason };
    let framed = zstd::zstd_safe::get_frame_content_size(stored).ok().flatten();
    if framed != Some(payload_bytes) || payload_bytes > stored.len() as u64 * MAX_EXPANSION {
        return Err(malformed(format!("{payload_bytes} bytes promised, the frame says {framed:?}")));
    }
    let mut payload = Vec::new();
    payload.try_reserve_exact(payload_bytes as usize).map_err(|error| malformed(error.to_string()))?;
    with_decompressor(|decompressor| decompressor.decompress_to_buffer(stored, &mut payload))
        .map_err(|error| malformed(error.to_string()))?;
    if payload.len() as u64 != payload_bytes {
        return Err(malformed(format!("{} bytes decompressed, {payload_bytes} promised", payload.len())));
    }
    Ok(payload)
}

/// The payload compressed, or `None` where that does not make it smaller.
fn compress(payload: &[u8]) -> Option<Vec<u8>> {
    thread_local! {
        static COMPRESSOR: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
    }
    if payload.is_empty() {
        return None;
    }
    COMPRESSOR.with_borrow_mut(|slot| {
        if slot.is_none() {
            *slot = zstd::bulk::Compressor::new(LEVEL).ok();
        }
        let mut out = Vec::new();
        out.try_reserve_exact(zstd::zstd_safe::compress_bound(payload.len())).ok()?;
        slot.as_mut()?.compress_to_buffer(payload, &mut out).ok()?;
        (out.len() < payload.len() && payload.len() as u64 <= out.len() as u64 * MAX_EXPANSION).then_some(out)
    })
}

fn with_decompressor<T>(use_it: impl FnOnce(&mut zstd::bulk::Decompressor<'static>) -> std::io::Result<T>) -> std::io::Result<T> {
    thread_local! {
        static DECOMPRESSOR: RefCell<Option<zstd::bulk::Decompressor<'static>>> = const { RefCell::new(None) };
    }
    DECOMPRESSOR.with_borrow_mut(|slot| match slot {
        Some(decompressor) => use_it(decompressor),
        None => use_it(slot.insert(zstd::bulk::Decompressor::new()?)),
    })
}

fn check_limit(part: &'static str, bytes: u64, limit: u64) -> Result<(), EntryError> {
    if bytes > limit { Err(EntryError::TooLarge { part, bytes, limit }) } else { Ok(()) }
}

fn as_array<const N: usize>(bytes: &[u8]) -> [u8; N] {
    bytes.try_into().expect("the slice was cut to this length")
}

fn as_digest(bytes: &[u8]) -> &[u8; DIGEST] {
    bytes.try_into().expect("the slice was split off at this length")
}
