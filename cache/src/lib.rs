//! The persistent compile cache of Clutch. It knows bytes and what they are the result of, not graphs.
//!
//! - [`KeyRecord`] lists what a result depends on; its digest is the [`Key`] that names the entry's file.
//! - An entry is one self-checking file holding the full record, labels and the compressed payload ([`entry`]).
//! - [`Store`] asks a read-write directory, then read-only ones, then a [`Remote`]; writing is a temporary file and
//!   a rename; the directory is bounded, the least recently used entries going first.
//! - [`Store::lead_or_wait`] lets one thread of one process produce an entry while the others wait for it.
//! - Every failure is a counted miss ([`StoreStats`]), warned about once for each kind.
//!
//! What happens to an entry that cannot be used: damaged ones, and sound ones holding another record than asked for, are removed
//! from the local directory; those of a later format version and files of other users are left as they are; shared
//! directories are never written to.

mod bundle;
mod directory;
pub mod entry;
mod evict;
mod explain;
mod flight;
mod fs;
mod inspect;
mod key;
mod layer;
mod lock;
#[cfg(feature = "remote")]
mod object_remote;
mod remote;
mod stats;
mod store;

pub use bundle::{BundleError, ExportReport, ImportReport};
pub use directory::{DirectoryEnvironment, DirectoryError, default_directory, shared_directories};
pub use entry::{Entry, EntryError, EntryHeader, Metadata};
pub use evict::PruneReport;
pub use explain::{Explanation, Nearest};
pub use flight::{Flight, LeadGuard};
pub use fs::{FileSystem, OsFileSystem};
pub use inspect::{BadEntry, EntryInfo, Listing, Problem, Usage, VerifyReport};
pub use key::{FieldDifference, FieldValue, InvalidKey, Key, KeyKind, KeyRecord};
#[cfg(feature = "remote")]
pub use object_remote::ObjectRemote;
pub use remote::{Remote, RemoteError};
pub use stats::StoreStats;
pub use store::{DEFAULT_MAX_BYTES, LayerId, Store, StoreOptions};
