//! Bundles: many entries in one file, to move between machines.
//!
//! ```text
//! "CLUTCHB\n", version (4 bytes, little-endian)
//! for each entry:  1, length (8 bytes), the entry's file
//! at the end:      0, number of entries (8 bytes), blake3 of everything before
//! ```
//!
//! Entries are verified one by one on both sides and named by their own records, so a bundle holds no paths, and
//! what precedes damage is imported.

use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::entry::{EntryError, MAX_ENTRY_BYTES, decode};
use crate::inspect::{EntryInfo, describe};
use crate::layer::LoadError;
use crate::store::Store;

const MAGIC: &[u8; 8] = b"CLUTCHB\n";
const VERSION: u32 = 1;
const ENTRY: u8 = 1;
const END: u8 = 0;

/// A bundle cannot be written or is none.
#[derive(Debug, Error)]
pub enum BundleError {
    /// Reading or writing failed.
    #[error("bundle {}: {source}", path.display())]
    Io {
        /// The bundle, or the stream's stand-in name.
        path: PathBuf,
        /// What the operating system said.
        source: io::Error,
    },
    /// The file is not a bundle.
    #[error("not a cache bundle: wrong magic")]
    Magic,
    /// A later version of Clutch wrote it.
    #[error("cache bundle has version {found}, this build reads version {VERSION}")]
    Version {
        /// The version in the file.
        found: u32,
    },
    /// There is nowhere to import to.
    #[error("the store has no local directory to import into")]
    NoDirectory,
}

/// What an export did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExportReport {
    /// Entries written.
    pub exported: u64,
    /// Bytes of the bundle.
    pub bytes: u64,
    /// Selected entries that are not sound and were left out.
    pub skipped: u64,
}

/// What an import did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ImportReport {
    /// Entries written to the local directory.
    pub imported: u64,
    /// Entries that were there already.
    pub present: u64,
    /// Damaged entries left out.
    pub corrupt: u64,
    /// Entries of a later format version left out.
    pub future_version: u64,
    /// Sound entries that could not be written.
    pub failed: u64,
    /// Bytes of the imported entries' files.
    pub bytes: u64,
    /// Whether the bundle was read to its end and its digest matches; otherwise it was cut off or damaged.
    pub complete: bool,
}

impl Store {
    /// Writes the entries of all directories that `select` takes, by key, to a stream. An entry in several
    /// directories is written once. Exporting does not count as use.
    ///
    /// # Errors
    /// [`BundleError::Io`] if the stream cannot be written.
    pub fn export(&self, out: &mut dyn Write, select: &mut dyn FnMut(&EntryInfo) -> bool) -> Result<ExportReport, BundleError> {
        self.export_with(out, select, &mut |_, _| true)
    }

    fn export_with(
        &self,
        out: &mut dyn Write,
        select: &mut dyn FnMut(&EntryInfo) -> bool,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<ExportReport, BundleError> {
        let failed = |source| BundleError::Io { path: "<stream>".into(), source };
        let mut out = Digesting::new(out);
        let mut report = ExportReport::default();
        out.write_all(MAGIC).map_err(failed)?;
        out.write_all(&VERSION.to_le_bytes()).map_err(failed)?;

        let mut chosen = std::collections::BTreeMap::new();
        for (id, layer) in self.layers() {
            for found in self.inner.walk(layer) {
                match describe(&found, &id, layer) {
                    Some(Ok(info)) if select(&info) => {
                        chosen.entry((info.key, info.record.kind())).or_insert((layer, info.record));
                    }
                    Some(Err(_)) => report.skipped += 1,
                    Some(Ok(_)) | None => {}
                }
            }
        }
        let total = chosen.len() as u64;
        for (done, ((key, _), (layer, record))) in chosen.into_iter().enumerate() {
            if !progress(done as u64, total) {
                return Err(failed(io::ErrorKind::Interrupted.into()));
            }
            let bytes = match layer.load_with_bytes(self.inner.fs.as_ref(), &key, &record) {
                Ok((_, bytes)) if record.key() == key => bytes,
                Err(LoadError::Absent) => continue,
                Ok(_) | Err(_) => {
                    report.skipped += 1;
                    continue;
                }
            };
            out.write_all(&[ENTRY]).map_err(failed)?;
            out.write_all(&(bytes.len() as u64).to_le_bytes()).map_err(failed)?;
            out.write_all(&bytes).map_err(failed)?;
            report.exported += 1;
        }
        out.write_all(&[END]).map_err(failed)?;
        out.write_all(&report.exported.to_le_bytes()).map_err(failed)?;
        report.bytes = out.finish().map_err(failed)?;
        Ok(report)
    }

    /// Exports to a file, which appears whole or not at all.
    ///
    /// # Errors
    /// [`BundleError::Io`] if the file cannot be written.
    pub fn export_file(&self, path: &Path, select: &mut dyn FnMut(&EntryInfo) -> bool) -> Result<ExportReport, BundleError> {
        self.export_file_with(path, select, &mut |_, _| true)
    }

    /// As [`Store::export_file`], telling `progress` before each entry how many were written and how many there are; it ends the
    /// work, which leaves no file, by returning false.
    ///
    /// # Errors
    /// As [`Store::export_file`].
    pub fn export_file_with(
        &self,
        path: &Path,
        select: &mut dyn FnMut(&EntryInfo) -> bool,
        progress: &mut dyn FnMut(u64, u64) -> bool,
    ) -> Result<ExportReport, BundleError> {
        let failed = |source| BundleError::Io { path: path.into(), source };
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let file = tempfile::NamedTempFile::new_in(folder).map_err(failed)?;
        let mut buffered = io::BufWriter::with_capacity(1 << 20, file);
        let report = self.export_with(&mut buffered, select, progress).map_err(|error| match error {
            BundleError::Io { source, .. } => failed(source),
            other => other,
        })?;
        let file = buffered.into_inner().map_err(|error| failed(error.into_error()))?;
        file.persist(path).map_err(|error| failed(error.error))?;
        Ok(report)
    }

    /// Reads a bundle into the local directory, verifying every entry. Damaged entries are left out and counted;
    /// a bundle that ends early is reported as not complete.
    ///
    /// # Errors
    /// [`BundleError`] if the stream is not a bundle of this version or there is no local directory.
    pub fn import(&self, source: &mut dyn Read) -> Result<ImportReport, BundleError> {
        self.import_with(source, &mut |_| true)
    }

    fn import_with(&self, source: &mut dyn Read, progress: &mut dyn FnMut(u64) -> bool) -> Result<ImportReport, BundleError> {
        let layer = self.inner.local.as_ref().ok_or(BundleError::NoDirectory)?;
        let mut source = DigestingReader { source, hasher: blake3::Hasher::new() };
        if source.array::<8>() != Some(*MAGIC) {
            return Err(BundleError::Magic);
        }
        match source.array().map(u32::from_le_bytes) {
            Some(VERSION) => {}
            Some(found) => return Err(BundleError::Version { found }),
            None => return Err(BundleError::Magic),
        }
        let mut report = ImportReport::default();
        let (mut read, mut bytes_read) = (0_u64, 0_u64);
        while let Some([tag]) = source.array::<1>() {
            let Some(number) = source.array().map(u64::from_le_bytes) else { break };
            if tag == END {
                let computed = *source.hasher.finalize().as_bytes();
                report.complete = number == read && source.array::<32>() == Some(computed);
                break;
            }
            if tag != ENTRY || number > MAX_ENTRY_BYTES {
                break;
            }
            let Some(bytes) = source.bytes(number) else { break };
            read += 1;
            bytes_read += number;
            if !progress(bytes_read) {
                break;
            }
            match decode(&bytes) {
                Ok(entry) => {
                    let (key, kind) = (entry.record.key(), entry.record.kind());
                    if layer.load(self.inner.fs.as_ref(), &key, &entry.record).is_ok() {
                        report.present += 1;
                    } else if self.inner.write_local(&key, kind, &[&bytes], number) {
                        report.imported += 1;
                        report.bytes += number;
                    } else {
                        report.failed += 1;
                    }
                }
                Err(EntryError::FutureVersion { .. }) => report.future_version += 1,
                Err(_) => report.corrupt += 1,
            }
        }
        Ok(report)
    }

    /// Imports from a file.
    ///
    /// # Errors
    /// As [`Store::import`]; [`BundleError::Io`] if the file cannot be opened.
    pub fn import_file(&self, path: &Path) -> Result<ImportReport, BundleError> {
        self.import_file_with(path, &mut |_| true)
    }

    /// As [`Store::import_file`], telling `progress` before each entry how many bytes of entries were read; it ends the work, which
    /// keeps what was imported, by returning false.
    ///
    /// # Errors
    /// As [`Store::import_file`].
    pub fn import_file_with(&self, path: &Path, progress: &mut dyn FnMut(u64) -> bool) -> Result<ImportReport, BundleError> {
        let file = std::fs::File::open(path).map_err(|source| BundleError::Io { path: path.into(), source })?;
        self.import_with(&mut io::BufReader::with_capacity(1 << 20, file), progress)
    }
}

/// A writer that digests what goes through.
struct Digesting<'a> {
    out: &'a mut dyn Write,
    hasher: blake3::Hasher,
    bytes: u64,
}

impl<'a> Digesting<'a> {
    fn new(out: &'a mut dyn Write) -> Self {
        Self { out, hasher: blake3::Hasher::new(), bytes: 0 }
    }

    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.bytes += bytes.len() as u64;
        self.out.write_all(bytes)
    }

    fn finish(self) -> io::Result<u64> {
        let digest = self.hasher.finalize();
        self.out.write_all(digest.as_bytes())?;
        self.out.flush()?;
        Ok(self.bytes + digest.as_bytes().len() as u64)
    }
}

/// A reader that digests what goes through; an error reads as the end.
struct DigestingReader<'a> {
    source: &'a mut dyn Read,
    hasher: blake3::Hasher,
}

impl DigestingReader<'_> {
    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        self.source.read_exact(&mut bytes).ok()?;
        self.hasher.update(&bytes);
        Some(bytes)
    }

    /// Memory grows with what is really there, whatever the length says.
    fn bytes(&mut self, count: u64) -> Option<Vec<u8>> {
        let mut bytes = Vec::new();
        let got = self.source.take(count).read_to_end(&mut bytes).ok()?;
        self.hasher.update(&bytes);
        (got as u64 == count).then_some(bytes)
    }
}
