//! Counters and timings since the process started or the last reset.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

macro_rules! counters {
    ($($(#[$doc:meta])* $name:ident),* $(,)?) => {
        /// The counters of this process.
        #[derive(Debug, Default)]
        pub struct Metrics {
            $($(#[$doc])* pub $name: AtomicU64,)*
        }

        impl Metrics {
            /// Names and values of all counters, sorted by name.
            pub fn snapshot(&self) -> BTreeMap<&'static str, u64> {
                BTreeMap::from([$((stringify!($name), self.$name.load(Ordering::Relaxed)),)*])
            }

            /// Sets all counters to zero.
            pub fn reset(&self) {
                $(self.$name.store(0, Ordering::Relaxed);)*
            }
        }

        /// The metrics of this process.
        pub static METRICS: Metrics = Metrics { $($name: AtomicU64::new(0),)* };
    };
}

counters! {
    /// FX graphs walked.
    captures,
    /// Graph-key hits: neither passes nor emission ran.
    graph_hits,
    /// Graph-key misses.
    graph_misses,
    /// Programs compiled by a plugin.
    compiles,
    /// Executables loaded from the cache.
    executable_hits,
    /// Executables not found in the cache.
    executable_misses,
    /// Cached executables that the plugin refused to load.
    load_failures,
    /// Executables that the plugin could not serialise.
    serialize_failures,
    /// Passes run.
    passes_run,
    /// Programs emitted.
    emits,
    /// Compilations started in the background.
    async_compiles,
    /// Calls that eager served while their program was compiled in the background.
    eager_calls,
    /// Executions of compiled graphs.
    executions,
    /// Executions of weight programs.
    weight_executions,
    /// Bytes that weight programs hold beside the weights.
    weight_bytes,
    /// Parts of graphs that run in eager on each call.
    eager_parts,
    /// Programs built for a bucket of sizes.
    buckets,
    /// Symbol bindings compiled at their exact size.
    bucket_exact,
    /// Elements added by padding.
    pad_elements,
    /// Inputs whose own memory a program wrote its result to.
    donations,
    /// Inputs that were copied because their memory was strided or not aligned.
    input_copies,
    /// Nanoseconds in loading plugins and making their clients.
    plugin_ns,
    /// Nanoseconds in the plugin's execution of main programs.
    execute_ns,
    /// Nanoseconds in runs of weight programs.
    weight_ns,
    /// Nanoseconds in the walk of FX graphs.
    walk_ns,
    /// Nanoseconds in lowering to the graph.
    lower_ns,
    /// Nanoseconds in passes.
    passes_ns,
    /// Nanoseconds in emission.
    emit_ns,
    /// Nanoseconds in the plugin's compiler.
    compile_ns,
    /// Nanoseconds in loading executables from the cache.
    load_ns,
    /// Nanoseconds in computing keys and in cache files.
    cache_ns,
}

/// Adds one.
pub fn count(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Adds `n`.
pub fn count_n(counter: &AtomicU64, n: u64) {
    counter.fetch_add(n, Ordering::Relaxed);
}

/// Adds a duration in nanoseconds.
pub fn time(counter: &AtomicU64, elapsed: Duration) {
    counter.fetch_add(u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
}
