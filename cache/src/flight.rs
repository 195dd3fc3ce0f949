//! Single flight: of all threads and processes that want one key, one produces the entry and the others wait.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::entry::{Entry, Metadata};
use crate::key::{Key, KeyRecord};
use crate::lock::KeyLock;
use crate::stats::Failure;
use crate::store::{Inner, Store};

/// Waiting for another process polls its lock, at first this often, then less and less.
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(50);

/// What became of a request for an entry.
#[derive(Debug)]
pub enum Flight {
    /// The entry, found or produced by another thread or process meanwhile.
    Hit(Entry),
    /// Nobody has it: the caller produces it and hands it to the guard.
    Lead(LeadGuard),
    /// Another thread or process was still producing it at the time limit.
    TimedOut,
}

/// The right to produce one entry. Dropping it without [`LeadGuard::publish`] lets a waiter take over.
#[derive(Debug)]
pub struct LeadGuard {
    store: Store,
    record: KeyRecord,
    // Released in this order: the file's lock first, so that a woken thread finds it free.
    lock: Option<KeyLock>,
    seat: Seat,
}

impl LeadGuard {
    /// What the entry is to be the result of.
    #[must_use]
    pub fn record(&self) -> &KeyRecord {
        &self.record
    }

    /// Whether other processes are kept waiting; `false` where the file system has no locks.
    #[must_use]
    pub fn is_exclusive(&self) -> bool {
        self.lock.is_some()
    }

    /// Puts the entry and lets all waiters have it, threads of this process even where writing fails. Returns
    /// whether it was written to the local directory.
    pub fn publish(self, metadata: &Metadata, payload: &[u8]) -> bool {
        let written = self.store.put(&self.record, metadata, payload);
        self.seat.slot.offer(|| Entry { record: self.record.clone(), metadata: metadata.clone(), payload: payload.to_vec() });
        written
    }
}

impl Store {
    /// Looks an entry up; if there is none, leads its production or waits at most `timeout` for who does. Counts
    /// one hit or one miss.
    ///
    /// The guard must not be held while asking for the same key again in the same thread: that waits for itself.
    #[must_use]
    pub fn lead_or_wait(&self, record: &KeyRecord, timeout: Duration) -> Flight {
        let inner = &self.inner;
        let key = record.key();
        let flight = match inner.lookup(record, &key) {
            Some(entry) => Flight::Hit(entry),
            None => self.join(record, key, Instant::now().checked_add(timeout)),
        };
        match &flight {
            Flight::Hit(entry) => inner.count_lookup(Some(entry)),
            Flight::Lead(_) => {
                inner.count_lookup(None);
                inner.counters.add(&inner.counters.leads, 1);
            }
            Flight::TimedOut => {
                inner.count_lookup(None);
                inner.counters.add(&inner.counters.wait_timeouts, 1);
            }
        }
        flight
    }

    fn join(&self, record: &KeyRecord, key: Key, deadline: Option<Instant>) -> Flight {
        let inner = &self.inner;
        let mut wait = Wait { inner, deadline, waited: false };
        loop {
            match inner.slots.sit(self, key) {
                Ok(seat) => {
                    let lock = match inner.lock_or_entry(record, &key, &mut wait) {
                        Locking::Held(lock) => Some(lock),
                        Locking::Unavailable => None,
                        Locking::Found(entry) => return seat.hit(entry),
                        Locking::TimedOut => return Flight::TimedOut,
                    };
                    // Someone may have finished between the look-up and the locking.
                    if let Some(entry) = inner.lookup_local(record, &key) {
                        drop(lock);
                        return seat.hit(entry);
                    }
                    if wait.waited {
                        inner.counters.add(&inner.counters.takeovers, 1);
                    }
                    return Flight::Lead(LeadGuard { store: self.clone(), record: record.clone(), lock, seat });
                }
                Err(slot) => {
                    wait.begin();
                    match slot.wait(deadline) {
                        Ended::With(entry) if entry.record == *record => {
                            inner.counters.add(&inner.counters.hits_joined, 1);
                            return Flight::Hit(entry);
                        }
                        Ended::With(_) | Ended::Without => {}
                        Ended::NotYet => return Flight::TimedOut,
                    }
                }
            }
        }
    }
}

/// One caller's waiting: counted once, limited in time.
struct Wait<'a> {
    inner: &'a Inner,
    deadline: Option<Instant>,
    waited: bool,
}

impl Wait<'_> {
    fn begin(&mut self) {
        if !self.waited {
            self.waited = true;
            self.inner.counters.add(&self.inner.counters.waits, 1);
        }
    }

    /// Sleeps for a pause, or gives `false` if the time is up.
    fn pause(&self, pause: Duration) -> bool {
        let left = self.deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left == Some(Duration::ZERO) {
            return false;
        }
        std::thread::sleep(left.map_or(pause, |left| left.min(pause)));
        true
    }
}

enum Locking {
    Held(KeyLock),
    Found(Entry),
    Unavailable,
    TimedOut,
}

impl Inner {
    /// Takes the key's lock, or finds the entry while another process holds it.
    fn lock_or_entry(&self, record: &KeyRecord, key: &Key, wait: &mut Wait<'_>) -> Locking {
        let Some(layer) = &self.local else { return Locking::Unavailable };
        let name = format!("{key}.{}", record.kind());
        let mut pause = FIRST_PAUSE;
        loop {
            match KeyLock::try_named(layer, self.fs.as_ref(), &name) {
                Ok(Some(lock)) => return Locking::Held(lock),
                Ok(None) => {}
                Err(error) => {
                    self.counters.failed(Failure::Lock, &layer.lock_folder().join(name), &error);
                    return Locking::Unavailable;
                }
            }
            wait.begin();
            if layer.entry_path(key, record.kind()).exists()
                && let Some(entry) = self.lookup_local(record, key)
            {
                return Locking::Found(entry);
            }
            if !wait.pause(pause) {
                return Locking::TimedOut;
            }
            pause = (pause * 3 / 2).min(LONGEST_PAUSE);
        }
    }
}

/// The keys being produced or waited for in this process.
#[derive(Debug, Default)]
pub(crate) struct Slots(Mutex<BTreeMap<Key, Arc<Slot>>>);

impl Slots {
    /// The one seat of a key, or the slot of the thread that has it.
    fn sit(&self, store: &Store, key: Key) -> Result<Seat, Arc<Slot>> {
        let mut slots = held(&self.0);
        // In a forked child, the parent's other threads and their seats are not there.
        let process = std::process::id();
        if let Some(slot) = slots.get(&key).filter(|slot| slot.process == process) {
            return Err(slot.clone());
        }
        let slot = Arc::new(Slot { process, state: Mutex::default(), changed: Condvar::new() });
        slots.insert(key, slot.clone());
        Ok(Seat { store: store.clone(), key, slot })
    }
}

/// One thread's production of one key, and what came of it.
#[derive(Debug)]
struct Slot {
    process: u32,
    state: Mutex<SlotState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct SlotState {
    waiting: usize,
    over: bool,
    entry: Option<Entry>,
}

enum Ended {
    With(Entry),
    Without,
    NotYet,
}

impl Slot {
    /// Keeps the entry for those who wait, if any do.
    fn offer(&self, entry: impl FnOnce() -> Entry) {
        let mut state = held(&self.state);
        if state.waiting > 0 {
            state.entry = Some(entry());
        }
    }

    fn wait(&self, deadline: Option<Instant>) -> Ended {
        let mut state = held(&self.state);
        state.waiting += 1;
        while !state.over {
            state = match deadline.map(|deadline| deadline.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => {
                    state.waiting -= 1;
                    return Ended::NotYet;
                }
                Some(left) => self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
        }
        state.waiting -= 1;
        state.entry.clone().map_or(Ended::Without, Ended::With)
    }
}

/// The right of one thread to produce or fetch a key; the slot is over when it is dropped.
#[derive(Debug)]
struct Seat {
    store: Store,
    key: Key,
    slot: Arc<Slot>,
}

impl Seat {
    fn hit(self, entry: Entry) -> Flight {
        self.slot.offer(|| entry.clone());
        Flight::Hit(entry)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut slots = held(&self.store.inner.slots.0);
        if slots.get(&self.key).is_some_and(|slot| Arc::ptr_eq(slot, &self.slot)) {
            slots.remove(&self.key);
        }
        drop(slots);
        held(&self.slot.state).over = true;
        self.slot.changed.notify_all();
    }
}

/// Locks; a panic elsewhere leaves these maps and flags whole.
fn held<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
