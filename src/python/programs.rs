//! The compiled programs of one captured graph: found by the sizes of a call, and built where there is none. No Python here, so that
//! programs can be built on other threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clutch_cache::Store;
use rustc_hash::{FxHashMap, FxHashSet};

use super::served::{Buckets, Served};
use crate::background;
use crate::bucket::Bucketed;
use crate::bucket::bind::Binding;
use crate::capture::lower::{Unsupported, lower};
use crate::capture::program::Program;
use crate::driver::{Artifact, BuildError, Built, Config, build, build_bucket, load};
use crate::metrics::{METRICS, count};
use crate::runtime::call::Runner;
use crate::runtime::device::Device;
use crate::runtime::sizes::Symbols;
use crate::runtime::weights::WeightTable;
use crate::saved::{Digest, SavedError, SavedPrograms};
use crate::strict;

/// Why there is no program for some sizes.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    /// The pipeline failed.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A saved program cannot be loaded.
    #[error(transparent)]
    Saved(#[from] SavedError),
    /// These calls cannot be lowered.
    #[error("{} operators have no lowering", .0.len())]
    Unsupported(Vec<Unsupported>),
}

/// What serves a call.
pub enum Service {
    /// This program, for all calls of these sizes.
    Ready(Served),
    /// This one until the program for these sizes is compiled; `None` while eager has to.
    Meanwhile(Option<Served>),
}

/// A captured graph and its compiled programs.
pub struct Programs {
    /// The captured graph.
    pub program: Program,
    /// Choices of compilation.
    pub config: Config,
    /// What programs are compiled for.
    pub device: Device,
    /// The cache.
    pub store: Option<Store>,
    /// Programs for buckets of sizes.
    pub buckets: Buckets,
    /// Programs of a file, taken before any is built.
    pub saved: Option<SavedPrograms>,
    weights: Arc<WeightTable>,
    served: Mutex<FxHashMap<Symbols, Served>>,
    last: Mutex<Option<Arc<Artifact>>>,
    background: Mutex<Background>,
}

/// Compilations in the background.
#[derive(Default)]
struct Background {
    /// Sizes whose programs are being compiled.
    pending: FxHashSet<Symbols>,
    /// Sizes whose compilation failed: eager serves them.
    failed: FxHashSet<Symbols>,
    /// Larger buckets that serve sizes for the time being.
    meanwhile: FxHashMap<Symbols, Served>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Programs {
    /// No programs yet.
    pub fn new(program: Program, config: Config, device: Device, store: Option<Store>, buckets: Buckets) -> Self {
        let (weights, served, last, background) = Default::default();
        Programs { program, config, device, store, buckets, saved: None, weights, served, last, background }
    }

    /// The program built last.
    pub fn last(&self) -> Option<Arc<Artifact>> {
        lock(&self.last).clone()
    }

    /// All sizes that programs serve, in order.
    pub fn sizes_served(&self) -> Vec<Symbols> {
        let mut all: Vec<Symbols> = lock(&self.served).keys().cloned().collect();
        all.sort();
        all
    }

    /// Calls that cannot be lowered at these sizes.
    pub fn unsupported(&self, symbols: &Symbols) -> Vec<Unsupported> {
        lower(&self.program, symbols, self.config.lower_options()).map(|l| l.unsupported).unwrap_or_default()
    }

    /// What serves these sizes, if it is known.
    pub fn found(&self, symbols: &Symbols) -> Option<Served> {
        lock(&self.served).get(symbols).cloned()
    }

    /// Makes `served` what serves these sizes, in place of what did.
    pub fn put(&self, symbols: &Symbols, served: &Served) {
        lock(&self.served).insert(symbols.clone(), served.clone());
    }

    /// What serves these sizes, built here and now where there is none.
    ///
    /// # Errors
    /// With what building fails of.
    pub fn serve(&self, symbols: &Symbols) -> Result<Served, MakeError> {
        if let Some(found) = self.found(symbols) {
            return Ok(found);
        }
        let made = self.make(symbols)?;
        Ok(lock(&self.served).entry(symbols.clone()).or_insert(made).clone())
    }

    fn make(&self, symbols: &Symbols) -> Result<Served, MakeError> {
        let build = |bucketed: &Bucketed, sizes: &Symbols| {
            if let Some(runner) = self.saved_program(sizes, || bucketed.digest())? {
                return Ok(runner);
            }
            let built = build_bucket(&self.program, sizes, &bucketed.lowered, &self.device, &self.config, self.store.as_ref());
            count(&METRICS.buckets);
            self.runner(built)
        };
        if let Some(served) = self.in_bucket(symbols, build)? {
            return Ok(served);
        }
        if let Some(runner) = self.saved_program(symbols, Default::default)? {
            return Ok(Served { runner, binding: None });
        }
        let runner = self.build_exact(symbols, &self.config)?;
        if !symbols.is_empty() {
            count(&METRICS.bucket_exact);
        }
        Ok(Served { runner, binding: None })
    }

    fn saved_program(&self, sizes: &Symbols, digest: impl FnOnce() -> Digest) -> Result<Option<Arc<Runner>>, SavedError> {
        let Some(saved) = &self.saved else { return Ok(None) };
        let artifact = saved.load(sizes, digest(), &self.device, self.store.as_ref())?;
        Ok(artifact.map(|artifact| self.ready(Arc::new(artifact))))
    }

    /// A program for exactly these sizes.
    ///
    /// # Errors
    /// With what building fails of.
    pub fn build_exact(&self, symbols: &Symbols, config: &Config) -> Result<Arc<Runner>, MakeError> {
        self.runner(build(&self.program, symbols, &self.device, config, self.store.as_ref()))
    }

    /// The bucket for these sizes, made by `build` where there is none, bound to them; `None` when they are compiled exactly.
    fn in_bucket<E>(
        &self,
        symbols: &Symbols,
        build: impl FnOnce(&Bucketed, &Symbols) -> Result<Arc<Runner>, E>,
    ) -> Result<Option<Served>, E> {
        let options = self.config.lower_options();
        let Some(sizes) = self.buckets.choose(symbols) else { return Ok(None) };
        let Some(bucket) = self.buckets.get(&sizes, &self.program, options, |bucketed| build(bucketed, &sizes))? else { return Ok(None) };
        match Binding::of(&bucket.template, &self.program, symbols, options) {
            Ok(binding) => Ok(Some(Served { runner: bucket.runner.clone(), binding: Some(Arc::new(binding)) })),
            Err(reason) => {
                tracing::warn!(?symbols, %reason, "the bucket cannot serve these sizes; they are compiled exactly");
                Ok(None)
            }
        }
    }

    fn runner(&self, built: Result<Built, BuildError>) -> Result<Arc<Runner>, MakeError> {
        match built? {
            Built::Ready(artifact) => Ok(self.ready(Arc::from(artifact))),
            Built::Unsupported(calls) => Err(MakeError::Unsupported(calls)),
        }
    }

    fn ready(&self, artifact: Arc<Artifact>) -> Arc<Runner> {
        *lock(&self.last) = Some(Arc::clone(&artifact));
        Arc::new(Runner::new(artifact, Arc::clone(&self.weights)))
    }

    /// What serves these sizes without waiting for a compiler: a program that is ready or in the cache; else its compilation starts in
    /// the background, and a larger bucket or eager serves.
    pub fn serve_soon(self: &Arc<Self>, symbols: &Symbols) -> Service {
        if let Some(found) = self.found(symbols) {
            return Service::Ready(found);
        }
        let sizes = self.buckets.choose(symbols).unwrap_or_else(|| symbols.clone());
        let known = {
            let background = lock(&self.background);
            background.pending.contains(&sizes) || background.failed.contains(&sizes)
        };
        if !known {
            if let Some(served) = self.cached(symbols) {
                self.put(symbols, &served);
                return Service::Ready(served);
            }
            if strict::is_on() {
                // The caller builds, which says what strict mode forbids.
                return Service::Meanwhile(None);
            }
            if lock(&self.background).pending.insert(sizes.clone()) {
                let (programs, symbols) = (Arc::clone(self), symbols.clone());
                count(&METRICS.async_compiles);
                background::run(move || programs.compile_now(&symbols, &sizes));
            }
        }
        Service::Meanwhile(self.meanwhile(symbols))
    }

    /// What serves these sizes, from a bucket that is ready or from the cache.
    fn cached(&self, symbols: &Symbols) -> Option<Served> {
        let loaded = |sizes: &Symbols, bucketed: Option<&Bucketed>| {
            let artifact = load(&self.program, sizes, bucketed.is_some(), &self.device, &self.config, self.store.as_ref());
            artifact.map(|a| self.ready(Arc::new(a)))
        };
        match self.in_bucket(symbols, |bucketed, sizes| loaded(sizes, Some(bucketed)).ok_or(())) {
            Ok(Some(served)) => Some(served),
            Ok(None) => loaded(symbols, None).map(|runner| Served { runner, binding: None }),
            Err(()) => None,
        }
    }

    fn compile_now(&self, symbols: &Symbols, sizes: &Symbols) {
        let outcome = catch_unwind(AssertUnwindSafe(|| self.serve(symbols)));
        let mut background = lock(&self.background);
        background.pending.remove(sizes);
        background.meanwhile.clear();
        match outcome {
            // Strict mode came between: the next call after it tries again.
            Ok(Ok(_) | Err(MakeError::Build(BuildError::Strict))) => return,
            Ok(Err(error)) => tracing::warn!(?sizes, %error, "a compilation in the background failed; eager serves these sizes"),
            Err(_) => tracing::error!(?sizes, "internal: a compilation in the background panicked; eager serves these sizes"),
        }
        background.failed.insert(sizes.clone());
    }

    /// The smallest larger bucket that is ready.
    fn meanwhile(&self, symbols: &Symbols) -> Option<Served> {
        if let Some(served) = lock(&self.background).meanwhile.get(symbols) {
            return Some(served.clone());
        }
        let served = self.buckets.larger(symbols).into_iter().find_map(|bucket| {
            let binding = Binding::of(&bucket.template, &self.program, symbols, self.config.lower_options()).ok()?;
            Some(Served { runner: bucket.runner.clone(), binding: Some(Arc::new(binding)) })
        })?;
        lock(&self.background).meanwhile.insert(symbols.clone(), served.clone());
        Some(served)
    }
}
