//! Lock files: `<root>/v1/locks/<name>.lock`, held through the operating system's file locks.
//!
//! A lock dies with the process that holds it, so a leader that is killed is taken over from. The holder unlinks its
//! file before it lets go; whoever then gets the lock of an unlinked file sees that the path no longer leads to the
//! file it holds and opens the path anew. So two processes never hold one name, and the folder holds files of keys
//! being produced, plus those of killed leaders until the next sweep or the next use of the key.
//!
//! On a network file system whose path look-ups are stale for a while, two processes can both come to hold a name:
//! both then compile, and the later entry replaces the equal earlier one. A child forked (without exec) by a leader
//! shares the lock; waiters therefore also watch for the entry itself, and the release is explicit.

use std::fs::{File, TryLockError};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::fs::FileSystem;
use crate::layer::{Layer, read_folder};

/// How often opening is tried again because the file was unlinked meanwhile.
const REOPENINGS: usize = 1000;

/// A held lock; released and its file removed when dropped.
#[derive(Debug)]
pub(crate) struct KeyLock {
    file: File,
    path: PathBuf,
    /// A forked child must not release what its parent holds.
    process: u32,
}

impl KeyLock {
    /// Takes the lock of this name if nobody holds it, else gives `None`.
    ///
    /// # Errors
    /// Where lock files cannot be made or locked.
    pub(crate) fn try_named(layer: &Layer, fs: &dyn FileSystem, name: &str) -> io::Result<Option<Self>> {
        let folder = layer.lock_folder();
        let path = folder.join(format!("{name}.lock"));
        for _ in 0..REOPENINGS {
            let file = match fs.open_lock(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    fs.create_directory(&folder)?;
                    fs.open_lock(&path)?
                }
                other => other?,
            };
            match fs.try_lock(&file) {
                Ok(()) if leads_to(&path, &file) => return Ok(Some(Self::held(file, path))),
                Ok(()) => {}
                Err(TryLockError::WouldBlock) => return Ok(None),
                Err(TryLockError::Error(error)) => return Err(error),
            }
        }
        Ok(None)
    }

    fn held(file: File, path: PathBuf) -> Self {
        Self { file, path, process: std::process::id() }
    }

    /// Removes the lock files nobody holds and returns how many there were.
    pub(crate) fn remove_unheld(layer: &Layer, fs: &dyn FileSystem) -> u64 {
        let mut removed = 0;
        // What cannot be listed or opened is left for another time.
        for entry in read_folder(&layer.lock_folder(), &mut |_, _| {}) {
            let path = entry.path();
            if path.extension().is_some_and(|extension| extension == "lock")
                && let Ok((file, _)) = crate::fs::open_regular(&path)
                && fs.try_lock(&file).is_ok()
                && leads_to(&path, &file)
            {
                drop(Self::held(file, path));
                removed += 1;
            }
        }
        removed
    }
}

impl Drop for KeyLock {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            return;
        }
        // A file that stays is found unheld later; a lock that stays ends with the file's last handle.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.file.unlock();
    }
}

/// Whether the path still leads to this file.
fn leads_to(path: &Path, file: &File) -> bool {
    match (std::fs::metadata(path), file.metadata()) {
        (Ok(there), Ok(held)) => (there.dev(), there.ino()) == (held.dev(), held.ino()),
        _ => false,
    }
}
