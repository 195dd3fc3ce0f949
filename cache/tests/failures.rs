//! Nothing that goes wrong with files fails a caller: each failure is a counted miss, warned about once.

mod common;

use std::fs::{self, Metadata};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::SystemTime;

use clutch_cache::{DirectoryError, FileSystem, Flight, Store, StoreOptions};
use common::{FAR, directory, metadata, open, payload, record};
use pretty_assertions::assert_eq;
use tracing::span;

/// Fails the operations it is made to fail, with the error of this number.
#[derive(Debug, Default)]
struct Failing {
    read: Option<i32>,
    write: Option<i32>,
    create: Option<i32>,
    remove: Option<i32>,
    touch: Option<i32>,
    lock: Option<i32>,
}

fn fail(error: Option<i32>) -> io::Result<()> {
    error.map_or(Ok(()), |code| Err(io::Error::from_raw_os_error(code)))
}

const PERMISSION: i32 = 13;
const NO_SPACE: i32 = 28;
const READ_ONLY: i32 = 30;
const STALE_HANDLE: i32 = 116;
const IO: i32 = 5;

impl FileSystem for Failing {
    fn read(&self, path: &Path) -> io::Result<(Vec<u8>, Metadata)> {
        fail(self.read)?;
        clutch_cache::OsFileSystem.read(path)
    }

    fn write_atomic(&self, path: &Path, parts: &[&[u8]], sync: bool) -> io::Result<()> {
        fail(self.write)?;
        clutch_cache::OsFileSystem.write_atomic(path, parts, sync)
    }

    fn create_directory(&self, path: &Path) -> io::Result<()> {
        fail(self.create)?;
        clutch_cache::OsFileSystem.create_directory(path)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fail(self.remove)?;
        clutch_cache::OsFileSystem.remove(path)
    }

    fn touch(&self, path: &Path, time: SystemTime) -> io::Result<()> {
        fail(self.touch)?;
        clutch_cache::OsFileSystem.touch(path, time)
    }

    fn open_lock(&self, path: &Path) -> io::Result<fs::File> {
        fail(self.lock)?;
        clutch_cache::OsFileSystem.open_lock(path)
    }
}

fn failing(dir: &Path, file_system: Failing) -> Store {
    Store::open(StoreOptions { file_system: Arc::new(file_system), ..StoreOptions::new(dir) }).expect("opens")
}

/// Counts warnings.
struct Warnings(Arc<AtomicUsize>);

impl tracing::Subscriber for Warnings {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }
    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}
    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}
    fn event(&self, event: &tracing::Event<'_>) {
        assert_eq!(*event.metadata().level(), tracing::Level::WARN);
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &span::Id) {}
    fn exit(&self, _: &span::Id) {}
}

fn warnings(run: impl FnOnce()) -> usize {
    let count = Arc::new(AtomicUsize::new(0));
    tracing::subscriber::with_default(Warnings(count.clone()), run);
    count.load(Ordering::Relaxed)
}

#[test]
fn a_full_or_read_only_disk_is_counted_and_the_result_still_reaches_the_waiters() {
    for code in [NO_SPACE, READ_ONLY, PERMISSION, IO] {
        let dir = directory();
        let store = failing(dir.path(), Failing { write: Some(code), ..Failing::default() });
        let Flight::Lead(guard) = store.lead_or_wait(&record("a"), FAR) else { panic!("nobody else is there") };
        std::thread::scope(|scope| {
            let waiter = scope.spawn(|| store.lead_or_wait(&record("a"), FAR));
            while store.stats().waits == 0 {
                std::thread::yield_now();
            }
            assert!(!guard.publish(&metadata(), b"x"));
            assert!(matches!(waiter.join().expect("does not panic"), Flight::Hit(entry) if entry.payload == b"x"));
        });
        let stats = store.stats();
        assert_eq!((stats.put_failures, stats.io_errors, stats.puts), (1, 1, 0), "error {code}");
        assert!(store.get(&record("a")).is_none());
    }
}

#[test]
fn failing_reads_are_misses_and_remove_nothing() {
    let dir = directory();
    open(dir.path()).put(&record("a"), &metadata(), b"x");
    for code in [PERMISSION, IO, STALE_HANDLE] {
        let store = failing(dir.path(), Failing { read: Some(code), ..Failing::default() });
        assert!(store.get(&record("a")).is_none());
        assert_eq!((store.stats().io_errors, store.stats().misses, store.stats().corrupt), (1, 1, 0), "error {code}");
        assert_eq!(store.verify(true).bad.iter().filter(|bad| bad.removed).count(), 0);
    }
    assert!(open(dir.path()).get(&record("a")).is_some());
}

#[test]
fn where_nothing_can_be_written_entries_are_still_read() {
    let dir = directory();
    let prepared = open(dir.path());
    prepared.put(&record("a"), &metadata(), b"x");
    let path = prepared.entry_path(&record("a")).expect("has a directory");
    fs::File::open(&path).expect("is there").set_modified(SystemTime::UNIX_EPOCH).expect("is ours");
    let read_only = || Failing {
        write: Some(READ_ONLY),
        create: Some(READ_ONLY),
        remove: Some(READ_ONLY),
        touch: Some(READ_ONLY),
        lock: Some(READ_ONLY),
        ..Failing::default()
    };
    let store = failing(dir.path(), read_only());
    assert!(store.get(&record("a")).is_some(), "though its use cannot be written down");
    assert_eq!(store.stats().io_errors, 1);
    let Flight::Lead(guard) = store.lead_or_wait(&record("b"), FAR) else { panic!("nobody else is there") };
    assert!(!guard.is_exclusive());
    assert!(!guard.publish(&metadata(), b"x"));
    assert_eq!((store.stats().lock_unavailable, store.stats().put_failures), (1, 1));

    fs::write(&path, b"damage").expect("writes");
    assert!(store.get(&record("a")).is_none() && store.get(&record("a")).is_none(), "damage that cannot be removed");
    assert_eq!(store.stats().corrupt, 2);
    let absent = dir.path().join("absent");
    let options = StoreOptions { file_system: Arc::new(read_only()), ..StoreOptions::new(&absent) };
    assert!(matches!(Store::open(options.clone()), Err(DirectoryError::Io { .. })));
    assert_eq!(Store::open_or_without(options).stats().refused_directories, 1);
}

#[test]
fn a_file_in_the_place_of_a_folder_is_survived() {
    let dir = directory();
    let root = dir.path().join("cache");
    fs::write(&root, "a file").expect("writes");
    let options = StoreOptions::new(&root);
    assert!(matches!(Store::open(options.clone()), Err(DirectoryError::Io { .. } | DirectoryError::NotADirectory { .. })));
    let store = Store::open_or_without(options);
    assert!(store.get(&record("a")).is_none() && !store.put(&record("a"), &metadata(), b"x"));

    let store = open(&dir.path().join("other"));
    let shard = store.entry_path(&record("a")).expect("has a directory").parent().expect("has a shard").to_owned();
    fs::write(&shard, "a file").expect("writes");
    assert!(store.get(&record("a")).is_none() && !store.put(&record("a"), &metadata(), b"x"));
    assert_eq!((store.stats().io_errors, store.stats().put_failures), (2, 1));
    fs::write(dir.path().join("other/v1/locks"), "a file").expect("writes");
    assert!(matches!(store.lead_or_wait(&record("b"), FAR), Flight::Lead(guard) if !guard.is_exclusive()));
}

#[test]
fn a_directory_removed_meanwhile_is_made_again() {
    let dir = directory();
    let root = dir.path().join("cache");
    let store = open(&root);
    store.put(&record("a"), &metadata(), b"x");
    fs::remove_dir_all(&root).expect("removes");
    assert!(store.get(&record("a")).is_none());
    let Flight::Lead(guard) = store.lead_or_wait(&record("a"), FAR) else { panic!("nobody else is there") };
    assert!(guard.publish(&metadata(), b"x"));
    assert!(open(&root).get(&record("a")).is_some());
    assert_eq!(store.stats().io_errors, 0);
}

#[test]
fn entries_that_cannot_be_evicted_do_not_stop_writing() {
    let dir = directory();
    let file_system = Arc::new(Failing { remove: Some(PERMISSION), ..Failing::default() });
    let store = Store::open(StoreOptions { max_bytes: 100_000, file_system, ..StoreOptions::new(dir.path()) }).expect("opens");
    for index in 0..10 {
        assert!(store.put(&record(&index.to_string()), &metadata(), &payload(index, 30_000)));
    }
    assert_eq!(store.stats().evictions, 0);
    assert!(store.stats().io_errors > 0);
}

#[test]
fn each_kind_of_failure_warns_once() {
    let dir = directory();
    let count = warnings(|| {
        let store = failing(dir.path(), Failing { write: Some(NO_SPACE), ..Failing::default() });
        for index in 0..20 {
            assert!(!store.put(&record(&index.to_string()), &metadata(), b"x"));
        }
    });
    assert_eq!(count, 1);
    let count = warnings(|| {
        let store = failing(dir.path(), Failing { write: Some(NO_SPACE), read: Some(IO), ..Failing::default() });
        for index in 0..20 {
            assert!(store.get(&record(&index.to_string())).is_none());
            assert!(!store.put(&record(&index.to_string()), &metadata(), b"x"));
        }
        assert_eq!((store.stats().io_errors, store.stats().misses), (40, 20));
    });
    assert_eq!(count, 2);
    let count = warnings(|| {
        let store = open(dir.path());
        assert!(store.get(&record("a")).is_none() && store.put(&record("a"), &metadata(), b"x") && store.get(&record("a")).is_some());
    });
    assert_eq!(count, 0, "an ordinary miss is no failure");
}
