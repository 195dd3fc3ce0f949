//! The last layer: entries fetched from somewhere else by name.

use std::fmt::Debug;

use thiserror::Error;

/// A remote operation failed; counted, and the look-up goes on as a miss.
#[derive(Debug, Error)]
#[error("remote cache {remote}: {reason}")]
pub struct RemoteError {
    /// The remote, as [`Remote::describe`] names it.
    pub remote: String,
    /// What went wrong.
    pub reason: String,
}

/// Somewhere entries can be fetched from, and perhaps pushed to. Names are `<key>.<kind>`.
///
/// What is fetched is verified as a file of a directory is, then copied down. Who may write to the remote can
/// make this process run code: only name remotes whose writers are trusted.
pub trait Remote: Send + Sync + Debug {
    /// The bytes stored under a name, or `None` if there are none.
    ///
    /// # Errors
    /// [`RemoteError`] for anything but absence.
    fn fetch(&self, name: &str) -> Result<Option<Vec<u8>>, RemoteError>;

    /// Stores bytes under a name, replacing what was there.
    ///
    /// # Errors
    /// [`RemoteError`] if they were not stored.
    fn push(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError>;

    /// What to call this remote in messages; without credentials.
    fn describe(&self) -> String;
}
