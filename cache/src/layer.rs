//! One directory of entries: `<root>/v1/<first key byte>/<key>.<kind>`.

use std::fs::{DirEntry, Metadata};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::directory::{DirectoryError, Trust};
use crate::entry::{Entry, EntryError, decode, decode_owned};
use crate::fs::{FileSystem, TEMPORARY_PREFIX};
use crate::key::{Key, KeyKind, KeyRecord};

/// Folder of the format this build uses; those of other versions beside it are left alone.
pub(crate) const VERSION_FOLDER: &str = "v1";
/// Folder of the lock files, beside the shards.
pub(crate) const LOCK_FOLDER: &str = "locks";

/// A directory of entries that was found to be trustworthy.
#[derive(Debug)]
pub(crate) struct Layer {
    root: PathBuf,
    versioned: PathBuf,
    pub(crate) trust: Trust,
}

/// Why an entry cannot be had from a layer.
#[derive(Debug)]
pub(crate) enum LoadError {
    Absent,
    Io(io::Error),
    Untrusted,
    Damaged(EntryError),
    Foreign(KeyRecord),
}

/// A file found while walking a layer.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) path: PathBuf,
    /// `None` for what is not named as an entry is.
    pub(crate) name: Option<(Key, KeyKind)>,
    pub(crate) temporary: bool,
    pub(crate) bytes: u64,
    pub(crate) modified: SystemTime,
}

impl Layer {
    /// Opens the read-write layer, creating what is missing.
    pub(crate) fn open_local(root: &Path, fs: &dyn FileSystem) -> Result<Self, DirectoryError> {
        let layer = Self::at(root, Trust::User);
        for path in [root, &layer.versioned] {
            if !path.is_dir() {
                fs.create_directory(path).map_err(|source| DirectoryError::Io { path: path.into(), source })?;
            }
            layer.trust.check_directory(path)?;
        }
        Ok(layer)
    }

    /// Opens a read-only layer, which has to exist. A missing version folder makes an empty layer.
    pub(crate) fn open_shared(root: &Path) -> Result<Self, DirectoryError> {
        let layer = Self::at(root, Trust::UserOrRoot);
        layer.trust.check_directory(root)?;
        if layer.versioned.exists() {
            layer.trust.check_directory(&layer.versioned)?;
        }
        Ok(layer)
    }

    fn at(root: &Path, trust: Trust) -> Self {
        Self { root: root.into(), versioned: root.join(VERSION_FOLDER), trust }
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    pub(crate) fn lock_folder(&self) -> PathBuf {
        self.versioned.join(LOCK_FOLDER)
    }

    pub(crate) fn entry_path(&self, key: &Key, kind: KeyKind) -> PathBuf {
        let mut path = self.versioned.join(key.shard());
        path.push(format!("{key}.{kind}"));
        path
    }

    /// Reads an entry's file, if it can only have been written by someone trusted.
    pub(crate) fn read(&self, fs: &dyn FileSystem, key: &Key, kind: KeyKind) -> Result<(Vec<u8>, Metadata), LoadError> {
        let (bytes, metadata) = fs.read(&self.entry_path(key, kind)).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LoadError::Absent,
            _ => LoadError::Io(error),
        })?;
        if self.trust.accepts_file(&metadata) { Ok((bytes, metadata)) } else { Err(LoadError::Untrusted) }
    }

    /// Reads, verifies and compares with the record asked for; gives the file's bytes too.
    pub(crate) fn load_with_bytes(&self, fs: &dyn FileSystem, key: &Key, record: &KeyRecord) -> Result<(Entry, Vec<u8>), LoadError> {
        let (bytes, _) = self.read(fs, key, record.kind())?;
        let entry = matching(decode(&bytes), record)?;
        Ok((entry, bytes))
    }

    /// Reads, verifies and compares with the record asked for; gives the time of last use too.
    pub(crate) fn load(&self, fs: &dyn FileSystem, key: &Key, record: &KeyRecord) -> Result<(Entry, Option<SystemTime>), LoadError> {
        let (bytes, metadata) = self.read(fs, key, record.kind())?;
        let entry = matching(decode_owned(bytes), record)?;
        Ok((entry, metadata.modified().ok()))
    }

    /// Writes a file for an entry, creating its shard folder if need be.
    pub(crate) fn write(&self, fs: &dyn FileSystem, path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
        match fs.write_atomic(path, parts, sync) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs.create_directory(path.parent().ok_or(io::ErrorKind::InvalidInput)?)?;
                fs.write_atomic(path, parts, sync)
            }
            other => other,
        }
    }

    /// Every file in the shard folders, ordered by path. Files that vanish meanwhile are skipped; a folder that
    /// cannot be read is handed to `on_error` and skipped.
    pub(crate) fn walk(&self, on_error: &mut dyn FnMut(&Path, io::Error)) -> Vec<Found> {
        let mut found = Vec::new();
        for shard in read_folder(&self.versioned, on_error) {
            let name = shard.file_name();
            let is_shard = name.to_str().is_some_and(|name| name.len() == 2 && u8::from_str_radix(name, 16).is_ok());
            if is_shard {
                found.extend(read_folder(&shard.path(), on_error).iter().filter_map(describe));
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        found
    }
}

/// The decoded entry, if it is the one asked for.
pub(crate) fn matching(decoded: Result<Entry, EntryError>, record: &KeyRecord) -> Result<Entry, LoadError> {
    let entry = decoded.map_err(LoadError::Damaged)?;
    if entry.record == *record { Ok(entry) } else { Err(LoadError::Foreign(entry.record)) }
}

/// The key and kind a file name stands for.
pub(crate) fn parse_name(name: &str) -> Option<(Key, KeyKind)> {
    let (key, kind) = name.split_once('.')?;
    Some((key.parse().ok()?, KeyKind::from_name(kind)?))
}

/// The name of an entry's file.
pub(crate) fn entry_name(key: &Key, kind: KeyKind) -> String {
    format!("{key}.{kind}")
}

pub(crate) fn read_folder(path: &Path, on_error: &mut dyn FnMut(&Path, io::Error)) -> Vec<DirEntry> {
    let mut entries = Vec::new();
    match std::fs::read_dir(path) {
        Ok(listing) => {
            for entry in listing {
                match entry {
                    Ok(entry) => entries.push(entry),
                    Err(error) => on_error(path, error),
                }
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => on_error(path, error),
    }
    entries
}

fn describe(entry: &DirEntry) -> Option<Found> {
    let metadata = entry.metadata().ok()?;
    let name = entry.file_name();
    let name = name.to_string_lossy();
    Some(Found {
        path: entry.path(),
        name: parse_name(&name).filter(|_| metadata.is_file()),
        temporary: metadata.is_file() && name.starts_with(TEMPORARY_PREFIX),
        bytes: metadata.len(),
        modified: metadata.modified().unwrap_or(SystemTime::UNIX_EPOCH),
    })
}
