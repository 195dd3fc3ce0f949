//! Strict mode: while it is on, nothing new is compiled in this process. What the cache holds is loaded all the same.

use std::sync::atomic::{AtomicUsize, Ordering};

static DEPTH: AtomicUsize = AtomicUsize::new(0);

/// Turns strict mode on, until [`leave`] was called as often.
pub fn enter() {
    DEPTH.fetch_add(1, Ordering::SeqCst);
}

/// Undoes one [`enter`].
pub fn leave() {
    let _ = DEPTH.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |depth| depth.checked_sub(1));
}

/// Whether strict mode is on.
pub fn is_on() -> bool {
    DEPTH.load(Ordering::SeqCst) > 0
}
