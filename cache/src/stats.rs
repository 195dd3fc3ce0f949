//! Counters of what the store did, and the one warning for each kind of failure.

use std::fmt::Display;
use std::path::Path;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Counts since the store was opened, in this process. All are events unless the name says bytes.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct StoreStats {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl StoreStats {
            /// Every counter with its name, in declaration order.
            #[must_use]
            pub fn named(&self) -> Vec<(&'static str, u64)> {
                vec![$((stringify!($name), self.$name),)*]
            }
        }

        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $name: AtomicU64,)*
            warned: AtomicU32,
        }

        impl Counters {
            pub(crate) fn snapshot(&self) -> StoreStats {
                StoreStats { $($name: self.$name.load(Ordering::Relaxed),)* }
            }
        }
    };
}

counters! {
    /// Look-ups that returned an entry.
    hits,
    /// Hits found in the local directory.
    hits_local,
    /// Hits found in a shared directory.
    hits_shared,
    /// Hits found in the remote.
    hits_remote,
    /// Hits handed over by a leader in this process.
    hits_joined,
    /// Look-ups that returned none, for whatever reason.
    misses,
    /// Payload bytes of all hits.
    hit_bytes,
    /// Entries written to the local directory.
    puts,
    /// Bytes of the files written by puts.
    put_bytes,
    /// Entries that could not be written.
    put_failures,
    /// Entries not written because one alone is above the bound or the format's limits.
    too_large,
    /// Entries copied from a shared directory or the remote to the local one.
    copied_down,
    /// Damaged entries met, each a miss; removed from the local directory.
    corrupt,
    /// Sound entries holding another record than their name says, each a miss; removed from the local directory.
    foreign,
    /// Entries of a later format version met, each a miss; left as they are.
    future_version,
    /// Files not read because another user owns or can write them, each a miss.
    untrusted,
    /// File operations that failed, other than for an absent entry.
    io_errors,
    /// Operations of the remote that failed.
    remote_errors,
    /// Directories refused when the store was opened.
    refused_directories,
    /// Entries evicted to stay under the bound.
    evictions,
    /// Bytes freed by eviction.
    evicted_bytes,
    /// Times this process was asked to produce an entry.
    leads,
    /// Times a caller waited for another thread or process.
    waits,
    /// Waits given up at their time limit.
    wait_timeouts,
    /// Leads taken over from a leader that ended without an entry.
    takeovers,
    /// Leads without a lock, because the file system has none.
    lock_unavailable,
}

/// Kinds of failure, each warned about once.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Failure {
    Directory,
    Read,
    Write,
    TooLarge,
    Touch,
    Remove,
    Evict,
    Lock,
    Corrupt,
    Foreign,
    FutureVersion,
    Untrusted,
    Remote,
}

impl Counters {
    pub(crate) fn add(&self, counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    /// Counts a failure of this kind and warns if it is the first.
    pub(crate) fn failed(&self, kind: Failure, subject: &Path, error: &dyn Display) {
        let counter = match kind {
            Failure::Directory => &self.refused_directories,
            Failure::Write => &self.put_failures,
            Failure::TooLarge => &self.too_large,
            Failure::Corrupt => &self.corrupt,
            Failure::Foreign => &self.foreign,
            Failure::FutureVersion => &self.future_version,
            Failure::Untrusted => &self.untrusted,
            Failure::Remote => &self.remote_errors,
            Failure::Lock => &self.lock_unavailable,
            Failure::Read | Failure::Touch | Failure::Remove | Failure::Evict => &self.io_errors,
        };
        self.add(counter, 1);
        if matches!(kind, Failure::Write) {
            self.add(&self.io_errors, 1);
        }
        let bit = 1_u32 << kind as u32;
        if self.warned.fetch_or(bit, Ordering::Relaxed) & bit == 0 {
            tracing::warn!(
                kind = ?kind, subject = %subject.display(), %error,
                "compile cache: going on without it; further failures of this kind are counted, not logged"
            );
        }
    }
}
