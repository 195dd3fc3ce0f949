//! The file operations the store needs, behind a trait so that their failures can be provoked.

use std::fmt::Debug;
use std::fs::{DirBuilder, File, Metadata, OpenOptions, Permissions, TryLockError};
use std::io::{self, IoSlice, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::SystemTime;

use rustix::fs::OFlags;

use crate::entry::MAX_ENTRY_BYTES;

/// File operations of the store. Every method has the operating system's behaviour as its default; an
/// implementation overrides those whose failure it wants to cause or observe.
pub trait FileSystem: Send + Sync + Debug {
    /// Opens a regular file and reads all of it. Never blocks on something that is not a regular file.
    ///
    /// # Errors
    /// Those of opening and reading; `InvalidInput` for anything but a regular file of at most
    /// [`MAX_ENTRY_BYTES`], `OutOfMemory` where there is no memory for it.
    fn read(&self, path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
        let (mut file, metadata) = open_regular(path)?;
        if metadata.len() > MAX_ENTRY_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "file is larger than any entry"));
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(metadata.len() as usize + 1)?;
        file.read_to_end(&mut bytes)?;
        Ok((bytes, metadata))
    }

    /// Writes `parts` one after the other to a new temporary file beside `path` and renames it to `path`.
    /// With `sync`, file and directory are flushed to the disk before and after the renaming.
    ///
    /// # Errors
    /// Those of creating, writing, flushing and renaming; the temporary file is removed then.
    fn write_atomic(&self, path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
        let directory = path.parent().ok_or(io::ErrorKind::InvalidInput)?;
        let mut file = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIX)
            .rand_bytes(12)
            .permissions(Permissions::from_mode(0o644))
            .tempfile_in(directory)?;
        write_all_parts(file.as_file_mut(), parts)?;
        // The kernel's own stamp is only as fine as its tick, too coarse to order uses.
        file.as_file().set_modified(SystemTime::now())?;
        if sync {
            file.as_file().sync_all()?;
        }
        file.persist(path).map_err(|error| error.error)?;
        if sync {
            File::open(directory)?.sync_all()?;
        }
        Ok(())
    }

    /// Creates a directory, with its parents, that only this user can enter. One that exists is left as it is.
    ///
    /// # Errors
    /// Those of creating directories.
    fn create_directory(&self, path: &Path) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(path)
    }

    /// Removes a file.
    ///
    /// # Errors
    /// Those of removing.
    fn remove(&self, path: &Path) -> io::Result<()> {
        std::fs::remove_file(path)
    }

    /// Sets a file's time of last use.
    ///
    /// # Errors
    /// Those of opening the file and setting the time.
    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        open_regular(path)?.0.set_modified(time)
    }

    /// Opens a lock file, creating it if need be.
    ///
    /// # Errors
    /// Those of opening.
    fn open_lock(&self, path: &Path) -> io::Result<File> {
        OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(path)
    }

    /// Tries to take the exclusive lock of a file; the operating system releases it when the process ends.
    ///
    /// # Errors
    /// `WouldBlock` if another holds it, `Error` where there are no locks.
    fn try_lock(&self, file: &File) -> Result<(), TryLockError> {
        file.try_lock()
    }
}

/// How temporary files' names begin.
pub(crate) const TEMPORARY_PREFIX: &str = ".tmp-";

/// The operating system's file operations.
#[derive(Clone, Copy, Debug, Default)]
pub struct OsFileSystem;

impl FileSystem for OsFileSystem {}

/// Opens for reading without blocking on a pipe or device, and refuses all but regular files.
pub(crate) fn open_regular(path: &Path) -> io::Result<(File, Metadata)> {
    let file = OpenOptions::new().read(true).custom_flags(OFlags::NONBLOCK.bits().cast_signed()).open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok((file, metadata))
}

/// Writes the parts one after the other, in one call where the system takes them all.
fn write_all_parts(file: &mut File, parts: &[&[u8]]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = parts.iter().map(|part| IoSlice::new(part)).collect();
    let mut left = slices.as_mut_slice();
    IoSlice::advance_slices(&mut left, 0);
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
