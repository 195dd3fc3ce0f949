//! Keeping the local directory under its bound, the least recently used entries going first.
//!
//! A file's modification time is its time of last use. Each process keeps an estimate of the total: counted at its
//! first write, added to by its own writes, and counted anew once it has written a sixteenth of the bound since, so
//! the writes of N processes exceed the bound by N sixteenths at most before one of them notices. Eviction goes down to
//! nine tenths of the bound, in one process at a time, and may remove what another process is reading: its open
//! file stays whole. Times in the future, left by a clock that was set back, are set to now when seen, so such an
//! entry ages like the others; a clock that jumps forward leaves the order of use as it is.

use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use crate::layer::{Found, Layer};
use crate::lock::KeyLock;
use crate::stats::Failure;
use crate::store::{Inner, Store};

/// Temporary files this much older or newer than now were left by a process that died.
const STALE_TEMPORARY: Duration = Duration::from_secs(3600);
/// Clocks of hosts on one file system may differ this much.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(60);

/// The running estimate of the local directory's size.
#[derive(Debug, Default)]
pub(crate) struct SizeEstimate(Mutex<Estimate>);

#[derive(Debug, Default)]
struct Estimate {
    total: Option<u64>,
    since_count: u64,
}

/// What pruning did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PruneReport {
    /// Entries removed.
    pub removed: u64,
    /// Bytes of the removed entries' files.
    pub removed_bytes: u64,
    /// Entries left.
    pub remaining: u64,
    /// Bytes of the entries left.
    pub remaining_bytes: u64,
    /// Temporary files of dead processes that were removed.
    pub temporaries: u64,
    /// Lock files nobody held that were removed.
    pub locks: u64,
}

impl Store {
    /// Removes the least recently used entries of the local directory until at most `bytes` bytes are left, and
    /// what dead processes left behind.
    pub fn prune(&self, bytes: u64) -> PruneReport {
        let Some(layer) = &self.inner.local else { return PruneReport::default() };
        let report = self.inner.sweep(layer, bytes, None);
        self.inner.size.set(report.remaining_bytes);
        report
    }
}

impl SizeEstimate {
    fn set(&self, total: u64) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Estimate { total: Some(total), since_count: 0 };
    }
}

impl Inner {
    /// Adds a write to the estimate, and counts or evicts if due. The file just written is kept.
    pub(crate) fn account(&self, layer: &Layer, bytes: u64, written: &Path) {
        let mut estimate = self.size.0.lock().unwrap_or_else(PoisonError::into_inner);
        estimate.since_count += bytes;
        estimate.total = estimate.total.map(|total| total + bytes);
        let due = estimate.total.is_none_or(|total| total > self.max_bytes) || estimate.since_count > self.max_bytes / 16;
        if !due {
            return;
        }
        let total = self.walk(layer).iter().map(|found| found.bytes).sum();
        *estimate = Estimate { total: Some(total), since_count: 0 };
        if total > self.max_bytes {
            let evicting = KeyLock::try_named(layer, self.fs.as_ref(), "evict");
            if !matches!(evicting, Ok(None)) {
                let report = self.sweep(layer, self.max_bytes / 10 * 9, Some(written));
                estimate.total = Some(report.remaining_bytes);
                self.counters.add(&self.counters.evictions, report.removed);
                self.counters.add(&self.counters.evicted_bytes, report.removed_bytes);
            }
        }
    }

    pub(crate) fn walk(&self, layer: &Layer) -> Vec<Found> {
        layer.walk(&mut |path, error| self.counters.failed(Failure::Evict, path, &error))
    }

    fn sweep(&self, layer: &Layer, bytes: u64, keep: Option<&Path>) -> PruneReport {
        let now = SystemTime::now();
        let mut report = PruneReport { locks: KeyLock::remove_unheld(layer, self.fs.as_ref()), ..PruneReport::default() };
        let mut entries = Vec::new();
        for mut found in self.walk(layer) {
            if found.temporary {
                if is_stale_temporary(&found, now) && self.remove(&found.path) {
                    report.temporaries += 1;
                }
            } else if found.name.is_some() {
                if found.modified > now + CLOCK_TOLERANCE {
                    found.modified = now;
                    // Failing to correct the time costs the entry its place in the order, nothing else.
                    let _ = self.fs.touch(&found.path, now);
                }
                report.remaining += 1;
                report.remaining_bytes += found.bytes;
                entries.push(found);
            }
        }
        entries.sort_by(|a, b| a.modified.cmp(&b.modified).then_with(|| a.path.cmp(&b.path)));
        for found in entries {
            if report.remaining_bytes <= bytes {
                break;
            }
            if keep != Some(found.path.as_path()) && self.remove(&found.path) {
                report.removed += 1;
                report.removed_bytes += found.bytes;
                report.remaining -= 1;
                report.remaining_bytes -= found.bytes;
            }
        }
        report
    }
}

/// Whether a temporary file was left by a process that died, going by its age.
pub(crate) fn is_stale_temporary(found: &Found, now: SystemTime) -> bool {
    let distance = now.duration_since(found.modified).unwrap_or_else(|ahead| ahead.duration());
    found.temporary && distance > STALE_TEMPORARY
}
