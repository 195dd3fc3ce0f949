//! A private copy of the fake plugin, and its controls.

use clutch_pjrt::{Error, ErrorCode, Plugin};
use std::ffi::{CString, c_char};
use std::path::{Path, PathBuf};

/// The fake plugin as cargo built it.
pub fn library() -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let deps = test.parent().unwrap();
    let file = "libclutch_fake_pjrt.so";
    [deps.join(file), deps.parent().unwrap().join(file)]
        .into_iter()
        .find(|path| path.is_file())
        .unwrap_or_else(|| panic!("{file} is not built; run the tests with `cargo test`"))
}

/// A copy of the plugin with state of its own. The file is removed again; the library stays loaded.
pub struct Fake {
    folder: tempfile::TempDir,
    controls: libloading::Library,
}

impl Fake {
    pub fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fake.so");
        std::fs::copy(library(), &path).unwrap();
        // SAFETY: the library is ours.
        let controls = unsafe { libloading::Library::new(&path) }.unwrap();
        Self { folder, controls }
    }

    pub fn path(&self) -> PathBuf {
        self.folder.path().join("fake.so")
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn load(&self) -> Result<Plugin, Error> {
        Plugin::load(self.path())
    }

    fn text(&self, function: &[u8], text: &str) {
        let text = CString::new(text).unwrap();
        // SAFETY: the function has this type.
        unsafe {
            self.controls.get::<unsafe extern "C" fn(*const c_char)>(function).unwrap()(text.as_ptr());
        }
    }

    fn count(&self, function: &[u8], text: &str) -> u64 {
        let text = CString::new(text).unwrap();
        // SAFETY: the function has this type.
        unsafe { self.controls.get::<unsafe extern "C" fn(*const c_char) -> u64>(function).unwrap()(text.as_ptr()) }
    }

    /// `nth` 0: every call fails; else the nth call from now fails once.
    pub fn fail(&self, function: &str, code: ErrorCode, message: &str, nth: u64) {
        type SetFault = unsafe extern "C" fn(*const c_char, u32, *const c_char, u64);
        let (function, message) = (CString::new(function).unwrap(), CString::new(message).unwrap());
        // SAFETY: the function has this type.
        unsafe {
            self.controls.get::<SetFault>(b"clutch_fake_pjrt_set_fault").unwrap()(function.as_ptr(), code.to_raw(), message.as_ptr(), nth);
        }
    }

    pub fn reset(&self) {
        // SAFETY: the function has this type.
        unsafe { self.controls.get::<unsafe extern "C" fn()>(b"clutch_fake_pjrt_reset").unwrap()() };
    }

    pub fn calls(&self, function: &str) -> u64 {
        self.count(b"clutch_fake_pjrt_call_count", function)
    }

    /// Handles of a kind alive; of all kinds for `""`.
    pub fn live(&self, kind: &str) -> u64 {
        self.count(b"clutch_fake_pjrt_live_count", kind)
    }

    pub fn set_missing(&self, function: &str) {
        self.text(b"clutch_fake_pjrt_set_missing", function);
    }

    pub fn set_platform_version(&self, version: &str) {
        self.text(b"clutch_fake_pjrt_set_platform_version", version);
    }

    pub fn set_fingerprint(&self, fingerprint: &str) {
        self.text(b"clutch_fake_pjrt_set_fingerprint", fingerprint);
    }

    pub fn set_api_version(&self, major: i32, minor: i32) {
        // SAFETY: the function has this type.
        unsafe {
            self.controls.get::<unsafe extern "C" fn(i32, i32)>(b"clutch_fake_pjrt_set_api_version").unwrap()(major, minor);
        }
    }

    pub fn set_table_size(&self, bytes: usize) {
        // SAFETY: the function has this type.
        unsafe {
            self.controls.get::<unsafe extern "C" fn(usize)>(b"clutch_fake_pjrt_set_table_size").unwrap()(bytes);
        }
    }
}
