//! Many processes in one directory, some of them killed at random moments.
//!
//! The test binary runs itself again as the other processes: [`child`] does nothing unless told its part through the
//! environment, and then speaks with its parent line by line.

mod common;

use std::io::{BufRead, BufReader, Lines, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

use clutch_cache::{Flight, KeyRecord, Store};
use common::{FAR, directory, metadata, open, payload, record};
use pretty_assertions::assert_eq;

const PART: &str = "CLUTCH_CACHE_TEST_PART";
const DIRECTORY: &str = "CLUTCH_CACHE_TEST_DIRECTORY";
const KEYS: u64 = 8;
const KILLS: u64 = 200;

fn keyed(index: u64) -> KeyRecord {
    record(&index.to_string())
}

/// What every sound entry of a key holds: bytes of the key, at one of two lengths.
fn is_right(index: u64, bytes: &[u8]) -> bool {
    [30_000, 300_000].iter().any(|len| bytes.len() == *len && bytes == payload(index, *len))
}

#[test]
fn child() {
    let (Ok(part), Some(directory)) = (std::env::var(PART), std::env::var_os(DIRECTORY)) else { return };
    let store = open(Path::new(&directory));
    match part.as_str() {
        "write" => write_for_ever(&store),
        "fly" => fly(&store),
        other => panic!("unknown part {other}"),
    }
}

/// Leads, publishes and overwrites without end; the parent kills it.
fn write_for_ever(store: &Store) {
    for round in u64::from(std::process::id()).. {
        let index = round % KEYS;
        let bytes = payload(index, if round % 3 == 0 { 300_000 } else { 30_000 });
        if round % 5 == 0 {
            store.put(&keyed(index), &metadata(), &bytes);
        } else {
            if let Some(path) = store.entry_path(&keyed(index)).filter(|_| round % 2 == 0) {
                let _ = std::fs::remove_file(path);
            }
            match store.lead_or_wait(&keyed(index), FAR) {
                Flight::Lead(guard) => drop(guard.publish(&metadata(), &bytes)),
                Flight::Hit(entry) => assert!(is_right(index, &entry.payload)),
                Flight::TimedOut => panic!("a lock was left for good"),
            }
        }
        say("round");
    }
}

/// Asks for one key when told to go; as the leader, publishes when told to.
fn fly(store: &Store) {
    let mut orders = std::io::stdin().lines();
    let mut await_order = |expected: &str| {
        let order = orders.next().expect("the parent is there").expect("the pipe is whole");
        assert_eq!(order, expected);
    };
    say("ready");
    await_order("go");
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while store.stats().waits == 0 && !over.load(Ordering::Acquire) {
                std::thread::yield_now();
            }
            if store.stats().waits > 0 {
                say("waits");
            }
        });
        match store.lead_or_wait(&keyed(0), FAR) {
            Flight::Lead(guard) => {
                say("leads");
                await_order("publish");
                assert!(guard.publish(&metadata(), b"made"));
                say(&format!("made, {} takeovers", store.stats().takeovers));
            }
            Flight::Hit(entry) => {
                assert_eq!(entry.payload, b"made");
                say("hit");
            }
            Flight::TimedOut => say("timed out"),
        }
        over.store(true, Ordering::Release);
    });
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    let _ = writeln!(out, "@{line}");
    let _ = out.flush();
}

/// Another process, killed when dropped.
struct Process {
    child: Child,
    orders: ChildStdin,
    lines: Option<Lines<BufReader<ChildStdout>>>,
}

impl Process {
    fn start(part: &str, directory: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("is known"))
            .args(["child", "--exact", "--nocapture", "--test-threads=1"])
            .env(PART, part)
            .env(DIRECTORY, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("starts");
        let orders = child.stdin.take().expect("is piped");
        let lines = Some(BufReader::new(child.stdout.take().expect("is piped")).lines());
        Self { child, orders, lines }
    }

    fn order(&mut self, line: &str) {
        writeln!(self.orders, "{line}").expect("it is there");
    }

    /// The next line it says to us; others are the test harness's.
    fn next(&mut self) -> Option<String> {
        said(self.lines.as_mut().expect("still here"))
    }

    fn expect(&mut self, line: &str) {
        assert_eq!(self.next().as_deref(), Some(line));
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

fn said(lines: &mut Lines<BufReader<ChildStdout>>) -> Option<String> {
    lines.by_ref().map_while(Result::ok).find_map(|line| Some(line.rsplit_once('@')?.1.to_owned()))
}

#[test]
fn killed_writers_leave_no_wrong_entry_and_no_lock() {
    let dir = directory();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let store = open(dir.path());
                    let mut index = 0;
                    while !over.load(Ordering::Relaxed) {
                        index = (index + 1) % KEYS;
                        if let Some(entry) = store.get(&keyed(index)) {
                            assert!(is_right(index, &entry.payload), "a wrong entry");
                        }
                        std::thread::yield_now();
                    }
                    store.stats()
                })
            })
            .collect();
        let mut random = 0x2545_f491_4f6c_dd1d_u64;
        let mut writers = [Process::start("write", dir.path()), Process::start("write", dir.path())];
        for kill in 0..KILLS {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            let writer = &mut writers[(kill % 2) as usize];
            for _ in 0..1 + random % 4 {
                writer.expect("round");
            }
            for _ in 0..random % 50_000 {
                std::hint::spin_loop();
            }
            writer.kill();
            *writer = Process::start("write", dir.path());
        }
        drop(writers);
        over.store(true, Ordering::Relaxed);
        for reader in readers {
            let stats = reader.join().expect("saw nothing wrong");
            assert!(stats.hits > 0);
            assert_eq!((stats.corrupt, stats.foreign, stats.io_errors), (0, 0, 0));
        }
    });
    let store = open(dir.path());
    assert_eq!(store.verify(false).bad, []);
    for index in 0..KEYS {
        let path = store.entry_path(&keyed(index)).expect("has a directory");
        let _ = std::fs::remove_file(path);
        assert!(matches!(store.lead_or_wait(&keyed(index), FAR), Flight::Lead(_)));
    }
    assert_eq!(store.stats().waits, 0, "no lock is held by the dead");
    store.prune(u64::MAX);
    assert_eq!(store.usage().locks, 0);
}

#[test]
fn of_eight_processes_one_makes_the_entry_and_seven_hit() {
    let dir = directory();
    let mut processes: Vec<Process> = (0..8).map(|_| Process::start("fly", dir.path())).collect();
    processes.iter_mut().for_each(|process| process.expect("ready"));
    processes.iter_mut().for_each(|process| process.order("go"));
    let (sender, receiver) = mpsc::channel();
    for (index, process) in processes.iter_mut().enumerate() {
        let (sender, mut lines) = (sender.clone(), process.lines.take().expect("still here"));
        std::thread::spawn(move || {
            while let Some(line) = said(&mut lines) {
                let _ = sender.send((index, line));
            }
        });
    }
    drop(sender);
    let (mut leads, mut hits, mut made) = (0, 0, 0);
    for (index, line) in receiver {
        match line.as_str() {
            "leads" => {
                leads += 1;
                processes[index].order("publish");
            }
            "hit" => hits += 1,
            "waits" => {}
            "made, 0 takeovers" => made += 1,
            other => panic!("process {index} says {other}"),
        }
    }
    assert_eq!((leads, made, hits), (1, 1, 7));
    assert_eq!(open(dir.path()).usage().locks, 0);
}

#[test]
fn when_the_leader_is_killed_a_waiter_takes_over() {
    let dir = directory();
    let mut leader = Process::start("fly", dir.path());
    leader.expect("ready");
    leader.order("go");
    leader.expect("leads");
    let mut waiter = Process::start("fly", dir.path());
    waiter.expect("ready");
    waiter.order("go");
    waiter.expect("waits");
    leader.kill();
    waiter.expect("leads");
    waiter.order("publish");
    waiter.expect("made, 1 takeovers");
    assert_eq!(open(dir.path()).get(&keyed(0)).expect("was made").payload, b"made");
}
