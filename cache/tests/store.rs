//! Putting and getting through the layers, and entries that must never be loaded.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use clutch_cache::{DirectoryError, KeyKind, KeyRecord, Remote, RemoteError, Store, StoreOptions};
use common::{directory, metadata, open, payload, record};
use pretty_assertions::assert_eq;

#[test]
fn what_was_put_is_got_by_any_store_of_the_directory() {
    let dir = directory();
    let store = open(dir.path());
    assert!(store.get(&record("a")).is_none());
    assert!(store.put(&record("a"), &metadata(), &payload(1, 5000)));
    for store in [store.clone(), open(dir.path())] {
        let entry = store.get(&record("a")).expect("was put");
        assert_eq!((entry.record, entry.metadata, entry.payload), (record("a"), metadata(), payload(1, 5000)));
    }
    let stats = store.stats();
    assert_eq!((stats.hits, stats.hits_local, stats.misses, stats.puts, stats.hit_bytes), (1, 1, 1, 1, 5000));
    assert!(store.get(&record("b")).is_none());
}

#[test]
fn a_moved_directory_still_hits() {
    let dir = directory();
    open(&dir.path().join("first")).put(&record("a"), &metadata(), b"x");
    fs::rename(dir.path().join("first"), dir.path().join("second")).expect("renames");
    assert!(open(&dir.path().join("second")).get(&record("a")).is_some());
}

#[test]
fn graph_and_executable_entries_are_apart() {
    let dir = directory();
    let store = open(dir.path());
    let of = |kind| KeyRecord::new(kind).with_text("a", "b");
    store.put(&of(KeyKind::Graph), &metadata(), b"graph");
    store.put(&of(KeyKind::Executable), &metadata(), b"exec");
    assert_eq!(store.get(&of(KeyKind::Graph)).expect("was put").payload, b"graph");
    assert_eq!(store.get(&of(KeyKind::Executable)).expect("was put").payload, b"exec");
}

#[test]
fn with_flushing_the_entry_is_the_same() {
    let dir = directory();
    let store = Store::open(StoreOptions { sync: true, ..StoreOptions::new(dir.path()) }).expect("opens");
    assert!(store.put(&record("a"), &metadata(), b"x"));
    assert_eq!(store.get(&record("a")).expect("was put").payload, b"x");
}

#[test]
fn an_entry_cut_off_at_any_byte_is_a_miss_and_removed() {
    let dir = directory();
    let store = open(dir.path());
    let path = store.entry_path(&record("a")).expect("has a directory");
    store.put(&record("a"), &metadata(), &payload(1, 100));
    let whole = fs::read(&path).expect("is there");
    for len in 0..whole.len() {
        fs::write(&path, &whole[..len]).expect("writes");
        assert!(store.get(&record("a")).is_none(), "cut off at {len}");
        assert!(!path.exists(), "cut off at {len}");
    }
    assert_eq!(store.stats().corrupt, whole.len() as u64);
    fs::write(&path, &whole).expect("writes");
    assert!(store.get(&record("a")).is_some());
}

#[test]
fn a_forged_entry_is_never_loaded() {
    let dir = directory();
    let store = open(dir.path());
    let (asked, other) = (record("asked"), record("other"));
    store.put(&asked, &metadata(), b"right");
    store.put(&other, &metadata(), b"wrong");
    let path = |record| store.entry_path(record).expect("has a directory");
    fs::copy(path(&other), path(&asked)).expect("copies");
    assert!(store.get(&asked).is_none());
    assert_eq!((store.stats().foreign, store.stats().corrupt, path(&asked).exists()), (1, 0, false));
    assert_eq!(store.get(&other).expect("untouched").payload, b"wrong");
}

#[test]
fn an_entry_of_a_later_version_is_a_miss_and_left() {
    let dir = directory();
    let store = open(dir.path());
    store.put(&record("a"), &metadata(), b"x");
    let path = store.entry_path(&record("a")).expect("has a directory");
    let mut bytes = fs::read(&path).expect("is there");
    bytes[8] = 9;
    fs::write(&path, &bytes).expect("writes");
    assert!(store.get(&record("a")).is_none());
    assert_eq!((store.stats().future_version, fs::read(&path).expect("left")), (1, bytes));
}

#[test]
fn what_is_not_a_file_of_this_user_alone_is_not_read() {
    let dir = directory();
    let store = open(dir.path());
    store.put(&record("a"), &metadata(), b"x");
    let path = store.entry_path(&record("a")).expect("has a directory");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).expect("is ours");
    assert!(store.get(&record("a")).is_none());
    assert_eq!(store.stats().untrusted, 1);
    fs::remove_file(&path).expect("is ours");
    fs::create_dir(&path).expect("makes");
    assert!(store.get(&record("a")).is_none());
    assert_eq!(store.stats().io_errors, 1);
    fs::remove_dir(&path).expect("is ours");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).expect("makes a pipe");
    assert!(store.get(&record("a")).is_none(), "a pipe is refused without blocking");
    assert_eq!(store.stats().io_errors, 2);
}

#[test]
fn a_new_directory_is_private_and_one_others_can_write_is_refused() {
    let dir = directory();
    let root = dir.path().join("deep/cache");
    open(&root).put(&record("a"), &metadata(), b"x");
    let mode = |path: &std::path::Path| fs::metadata(path).expect("is there").permissions().mode() & 0o777;
    assert_eq!((mode(&root), mode(&root.join("v1"))), (0o700, 0o700));
    for writable in [root.clone(), root.join("v1")] {
        for bits in [0o770, 0o702, 0o777] {
            fs::set_permissions(&writable, fs::Permissions::from_mode(bits)).expect("is ours");
            let error = Store::open(StoreOptions::new(&root)).expect_err("refused");
            assert!(matches!(&error, DirectoryError::WritableByOthers { mode, .. } if *mode == bits), "{error}");
            let store = Store::open_or_without(StoreOptions::new(&root));
            assert_eq!((store.directory(), store.stats().refused_directories), (None, 1));
            assert!(store.get(&record("a")).is_none());
            let shared = Store::open_or_without(StoreOptions { shared: vec![root.clone()], ..StoreOptions::default() });
            assert!(shared.get(&record("a")).is_none());
            assert_eq!(shared.stats().refused_directories, 1);
        }
        fs::set_permissions(&writable, fs::Permissions::from_mode(0o755)).expect("is ours");
    }
    assert!(open(&root).get(&record("a")).is_some());
}

#[test]
fn what_another_user_owns_is_refused() {
    if !rustix::process::geteuid().is_root() {
        return; // Only root can give files away.
    }
    let dir = directory();
    let root = dir.path().join("cache");
    let store = open(&root);
    store.put(&record("a"), &metadata(), b"x");
    let path = store.entry_path(&record("a")).expect("has a directory");
    std::os::unix::fs::chown(&path, Some(4321), None).expect("is root");
    assert!(store.get(&record("a")).is_none());
    assert_eq!((store.stats().untrusted, path.exists()), (1, true));
    std::os::unix::fs::chown(&root, Some(4321), None).expect("is root");
    assert!(matches!(Store::open(StoreOptions::new(&root)), Err(DirectoryError::ForeignOwner { owner: 4321, user: 0, .. })));
}

#[test]
fn shared_directories_are_asked_in_order_copied_down_and_never_written() {
    let (local, first, second) = (directory(), directory(), directory());
    open(first.path()).put(&record("both"), &metadata(), b"first");
    for label in ["both", "one"] {
        open(second.path()).put(&record(label), &metadata(), b"second");
    }
    let options = StoreOptions {
        shared: vec![first.path().into(), "/nonexistent/cache".into(), second.path().into()],
        ..StoreOptions::new(local.path())
    };
    let store = Store::open(options).expect("opens");
    assert_eq!(store.shared(), [first.path(), second.path()]);
    assert_eq!(store.get(&record("both")).expect("shared").payload, b"first");
    assert_eq!(store.get(&record("one")).expect("shared").payload, b"second");
    let stats = store.stats();
    assert_eq!((stats.hits, stats.hits_shared, stats.copied_down, stats.refused_directories), (2, 2, 2, 1));
    assert_eq!(open(local.path()).get(&record("both")).expect("copied").payload, b"first");

    let damaged = open(first.path()).entry_path(&record("both")).expect("has a directory");
    fs::write(&damaged, b"damage").expect("writes");
    fs::remove_file(store.entry_path(&record("both")).expect("has a directory")).expect("is there");
    assert_eq!(store.get(&record("both")).expect("the next layer has it").payload, b"second");
    assert_eq!((store.stats().corrupt, fs::read(&damaged).expect("left")), (1, b"damage".to_vec()));
}

#[derive(Debug, Default)]
struct FakeRemote(Mutex<std::collections::BTreeMap<String, Vec<u8>>>, bool);

impl Remote for FakeRemote {
    fn fetch(&self, name: &str) -> Result<Option<Vec<u8>>, RemoteError> {
        if self.1 {
            return Err(RemoteError { remote: self.describe(), reason: "unreachable".into() });
        }
        Ok(self.0.lock().expect("not poisoned").get(name).cloned())
    }

    fn push(&self, name: &str, bytes: &[u8]) -> Result<(), RemoteError> {
        if self.1 {
            return Err(RemoteError { remote: self.describe(), reason: "unreachable".into() });
        }
        self.0.lock().expect("not poisoned").insert(name.into(), bytes.into());
        Ok(())
    }

    fn describe(&self) -> String {
        "fake".into()
    }
}

#[test]
fn a_remote_is_asked_last_verified_and_copied_down() {
    let (here, there) = (directory(), directory());
    let remote = Arc::new(FakeRemote::default());
    let with = |dir: &std::path::Path, push_to_remote| {
        Store::open(StoreOptions { remote: Some(remote.clone()), push_to_remote, ..StoreOptions::new(dir) }).expect("opens")
    };
    with(here.path(), true).put(&record("a"), &metadata(), b"x");
    with(here.path(), false).put(&record("b"), &metadata(), b"x");
    assert_eq!(remote.0.lock().expect("not poisoned").len(), 1);

    let store = with(there.path(), false);
    assert_eq!(store.get(&record("a")).expect("remote").payload, b"x");
    assert_eq!(store.get(&record("a")).expect("local").payload, b"x");
    assert!(store.get(&record("b")).is_none());
    let stats = store.stats();
    assert_eq!((stats.hits_remote, stats.hits_local, stats.copied_down, stats.misses), (1, 1, 1, 1));

    let name = format!("{}.exec", record("b").key());
    for bad in [fs::read(store.entry_path(&record("a")).expect("has a directory")).expect("is there"), b"damage".to_vec()] {
        remote.push(&name, &bad).expect("takes all");
        assert!(store.get(&record("b")).is_none());
    }
    assert_eq!((store.stats().foreign, store.stats().corrupt), (1, 1));
}

#[test]
fn an_unreachable_remote_is_a_counted_miss() {
    let dir = directory();
    let remote = Arc::new(FakeRemote(Mutex::default(), true));
    let options = StoreOptions { remote: Some(remote), push_to_remote: true, ..StoreOptions::new(dir.path()) };
    let store = Store::open(options).expect("opens");
    assert!(store.get(&record("a")).is_none());
    assert!(store.put(&record("a"), &metadata(), b"x"), "the local directory has it");
    assert_eq!(store.stats().remote_errors, 2);
}

#[test]
fn a_use_is_written_down_once_a_minute_whatever_the_clock_did() {
    let dir = directory();
    let store = open(dir.path());
    store.put(&record("a"), &metadata(), b"x");
    let path = store.entry_path(&record("a")).expect("has a directory");
    let modified = || fs::metadata(&path).expect("is there").modified().expect("is known");
    let set = |time| fs::File::open(&path).expect("is there").set_modified(time).expect("is ours");

    let recently = SystemTime::now() - Duration::from_secs(20);
    set(recently);
    assert!(store.get(&record("a")).is_some());
    assert_eq!(modified(), recently, "used less than a minute ago");
    for time in [SystemTime::UNIX_EPOCH, SystemTime::now() + Duration::from_secs(1_000_000_000)] {
        set(time);
        let before = SystemTime::now() - Duration::from_secs(1);
        assert!(store.get(&record("a")).is_some());
        assert!(modified() > before && modified() < SystemTime::now() + Duration::from_secs(60));
    }
}

#[test]
fn readers_see_one_whole_of_concurrent_writers() {
    let dir = directory();
    open(dir.path()).put(&record("a"), &metadata(), &payload(0, 20_000));
    let payloads: Vec<Vec<u8>> = (0..4).map(|seed| payload(seed, 20_000 + seed as usize * 1000)).collect();
    std::thread::scope(|scope| {
        for payload in &payloads {
            let store = open(dir.path());
            scope.spawn(move || (0..100).for_each(|_| assert!(store.put(&record("a"), &metadata(), payload))));
        }
        for _ in 0..2 {
            let store = open(dir.path());
            let payloads = &payloads;
            scope.spawn(move || {
                for _ in 0..200 {
                    let entry = store.get(&record("a")).expect("always there");
                    assert!(payloads.contains(&entry.payload));
                }
                assert_eq!((store.stats().corrupt, store.stats().io_errors), (0, 0));
            });
        }
    });
}
