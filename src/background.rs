//! Compilations in the background: a few threads that take jobs in the order in which they came, and end when there are none.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// Jobs that wait, and threads that work.
struct Queue {
    jobs: VecDeque<Job>,
    threads: usize,
    paused: usize,
}

static QUEUE: Mutex<Queue> = Mutex::new(Queue { jobs: VecDeque::new(), threads: 0, paused: 0 });
static IDLE: Condvar = Condvar::new();

fn lock() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `job` soon, on another thread; here and now where no thread can be had.
pub fn run(job: impl FnOnce() + Send + 'static) {
    lock().jobs.push_back(Box::new(job));
    wake();
}

/// Jobs that wait or run.
pub fn unfinished() -> usize {
    let queue = lock();
    queue.jobs.len() + queue.threads
}

/// Returns when no job waits or runs.
pub fn wait() {
    let mut queue = lock();
    while queue.threads > 0 || (!queue.jobs.is_empty() && queue.paused == 0) {
        queue = IDLE.wait(queue).unwrap_or_else(PoisonError::into_inner);
    }
}

/// Holds jobs back, until [`resume`] was called as often. What runs goes on.
pub fn pause() {
    lock().paused += 1;
}

/// Undoes one [`pause`].
pub fn resume() {
    let mut queue = lock();
    queue.paused = queue.paused.saturating_sub(1);
    drop(queue);
    wake();
}

/// Starts threads for the jobs that wait.
fn wake() {
    // The plugin's compiler uses several threads itself.
    let limit = thread::available_parallelism().map_or(1, |n| n.get().div_ceil(2));
    let mut queue = lock();
    while queue.paused == 0 && queue.threads < limit && queue.threads < queue.jobs.len() {
        queue.threads += 1;
        if thread::Builder::new().name("clutch-compile".to_owned()).spawn(work).is_err() {
            drop(queue);
            work();
            return;
        }
    }
}

/// Counts a working thread down, also when a job panics.
struct Working;

impl Drop for Working {
    fn drop(&mut self) {
        lock().threads -= 1;
        IDLE.notify_all();
    }
}

fn work() {
    let _working = Working;
    loop {
        let job = {
            let mut queue = lock();
            if queue.paused > 0 {
                return;
            }
            queue.jobs.pop_front()
        };
        match job {
            Some(job) => job(),
            None => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn jobs_run_once_each_and_wait_while_paused() {
        let done = Arc::new(AtomicUsize::new(0));
        pause();
        for _ in 0..20 {
            let done = Arc::clone(&done);
            run(move || {
                done.fetch_add(1, Ordering::SeqCst);
            });
        }
        wait();
        assert_eq!((done.load(Ordering::SeqCst), unfinished()), (0, 20));
        resume();
        wait();
        assert_eq!((done.load(Ordering::SeqCst), unfinished()), (20, 0));
        run(|| panic!("a job that fails"));
        wait();
        assert_eq!(unfinished(), 0);
    }
}
