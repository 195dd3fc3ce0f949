//! Looking at what the directories hold: listing, usage, verification.

use std::io::BufReader;
use std::path::PathBuf;
use std::time::SystemTime;

use crate::entry::{EntryError, Metadata, decode, read_header};
use crate::evict::is_stale_temporary;
use crate::fs::open_regular;
use crate::key::{Key, KeyKind, KeyRecord};
use crate::layer::{Found, Layer, read_folder};
use crate::lock::KeyLock;
use crate::store::{LayerId, Store};

/// One entry as its header describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntryInfo {
    /// The key the file is named after.
    pub key: Key,
    /// What the entry is the result of.
    pub record: KeyRecord,
    /// Labels kept beside the payload.
    pub metadata: Metadata,
    /// Size of the file, in bytes.
    pub file_bytes: u64,
    /// Size of the payload before compression, in bytes.
    pub payload_bytes: u64,
    /// Last use, to within a minute.
    pub last_used: SystemTime,
    /// The layer it was found in.
    pub layer: LayerId,
    /// The file.
    pub path: PathBuf,
}

/// The entries of all directories.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Entries by layer, then by key.
    pub entries: Vec<EntryInfo>,
    /// Files named like entries whose header cannot be read; [`Store::verify`] says why.
    pub unreadable: u64,
}

/// What the local directory holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Entries keyed by graph.
    pub graph_entries: u64,
    /// Bytes of their files.
    pub graph_bytes: u64,
    /// Entries keyed by executable.
    pub executable_entries: u64,
    /// Bytes of their files.
    pub executable_bytes: u64,
    /// Temporary files of writes under way or abandoned.
    pub temporaries: u64,
    /// Bytes of temporary files.
    pub temporary_bytes: u64,
    /// Lock files.
    pub locks: u64,
    /// The bound, in bytes.
    pub max_bytes: u64,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Problem {
    /// It cannot be read.
    Unreadable(String),
    /// Another user owns it or can write it.
    Untrusted,
    /// It is not a sound entry of this format version.
    Entry(EntryError),
    /// It is a sound entry under a name that is not its own.
    WrongName {
        /// The key its record has.
        actual: Key,
        /// The kind its record has.
        kind: KeyKind,
    },
    /// A temporary file of a process that died.
    AbandonedTemporary,
    /// It is not named as an entry is; never removed.
    Stray,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Unreadable(reason) => write!(f, "cannot be read: {reason}"),
            Self::Untrusted => f.write_str("another user owns it or can write it"),
            Self::Entry(error) => error.fmt(f),
            Self::WrongName { actual, kind } => write!(f, "holds the entry of {actual}.{kind}"),
            Self::AbandonedTemporary => f.write_str("left by a writer that died"),
            Self::Stray => f.write_str("not a file of the cache"),
        }
    }
}

/// A file that [`Store::verify`] found fault with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadEntry {
    /// The layer it is in.
    pub layer: LayerId,
    /// The file.
    pub path: PathBuf,
    /// What is wrong.
    pub problem: Problem,
    /// Whether it was removed.
    pub removed: bool,
}

/// What [`Store::verify`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Sound entries under their own names.
    pub good: u64,
    /// Bytes of their files.
    pub good_bytes: u64,
    /// Everything else, by layer, then by path.
    pub bad: Vec<BadEntry>,
}

impl Store {
    /// Every layer that is a directory, in the order asked.
    pub(crate) fn layers(&self) -> impl Iterator<Item = (LayerId, &Layer)> {
        let local = self.inner.local.iter().map(|layer| (LayerId::Local, layer));
        local.chain(self.inner.shared.iter().enumerate().map(|(index, layer)| (LayerId::Shared(index), layer)))
    }

    /// Lists the entries of all directories by their headers; payloads are neither read nor checked.
    #[must_use]
    pub fn ls(&self) -> Listing {
        let mut listing = Listing::default();
        for (id, layer) in self.layers() {
            for found in self.inner.walk(layer) {
                match describe(&found, &id, layer) {
                    Some(Ok(info)) => listing.entries.push(info),
                    Some(Err(_)) => listing.unreadable += 1,
                    None => {}
                }
            }
        }
        listing
    }

    /// Counts what the local directory holds, without opening files.
    #[must_use]
    pub fn usage(&self) -> Usage {
        let mut usage = Usage { max_bytes: self.inner.max_bytes, ..Usage::default() };
        let Some(layer) = &self.inner.local else { return usage };
        for found in self.inner.walk(layer) {
            let (count, bytes) = match found.name {
                Some((_, KeyKind::Graph)) => (&mut usage.graph_entries, &mut usage.graph_bytes),
                Some((_, KeyKind::Executable)) => (&mut usage.executable_entries, &mut usage.executable_bytes),
                None if found.temporary => (&mut usage.temporaries, &mut usage.temporary_bytes),
                None => continue,
            };
            *count += 1;
            *bytes += found.bytes;
        }
        usage.locks = read_folder(&layer.lock_folder(), &mut |_, _| {}).len() as u64;
        usage
    }

    /// Reads and verifies every entry of all directories. With `remove`, what is damaged, misnamed or abandoned is removed
    /// from the local directory; entries of later format versions, files of other users and strays stay.
    #[must_use]
    pub fn verify(&self, remove: bool) -> VerifyReport {
        self.verify_with(remove, &mut |_, _| true)
    }

    /// As [`Store::verify`], telling `progress` before each file how many were checked and how many there are; it ends the work
    /// early by returning false.
    #[must_use]
    pub fn verify_with(&self, remove: bool, progress: &mut dyn FnMut(u64, u64) -> bool) -> VerifyReport {
        let mut report = VerifyReport::default();
        let now = SystemTime::now();
        let walked: Vec<_> = self.layers().map(|(id, layer)| (id, layer, self.inner.walk(layer))).collect();
        let total = walked.iter().map(|(_, _, files)| files.len() as u64).sum();
        let mut done = 0;
        for (id, layer, files) in walked {
            for found in files {
                if !progress(done, total) {
                    return report;
                }
                done += 1;
                let problem = match found.name {
                    Some(name) => self.check(&found, name, layer),
                    None if is_stale_temporary(&found, now) => Some(Problem::AbandonedTemporary),
                    None if found.temporary => continue,
                    None => Some(Problem::Stray),
                };
                let Some(problem) = problem else {
                    report.good += 1;
                    report.good_bytes += found.bytes;
                    continue;
                };
                let removable = match &problem {
                    Problem::Entry(error) => !matches!(error, EntryError::FutureVersion { .. }),
                    Problem::WrongName { .. } | Problem::AbandonedTemporary => true,
                    Problem::Unreadable(_) | Problem::Untrusted | Problem::Stray => false,
                };
                let removed = remove && removable && id == LayerId::Local && self.inner.remove(&found.path);
                report.bad.push(BadEntry { layer: id.clone(), path: found.path, problem, removed });
            }
            if remove && id == LayerId::Local {
                KeyLock::remove_unheld(layer, self.inner.fs.as_ref());
            }
        }
        report
    }

    /// What is wrong with an entry's file; one that vanishes meanwhile was evicted, and nothing is.
    fn check(&self, found: &Found, name: (Key, KeyKind), layer: &Layer) -> Option<Problem> {
        let (bytes, metadata) = match self.inner.fs.read(&found.path) {
            Ok(read) => read,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return None,
            Err(error) => return Some(Problem::Unreadable(error.to_string())),
        };
        if !layer.trust.accepts_file(&metadata) {
            return Some(Problem::Untrusted);
        }
        match decode(&bytes) {
            Ok(entry) => {
                let (actual, kind) = (entry.record.key(), entry.record.kind());
                let misplaced = found.path != layer.entry_path(&actual, kind);
                ((actual, kind) != name || misplaced).then_some(Problem::WrongName { actual, kind })
            }
            Err(error) => Some(Problem::Entry(error)),
        }
    }
}

/// The header of a found file, if it is named as an entry is.
pub(crate) fn describe(found: &Found, id: &LayerId, layer: &Layer) -> Option<Result<EntryInfo, Problem>> {
    let (key, _) = found.name?;
    Some((|| {
        let (file, metadata) = open_regular(&found.path).map_err(|error| Problem::Unreadable(error.to_string()))?;
        if !layer.trust.accepts_file(&metadata) {
            return Err(Problem::Untrusted);
        }
        let header = read_header(BufReader::with_capacity(4096, file)).map_err(Problem::Entry)?;
        Ok(EntryInfo {
            key,
            record: header.record,
            metadata: header.metadata,
            file_bytes: found.bytes,
            payload_bytes: header.payload_bytes,
            last_used: found.modified,
            layer: id.clone(),
            path: found.path.clone(),
        })
    })())
}
