//! The object store remote, over a folder and over HTTP served by this test.
#![cfg(feature = "remote")]

mod common;

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex};

use clutch_cache::{ObjectRemote, Remote, Store, StoreOptions};
use common::{directory, metadata, payload, record};
use pretty_assertions::assert_eq;

fn store(dir: &Path, url: &str, options: &[(&str, &str)]) -> Store {
    let options = options.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let remote = Arc::new(ObjectRemote::open(url, options).expect("opens"));
    Store::open(StoreOptions { remote: Some(remote), push_to_remote: true, ..StoreOptions::new(dir) }).expect("opens")
}

fn moves_through(url: &str, options: &[(&str, &str)]) {
    let (here, there) = (directory(), directory());
    let first = store(here.path(), url, options);
    assert!(first.get(&record("a")).is_none());
    assert!(first.put(&record("a"), &metadata(), &payload(1, 300_000)));
    let second = store(there.path(), url, options);
    assert!(second.get(&record("a")).expect("in the remote").payload == payload(1, 300_000));
    assert!(second.get(&record("b")).is_none());
    let stats = second.stats();
    assert_eq!((stats.hits_remote, stats.copied_down, stats.misses, stats.remote_errors), (1, 1, 1, 0));
    assert_eq!(first.stats().remote_errors, 0);
}

#[test]
fn entries_move_through_a_folder() {
    let folder = directory();
    let url = format!("file://{}", folder.path().display());
    moves_through(&url, &[]);
    let name = format!("{}.exec", record("a").key());
    assert!(folder.path().join(&name).exists());
    fs::write(folder.path().join(&name), b"damage").expect("writes");
    let dir = directory();
    let store = store(dir.path(), &url, &[]);
    assert!(store.get(&record("a")).is_none());
    assert_eq!((store.stats().corrupt, store.stats().copied_down), (1, 0));
}

#[test]
fn a_folder_others_can_write_and_unknown_urls_are_refused() {
    let folder = directory();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o777)).expect("is ours");
    for url in [&format!("file://{}", folder.path().display()), "ftp://host/x", "memory:///", "nothing"] {
        assert!(ObjectRemote::open(url, []).is_err(), "{url}");
    }
    for url in ["ftp://user:secret@host/x", "https://user:secret@host/x", "https://host/x?token=secret#\0"] {
        if let Err(error) = ObjectRemote::open(url, []) {
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }
    assert!(ObjectRemote::open("https://user:secret@host/x", []).is_err());
}

/// Answers GET and PUT from a map, for ever.
fn serve(listener: TcpListener, objects: Arc<Mutex<BTreeMap<String, Vec<u8>>>>) {
    for stream in listener.incoming().map_while(Result::ok) {
        let objects = objects.clone();
        std::thread::spawn(move || while answer(&stream, &objects).is_some() {});
    }
}

fn answer(mut stream: &TcpStream, objects: &Mutex<BTreeMap<String, Vec<u8>>>) -> Option<()> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next()?.to_owned(), words.next()?.to_owned());
    let mut length = 0;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header).ok()?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(value) = header.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let (status, content) = match method.as_str() {
        "PUT" => {
            objects.lock().ok()?.insert(path, body);
            ("201 Created", Vec::new())
        }
        _ => match objects.lock().ok()?.get(&path) {
            Some(object) => ("200 OK", object.clone()),
            None => ("404 Not Found", Vec::new()),
        },
    };
    write!(stream, "HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", content.len()).ok()?;
    stream.write_all(&content).ok()
}

#[test]
fn entries_move_over_http() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}/cache/v1", listener.local_addr().expect("is bound"));
    let objects = Arc::new(Mutex::default());
    let served = objects.clone();
    std::thread::spawn(move || serve(listener, served));
    moves_through(&url, &[("ALLOW_HTTP", "true")]);
    let names: Vec<String> = objects.lock().expect("not poisoned").keys().cloned().collect();
    assert_eq!(names, [format!("/cache/v1/{}.exec", record("a").key())]);

    let insecure = ObjectRemote::open(&url, []).expect("opens");
    assert!(insecure.fetch("x").is_err(), "without TLS only when asked for");
}

#[test]
fn a_dead_server_is_given_up_after_three_failures() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("binds");
    let url = format!("http://{}/", listener.local_addr().expect("is bound"));
    drop(listener);
    let remote = ObjectRemote::open(&url, [("allow_http".to_owned(), "true".to_owned())]).expect("opens");
    let errors: Vec<String> = (0..4).map(|_| remote.fetch("x").expect_err("nobody is there").reason).collect();
    assert!(!errors[2].contains("not asked") && errors[3].contains("not asked again"), "{errors:?}");
}
