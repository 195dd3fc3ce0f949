//! Where the cache lives, and whether a directory can be trusted with code.

use std::ffi::OsStr;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The environment the default directory follows from, given as values so that nothing is read behind the
/// caller's back. An empty value counts as unset.
#[derive(Clone, Copy, Debug, Default)]
pub struct DirectoryEnvironment<'a> {
    /// `CLUTCH_CACHE_DIR`: the directory itself.
    pub clutch_cache_dir: Option<&'a OsStr>,
    /// `XDG_CACHE_HOME`: the directory above; ignored unless absolute, as its specification asks.
    pub xdg_cache_home: Option<&'a OsStr>,
    /// `HOME`.
    pub home: Option<&'a OsStr>,
}

/// The local directory: `CLUTCH_CACHE_DIR`, else `XDG_CACHE_HOME/clutch`, else `HOME/.cache/clutch`, else none.
#[must_use]
pub fn default_directory(environment: DirectoryEnvironment<'_>) -> Option<PathBuf> {
    let set = |value: Option<&OsStr>| value.filter(|value| !value.is_empty()).map(PathBuf::from);
    set(environment.clutch_cache_dir)
        .or_else(|| set(environment.xdg_cache_home).filter(|path| path.is_absolute()).map(|path| path.join("clutch")))
        .or_else(|| set(environment.home).map(|home| home.join(".cache").join("clutch")))
}

/// The read-only directories of `CLUTCH_CACHE_SHARED`: separated by colons, asked in this order.
#[must_use]
pub fn shared_directories(value: Option<&OsStr>) -> Vec<PathBuf> {
    value.map(|value| std::env::split_paths(value).filter(|path| !path.as_os_str().is_empty()).collect()).unwrap_or_default()
}

/// Why a directory is not used as a cache.
#[derive(Debug, Error)]
pub enum DirectoryError {
    /// It cannot be made or looked at.
    #[error("cache directory {} is not usable: {source}", path.display())]
    Io {
        /// The directory.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The path is there and is something else.
    #[error("cache directory {} is not a directory", path.display())]
    NotADirectory {
        /// The path.
        path: PathBuf,
    },
    /// Others could put code there.
    #[error(
        "cache directory {} can be written by other users (mode {mode:03o}); entries are code, so it is not used: run chmod go-w on it",
        path.display()
    )]
    WritableByOthers {
        /// The directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Another user owns it.
    #[error(
        "cache directory {} belongs to user {owner}, not to user {user}; entries are code, so it is not used \
         (a directory of root's can be named in CLUTCH_CACHE_SHARED)",
        path.display()
    )]
    ForeignOwner {
        /// The directory.
        path: PathBuf,
        /// The owner's user id.
        owner: u32,
        /// This process's effective user id.
        user: u32,
    },
}

/// Whose files are trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// This user's only.
    User,
    /// This user's and root's.
    UserOrRoot,
}

impl Trust {
    fn accepts_owner(self, owner: u32, user: u32) -> bool {
        owner == user || (self == Self::UserOrRoot && owner == 0)
    }

    /// Whether a file with this owner and mode can only have been written by someone trusted.
    pub(crate) fn accepts_file(self, metadata: &Metadata) -> bool {
        self.accepts_owner(metadata.uid(), effective_user()) && metadata.mode() & 0o022 == 0
    }

    /// Checks an existing directory.
    pub(crate) fn check_directory(self, path: &Path) -> Result<(), DirectoryError> {
        let metadata = std::fs::metadata(path).map_err(|source| DirectoryError::Io { path: path.into(), source })?;
        self.judge(path, metadata.is_dir(), metadata.uid(), metadata.mode(), effective_user())
    }

    fn judge(self, path: &Path, is_dir: bool, owner: u32, mode: u32, user: u32) -> Result<(), DirectoryError> {
        if !is_dir {
            return Err(DirectoryError::NotADirectory { path: path.into() });
        }
        if !self.accepts_owner(owner, user) {
            return Err(DirectoryError::ForeignOwner { path: path.into(), owner, user });
        }
        if mode & 0o022 != 0 {
            return Err(DirectoryError::WritableByOthers { path: path.into(), mode: mode & 0o7777 });
        }
        Ok(())
    }
}

fn effective_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(trust: Trust, owner: u32, mode: u32, user: u32) -> Result<(), DirectoryError> {
        trust.judge(Path::new("d"), true, owner, mode, user)
    }

    #[test]
    fn only_unshared_directories_of_the_user_are_trusted() {
        assert!(judge(Trust::User, 1000, 0o40700, 1000).is_ok());
        assert!(judge(Trust::User, 1000, 0o40755, 1000).is_ok());
        assert!(matches!(judge(Trust::User, 1000, 0o40775, 1000), Err(DirectoryError::WritableByOthers { mode: 0o775, .. })));
        assert!(matches!(judge(Trust::User, 1000, 0o40702, 1000), Err(DirectoryError::WritableByOthers { .. })));
        assert!(matches!(judge(Trust::User, 0, 0o40755, 1000), Err(DirectoryError::ForeignOwner { owner: 0, user: 1000, .. })));
        assert!(matches!(judge(Trust::User, 1000, 0o40700, 0), Err(DirectoryError::ForeignOwner { .. })));
    }

    #[test]
    fn shared_directories_may_be_roots() {
        assert!(judge(Trust::UserOrRoot, 0, 0o40755, 1000).is_ok());
        assert!(judge(Trust::UserOrRoot, 1000, 0o40755, 1000).is_ok());
        assert!(judge(Trust::UserOrRoot, 1001, 0o40755, 1000).is_err());
        assert!(matches!(judge(Trust::UserOrRoot, 0, 0o41777, 1000), Err(DirectoryError::WritableByOthers { mode: 0o1777, .. })));
    }

    #[test]
    fn default_directory_follows_the_environment_in_order() {
        let os = |text: &'static str| Some(OsStr::new(text));
        let pick = |clutch, xdg, home| default_directory(DirectoryEnvironment { clutch_cache_dir: clutch, xdg_cache_home: xdg, home });
        assert_eq!(pick(os("/c"), os("/x"), os("/h")), Some("/c".into()));
        assert_eq!(pick(os(""), os("/x"), os("/h")), Some("/x/clutch".into()));
        assert_eq!(pick(None, os("relative"), os("/h")), Some("/h/.cache/clutch".into()));
        assert_eq!(pick(None, None, os("/h")), Some("/h/.cache/clutch".into()));
        assert_eq!(pick(None, None, None), None);
    }

    #[test]
    fn shared_directories_are_split_at_colons() {
        assert_eq!(shared_directories(Some(OsStr::new("/a::/b"))), [PathBuf::from("/a"), PathBuf::from("/b")]);
        assert_eq!(shared_directories(None), Vec::<PathBuf>::new());
    }
}
