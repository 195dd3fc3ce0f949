//! The store: layers asked in order, and every failure a counted miss.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use crate::directory::DirectoryError;
use crate::entry::{COMPRESS_FROM, EncodedEntry, Entry, EntryError, Metadata, decode, encode};
use crate::evict::SizeEstimate;
use crate::flight::Slots;
use crate::fs::{FileSystem, OsFileSystem};
use crate::key::{Key, KeyKind, KeyRecord};
use crate::layer::{Layer, LoadError, entry_name, matching};
use crate::remote::Remote;
use crate::stats::{Counters, Failure, StoreStats};

/// The default bound on the local directory, in bytes.
pub const DEFAULT_MAX_BYTES: u64 = 10 << 30;
/// A use is written down at most this often, so that hits cost no write.
const TOUCH_INTERVAL: Duration = Duration::from_secs(60);

/// How to open a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// The read-write directory; created if missing. `None` for a store without one.
    pub directory: Option<PathBuf>,
    /// Read-only directories, asked in this order after the local one.
    pub shared: Vec<PathBuf>,
    /// Asked after all directories.
    pub remote: Option<Arc<dyn Remote>>,
    /// Whether puts go to the remote too.
    pub push_to_remote: bool,
    /// Bound on the local directory, in bytes of entries.
    pub max_bytes: u64,
    /// Whether puts are flushed to the disk before they are visible.
    pub sync: bool,
    /// Payloads of at least this many bytes are compressed.
    pub compress_from: usize,
    /// The file operations used for entries and locks.
    pub file_system: Arc<dyn FileSystem>,
}

impl StoreOptions {
    /// A store in this directory, with a bound of 10 GiB, no other layers and no flushing.
    #[must_use]
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: Some(directory.into()), ..Self::default() }
    }
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self {
            directory: None,
            shared: Vec::new(),
            remote: None,
            push_to_remote: false,
            max_bytes: DEFAULT_MAX_BYTES,
            sync: false,
            compress_from: COMPRESS_FROM,
            file_system: Arc::new(OsFileSystem),
        }
    }
}

/// Which layer of a store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LayerId {
    /// The read-write directory.
    Local,
    /// A read-only directory, by its place in [`StoreOptions::shared`] after those refused were dropped.
    Shared(usize),
}

/// A persistent cache. Cloning gives another handle of the same store; all methods can be called from any thread,
/// and any number of processes can have stores in one directory.
#[derive(Clone, Debug)]
pub struct Store {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) local: Option<Layer>,
    pub(crate) shared: Vec<Layer>,
    remote: Option<Arc<dyn Remote>>,
    push_to_remote: bool,
    pub(crate) max_bytes: u64,
    sync: bool,
    compress_from: usize,
    pub(crate) fs: Arc<dyn FileSystem>,
    pub(crate) counters: Counters,
    pub(crate) size: SizeEstimate,
    pub(crate) slots: Slots,
}

impl Store {
    /// Opens a store, refusing a local directory that cannot be used or trusted. A shared directory that cannot
    /// be is dropped, counted and warned about.
    ///
    /// # Errors
    /// [`DirectoryError`] about the local directory.
    pub fn open(options: StoreOptions) -> Result<Self, DirectoryError> {
        let local = options.directory.as_deref().map(|root| Layer::open_local(root, options.file_system.as_ref())).transpose()?;
        Ok(Self::with_local(options, local, Counters::default()))
    }

    /// Opens a store that goes without its local directory where [`Store::open`] would fail; counted and warned
    /// about. Single flight between the threads of this process and the other layers still work.
    #[must_use]
    pub fn open_or_without(options: StoreOptions) -> Self {
        let counters = Counters::default();
        let local = options.directory.as_deref().and_then(|root| {
            Layer::open_local(root, options.file_system.as_ref()).inspect_err(|error| counters.failed(Failure::Directory, root, error)).ok()
        });
        Self::with_local(options, local, counters)
    }

    fn with_local(options: StoreOptions, local: Option<Layer>, counters: Counters) -> Self {
        let mut shared = Vec::new();
        for root in &options.shared {
            match Layer::open_shared(root) {
                Ok(layer) => shared.push(layer),
                Err(error) => counters.failed(Failure::Directory, root, &error),
            }
        }
        Self {
            inner: Arc::new(Inner {
                local,
                shared,
                remote: options.remote,
                push_to_remote: options.push_to_remote,
                max_bytes: options.max_bytes,
                sync: options.sync,
                compress_from: options.compress_from,
                fs: options.file_system,
                counters,
                size: SizeEstimate::default(),
                slots: Slots::default(),
            }),
        }
    }

    /// The local directory in use, if any.
    #[must_use]
    pub fn directory(&self) -> Option<&Path> {
        self.inner.local.as_ref().map(Layer::root)
    }

    /// The shared directories in use.
    #[must_use]
    pub fn shared(&self) -> Vec<&Path> {
        self.inner.shared.iter().map(Layer::root).collect()
    }

    /// Where the local directory keeps the entry of a record, whether or not there is one.
    #[must_use]
    pub fn entry_path(&self, record: &KeyRecord) -> Option<PathBuf> {
        self.inner.local.as_ref().map(|layer| layer.entry_path(&record.key(), record.kind()))
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.inner.counters.snapshot()
    }

    /// The entry of a record, from the first layer that has it. `None` for any failure.
    #[must_use]
    pub fn get(&self, record: &KeyRecord) -> Option<Entry> {
        let entry = self.inner.lookup(record, &record.key());
        self.inner.count_lookup(entry.as_ref());
        entry
    }

    /// Writes the entry of a record, replacing the one there is, and evicts others if that exceeds the bound.
    /// Returns whether it was written to the local directory.
    pub fn put(&self, record: &KeyRecord, metadata: &Metadata, payload: &[u8]) -> bool {
        let inner = &self.inner;
        let key = record.key();
        let encoded = match encode(record, metadata, payload, inner.compress_from) {
            Ok(encoded) => encoded,
            Err(error) => {
                let path = inner.local.as_ref().map(|layer| layer.entry_path(&key, record.kind())).unwrap_or_default();
                inner.counters.failed(Failure::TooLarge, &path, &error);
                return false;
            }
        };
        let written = inner.write_local(&key, record.kind(), &encoded.parts(), encoded.file_bytes());
        if written {
            inner.counters.add(&inner.counters.puts, 1);
            inner.counters.add(&inner.counters.put_bytes, encoded.file_bytes());
        }
        inner.push(&key, record.kind(), &encoded);
        written
    }
}

impl Inner {
    /// Looks in every layer, copying down what is found below the local one.
    pub(crate) fn lookup(&self, record: &KeyRecord, key: &Key) -> Option<Entry> {
        if let Some(entry) = self.lookup_local(record, key) {
            return Some(entry);
        }
        for layer in &self.shared {
            match layer.load_with_bytes(self.fs.as_ref(), key, record) {
                Ok((entry, bytes)) => {
                    self.counters.add(&self.counters.hits_shared, 1);
                    self.copy_down(key, record.kind(), &bytes);
                    return Some(entry);
                }
                Err(error) => self.load_failed(layer, key, record.kind(), &error),
            }
        }
        self.lookup_remote(record, key)
    }

    /// Looks in the local directory alone.
    pub(crate) fn lookup_local(&self, record: &KeyRecord, key: &Key) -> Option<Entry> {
        let layer = self.local.as_ref()?;
        match layer.load(self.fs.as_ref(), key, record) {
            Ok((entry, last_used)) => {
                self.counters.add(&self.counters.hits_local, 1);
                self.note_use(layer, key, record.kind(), last_used);
                Some(entry)
            }
            Err(error) => {
                self.load_failed(layer, key, record.kind(), &error);
                let worthless = match &error {
                    LoadError::Damaged(reason) => !matches!(reason, EntryError::FutureVersion { .. }),
                    LoadError::Foreign(_) => true,
                    LoadError::Absent | LoadError::Io(_) | LoadError::Untrusted => false,
                };
                if worthless {
                    self.remove(&layer.entry_path(key, record.kind()));
                }
                None
            }
        }
    }

    fn lookup_remote(&self, record: &KeyRecord, key: &Key) -> Option<Entry> {
        let remote = self.remote.as_ref()?;
        let name = entry_name(key, record.kind());
        let subject = PathBuf::from(remote.describe()).join(&name);
        let bytes = match remote.fetch(&name) {
            Ok(bytes) => bytes?,
            Err(error) => {
                self.counters.failed(Failure::Remote, &subject, &error);
                return None;
            }
        };
        match matching(decode(&bytes), record) {
            Ok(entry) => {
                self.counters.add(&self.counters.hits_remote, 1);
                self.copy_down(key, record.kind(), &bytes);
                Some(entry)
            }
            Err(error) => {
                self.load_error_at(&subject, &error);
                None
            }
        }
    }

    pub(crate) fn count_lookup(&self, entry: Option<&Entry>) {
        match entry {
            Some(entry) => {
                self.counters.add(&self.counters.hits, 1);
                self.counters.add(&self.counters.hit_bytes, entry.payload.len() as u64);
            }
            None => self.counters.add(&self.counters.misses, 1),
        }
    }

    fn load_failed(&self, layer: &Layer, key: &Key, kind: KeyKind, error: &LoadError) {
        if !matches!(error, LoadError::Absent) {
            self.load_error_at(&layer.entry_path(key, kind), error);
        }
    }

    fn load_error_at(&self, subject: &Path, error: &LoadError) {
        let counters = &self.counters;
        match error {
            LoadError::Absent => {}
            LoadError::Io(error) => counters.failed(Failure::Read, subject, error),
            LoadError::Untrusted => counters.failed(Failure::Untrusted, subject, &"another user owns or can write this file"),
            LoadError::Damaged(error @ EntryError::FutureVersion { .. }) => {
                counters.failed(Failure::FutureVersion, subject, error);
            }
            LoadError::Damaged(error) => counters.failed(Failure::Corrupt, subject, error),
            LoadError::Foreign(record) => {
                counters.failed(Failure::Foreign, subject, &format!("it holds the entry of {}", record.key()));
            }
        }
    }

    /// Writes the time of use down, unless that was done a short while ago. A time in the future is corrected.
    fn note_use(&self, layer: &Layer, key: &Key, kind: KeyKind, last_used: Option<SystemTime>) {
        let now = SystemTime::now();
        let recent = last_used.is_some_and(|used| match now.duration_since(used) {
            Ok(age) => age < TOUCH_INTERVAL,
            Err(ahead) => ahead.duration() < TOUCH_INTERVAL,
        });
        if !recent {
            let path = layer.entry_path(key, kind);
            if let Err(error) = self.fs.touch(&path, now)
                && error.kind() != std::io::ErrorKind::NotFound
            {
                self.counters.failed(Failure::Touch, &path, &error);
            }
        }
    }

    fn copy_down(&self, key: &Key, kind: KeyKind, bytes: &[u8]) {
        if self.write_local(key, kind, &[bytes], bytes.len() as u64) {
            self.counters.add(&self.counters.copied_down, 1);
        }
    }

    /// Writes an entry's bytes to the local directory and keeps the bound. Returns whether it is there.
    pub(crate) fn write_local(&self, key: &Key, kind: KeyKind, parts: &[&[u8]], bytes: u64) -> bool {
        let Some(layer) = &self.local else { return false };
        let path = layer.entry_path(key, kind);
        if bytes > self.max_bytes {
            self.counters.failed(Failure::TooLarge, &path, &format!("{bytes} bytes, above the bound of {}", self.max_bytes));
            return false;
        }
        if let Err(error) = layer.write(self.fs.as_ref(), &path, parts, self.sync) {
            self.counters.failed(Failure::Write, &path, &error);
            return false;
        }
        self.account(layer, bytes, &path);
        true
    }

    fn push(&self, key: &Key, kind: KeyKind, encoded: &EncodedEntry<'_>) {
        if let Some(remote) = self.remote.as_ref().filter(|_| self.push_to_remote) {
            let name = entry_name(key, kind);
            if let Err(error) = remote.push(&name, &encoded.to_vec()) {
                self.counters.failed(Failure::Remote, &PathBuf::from(remote.describe()).join(name), &error);
            }
        }
    }

    /// Removes a file; one already gone is removed.
    pub(crate) fn remove(&self, path: &Path) -> bool {
        match self.fs.remove(path) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => true,
            Err(error) => {
                self.counters.failed(Failure::Remove, path, &error);
                false
            }
        }
    }
}
