//! How tests steer the plugin: exported C functions within a process, environment variables across processes.
//!
//! Environment, read again at each call:
//! - `CLUTCH_FAKE_PJRT_FAIL`: faults as `FUNCTION=CODE:message`, separated by `;`, for example
//!   `PJRT_Client_Compile=RESOURCE_EXHAUSTED:out of memory`.
//! - `CLUTCH_FAKE_PJRT_ABORT`: names of functions, separated by `;`, that abort the process.
//! - `CLUTCH_FAKE_PJRT_DELAY_MS`: milliseconds that each compilation takes.
//! - `CLUTCH_FAKE_PJRT_LOG`: a file to which each call that compiles, loads or executes appends its name and the
//!   process number as a line.
//! - `CLUTCH_FAKE_PJRT_API_VERSION` (`0.81`), `CLUTCH_FAKE_PJRT_PLATFORM_NAME`,
//!   `CLUTCH_FAKE_PJRT_PLATFORM_VERSION`, `CLUTCH_FAKE_PJRT_FINGERPRINT`: what the plugin says about itself.
//!
//! The name `PJRT_LoadedExecutable_Execute#event` stands for the completion of an execution.

use crate::handle::Failure;
use clutch_pjrt::ErrorCode;
use clutch_pjrt::abi::{self, Arguments};
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::io::Write;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A fault to return.
struct Fault {
    function: String,
    failure: Failure,
    /// Calls until it strikes once; 0 strikes at every call.
    countdown: u64,
}

/// Settings and counts of one copy of the plugin.
#[derive(Default)]
pub(crate) struct State {
    faults: Vec<Fault>,
    calls: BTreeMap<String, u64>,
    pub(crate) missing: Vec<String>,
    pub(crate) api_version: Option<(i32, i32)>,
    pub(crate) table_size: Option<usize>,
    platform_version: Option<String>,
    fingerprint: Option<String>,
    abort: Vec<String>,
}

static STATE: Mutex<Option<State>> = Mutex::new(None);

/// Runs `change` on the state.
pub(crate) fn with_state<T>(change: impl FnOnce(&mut State) -> T) -> T {
    let mut guard: MutexGuard<'_, Option<State>> = STATE.lock().unwrap_or_else(PoisonError::into_inner);
    change(guard.get_or_insert_default())
}

fn variable(name: &str) -> Option<String> {
    std::env::var(format!("CLUTCH_FAKE_PJRT_{name}")).ok().filter(|value| !value.is_empty())
}

pub(crate) fn api_version() -> (i32, i32) {
    let parse = |text: String| {
        let (major, minor) = text.split_once('.')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    };
    with_state(|state| state.api_version).or_else(|| variable("API_VERSION").and_then(parse)).unwrap_or((0, abi::API_MINOR))
}

pub(crate) fn platform_name() -> String {
    variable("PLATFORM_NAME").unwrap_or_else(|| "fake".to_owned())
}

pub(crate) fn platform_version() -> String {
    with_state(|state| state.platform_version.clone()).or_else(|| variable("PLATFORM_VERSION")).unwrap_or_else(|| "fake 1".to_owned())
}

pub(crate) fn fingerprint() -> Option<String> {
    with_state(|state| state.fingerprint.clone()).or_else(|| variable("FINGERPRINT"))
}

/// Takes the time that a compilation is told to take.
pub(crate) fn delay() {
    if let Some(milliseconds) = variable("DELAY_MS").and_then(|text| text.parse().ok()) {
        std::thread::sleep(std::time::Duration::from_millis(milliseconds));
    }
}

fn parse_code(name: &str) -> ErrorCode {
    (1..=16).map(ErrorCode::from_raw).find(|code| code.name() == name).unwrap_or_else(|| ErrorCode::from_raw(name.parse().unwrap_or(2)))
}

/// The fault the environment sets for a function.
fn environment_fault(function: &str) -> Option<Failure> {
    let list = variable("FAIL")?;
    list.split(';').find_map(|entry| {
        let (name, fault) = entry.split_once('=')?;
        let (code, message) = fault.split_once(':').unwrap_or((fault, "fault"));
        (name.trim() == function).then(|| Failure::new(parse_code(code.trim()), message))
    })
}

/// Counts a call and returns the fault it is to fail with, if any.
pub(crate) fn enter(function: &str) -> Result<(), Failure> {
    let aborts = |list: &str| list.split(';').any(|name| name.trim() == function);
    let (fault, abort) = with_state(|state| {
        *state.calls.entry(function.to_owned()).or_default() += 1;
        let mut found = None;
        state.faults.retain_mut(|fault| {
            if fault.function != function || found.is_some() {
                return true;
            }
            if fault.countdown > 1 {
                fault.countdown -= 1;
                return true;
            }
            found = Some(fault.failure.clone());
            fault.countdown == 0
        });
        (found, state.abort.iter().any(|name| name == function))
    });
    if abort || variable("ABORT").is_some_and(|list| aborts(&list)) {
        std::process::abort();
    }
    log(function);
    fault.or_else(|| environment_fault(function)).map_or(Ok(()), Err)
}

fn log(function: &str) {
    let logged = [
        abi::ClientCompileArgs::FUNCTION,
        abi::CompileArgs::FUNCTION,
        abi::ExecutableDeserializeAndLoadArgs::FUNCTION,
        abi::LoadedExecutableExecuteArgs::FUNCTION,
    ];
    if !logged.contains(&function) {
        return;
    }
    if let Some(path) = variable("LOG")
        && let Ok(mut file) = std::fs::File::options().create(true).append(true).open(path)
    {
        let line = format!("{function} {}\n", std::process::id());
        // A log that cannot be written shows as missing lines in the test that reads it.
        let _ = file.write_all(line.as_bytes());
    }
}

/// # Safety
/// `text` is a C string or null.
unsafe fn text_from(text: *const c_char) -> String {
    if text.is_null() {
        return String::new();
    }
    // SAFETY: forwarded to the caller.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}

/// Makes a function fail: with `nth` 0 at every call, else once, at the `nth` call from now.
///
/// # Safety
/// Both texts are C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_set_fault(function: *const c_char, code: u32, message: *const c_char, nth: u64) {
    // SAFETY: forwarded to the caller.
    let (function, message) = unsafe { (text_from(function), text_from(message)) };
    let failure = Failure::new(ErrorCode::from_raw(code), &message);
    with_state(|state| state.faults.push(Fault { function, failure, countdown: nth }));
}

/// Forgets all faults, counts and settings. Handles stay.
#[unsafe(no_mangle)]
pub extern "C" fn clutch_fake_pjrt_reset() {
    with_state(|state| *state = State::default());
}

/// Calls of a function since the start or the last reset.
///
/// # Safety
/// `function` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_call_count(function: *const c_char) -> u64 {
    // SAFETY: forwarded to the caller.
    let function = unsafe { text_from(function) };
    with_state(|state| state.calls.get(&function).copied().unwrap_or(0))
}

/// Handles of a kind that are alive: `error`, `event`, `client`, `buffer`, `executable`, `loaded_executable`,
/// `topology`, `serialized`; anything else counts all.
///
/// # Safety
/// `kind` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_live_count(kind: *const c_char) -> u64 {
    // SAFETY: forwarded to the caller.
    crate::handle::live(&unsafe { text_from(kind) })
}

/// Sets the interface version that the next `GetPjrtApi` states.
#[unsafe(no_mangle)]
pub extern "C" fn clutch_fake_pjrt_set_api_version(major: i32, minor: i32) {
    with_state(|state| state.api_version = Some((major, minor)));
}

/// Sets the table size that the next `GetPjrtApi` states, in bytes, as of an older plugin.
#[unsafe(no_mangle)]
pub extern "C" fn clutch_fake_pjrt_set_table_size(bytes: usize) {
    with_state(|state| state.table_size = Some(bytes));
}

/// Leaves a function out of the table of the next `GetPjrtApi`.
///
/// # Safety
/// `function` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_set_missing(function: *const c_char) {
    // SAFETY: forwarded to the caller.
    let function = unsafe { text_from(function) };
    with_state(|state| state.missing.push(function));
}

/// Sets the platform version.
///
/// # Safety
/// `text` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_set_platform_version(text: *const c_char) {
    // SAFETY: forwarded to the caller.
    let text = unsafe { text_from(text) };
    with_state(|state| state.platform_version = Some(text));
}

/// Sets the fingerprint of executables; without it, it is a hash of program and options.
///
/// # Safety
/// `text` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_set_fingerprint(text: *const c_char) {
    // SAFETY: forwarded to the caller.
    let text = unsafe { text_from(text) };
    with_state(|state| state.fingerprint = Some(text));
}

/// Makes a function abort the process.
///
/// # Safety
/// `function` is a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clutch_fake_pjrt_set_abort(function: *const c_char) {
    // SAFETY: forwarded to the caller.
    let function = unsafe { text_from(function) };
    with_state(|state| state.abort.push(function));
}
