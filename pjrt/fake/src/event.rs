//! Events.

use crate::handle::{Failure, Kind, Outcome, borrow, export, export_failure, free, function};
use clutch_pjrt::abi;
use std::ffi::c_void;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

struct Waiting {
    callback: abi::EventOnReadyCallback,
    user_arg: *mut c_void,
}

// SAFETY: the interface lets a callback run on any thread.
unsafe impl Send for Waiting {}

#[derive(Default)]
struct Progress {
    outcome: Option<Outcome>,
    waiting: Vec<Waiting>,
}

/// Completion of something; clones are the same completion.
#[derive(Clone, Default)]
pub(crate) struct Completion {
    shared: Arc<(Mutex<Progress>, Condvar)>,
}

fn notify(waiting: &Waiting, outcome: &Outcome) {
    let error = match outcome {
        Ok(()) => std::ptr::null_mut(),
        Err(failure) => export_failure(failure.clone()),
    };
    // SAFETY: the callback and its argument were passed together and are called once.
    unsafe { (waiting.callback)(error, waiting.user_arg) };
}

impl Completion {
    /// A completion that has happened.
    pub(crate) fn done(outcome: Outcome) -> Self {
        let completion = Self::default();
        completion.complete(outcome);
        completion
    }

    /// Completes; the first outcome counts.
    pub(crate) fn complete(&self, outcome: Outcome) {
        let (progress, condition) = &*self.shared;
        let waiting = {
            let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
            if progress.outcome.is_some() {
                return;
            }
            progress.outcome = Some(outcome.clone());
            std::mem::take(&mut progress.waiting)
        };
        condition.notify_all();
        for entry in &waiting {
            notify(entry, &outcome);
        }
    }

    fn outcome(&self) -> Option<Outcome> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner).outcome.clone()
    }

    fn wait(&self) -> Outcome {
        let (progress, condition) = &*self.shared;
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(outcome) = &progress.outcome {
                return outcome.clone();
            }
            progress = condition.wait(progress).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn on_ready(&self, waiting: Waiting) {
        let outcome = {
            let mut progress = self.shared.0.lock().unwrap_or_else(PoisonError::into_inner);
            match &progress.outcome {
                Some(outcome) => outcome.clone(),
                None => {
                    progress.waiting.push(waiting);
                    return;
                }
            }
        };
        notify(&waiting, &outcome);
    }

    pub(crate) fn export(&self) -> *mut abi::Event {
        export(Kind::Event, self.clone())
    }
}

function!(event_destroy(args: EventDestroyArgs) {
    // SAFETY: events are exported completions.
    unsafe { free::<Completion, _>(args.event) };
    Ok(())
});

function!(event_is_ready(args: EventIsReadyArgs) {
    // SAFETY: events are exported completions.
    args.is_ready = unsafe { borrow::<Completion, _>(args.event) }?.outcome().is_some();
    Ok(())
});

function!(event_error(args: EventErrorArgs) {
    // SAFETY: events are exported completions.
    let completion = unsafe { borrow::<Completion, _>(args.event) }?;
    completion.outcome().unwrap_or_else(|| Err(Failure::invalid("the event is not ready")))
});

function!(event_await(args: EventAwaitArgs) {
    // SAFETY: events are exported completions.
    unsafe { borrow::<Completion, _>(args.event) }?.wait()
});

function!(event_on_ready(args: EventOnReadyArgs) {
    // SAFETY: events are exported completions.
    let completion = unsafe { borrow::<Completion, _>(args.event) }?;
    let callback = args.callback.ok_or_else(|| Failure::invalid("no callback"))?;
    completion.on_ready(Waiting { callback, user_arg: args.user_arg });
    Ok(())
});
