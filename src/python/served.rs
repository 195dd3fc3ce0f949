//! Which program serves a call: the bucket for its sizes, or the exact one.

use std::collections::hash_map::Entry;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;

use crate::bucket::bind::Binding;
use crate::bucket::ladder::{Ladder, SMALLEST};
use crate::bucket::{BucketError, Bucketed, Template, bucket};
use crate::capture::lower::LowerOptions;
use crate::capture::program::Program;
use crate::runtime::call::Runner;
use crate::runtime::sizes::Symbols;

/// A compiled program, and what binds it to the true sizes of a call when it serves several.
#[derive(Clone)]
pub struct Served {
    /// The program.
    pub runner: Arc<Runner>,
    /// The true sizes, for a bucket's program.
    pub binding: Option<Arc<Binding>>,
}

/// A bucket's compiled program.
pub struct Bucket {
    /// Binds it to true sizes.
    pub template: Template,
    /// The program.
    pub runner: Arc<Runner>,
}

/// The choice of buckets of one captured program.
#[derive(Default)]
pub struct Buckets {
    /// Of each symbol.
    ladders: Vec<Ladder>,
    largest: Vec<Option<i64>>,
    made: Mutex<FxHashMap<Symbols, Option<Arc<Bucket>>>>,
}

impl Buckets {
    /// Buckets by the ladder of each symbol; `largest` holds their declared maxima.
    pub fn new(ladders: Vec<Ladder>, largest: Vec<Option<i64>>) -> Self {
        Buckets { ladders, largest, made: Mutex::default() }
    }

    /// A symbol whose size is beyond the last bucket of its ladder, and that bucket.
    pub fn beyond(&self, symbols: &Symbols) -> Option<(usize, i64)> {
        let last = |ladder: &Ladder| if let Ladder::List(sizes) = ladder { sizes.last().copied() } else { None };
        let mut lasts = self.ladders.iter().map(last).zip(symbols).enumerate();
        lasts.find_map(|(i, (last, &size))| last.filter(|&last| size > last).map(|last| (i, last)))
    }

    /// The declared maximum of each symbol.
    pub fn largest(&self) -> &[Option<i64>] {
        &self.largest
    }

    /// The bucket's sizes for these sizes; `None` when they are compiled exactly.
    pub fn choose(&self, symbols: &Symbols) -> Option<Symbols> {
        if self.ladders.iter().all(|ladder| *ladder == Ladder::Exact) {
            return None;
        }
        // One size beyond a list's end makes the whole program exact.
        let sizes: Option<Symbols> = symbols.iter().enumerate().map(|(i, &size)| self.rung(i, size)).collect();
        sizes.filter(|sizes| sizes.iter().any(|&s| s > SMALLEST))
    }

    /// The bucket of one symbol's size; buckets up to the smallest are not padded.
    fn rung(&self, symbol: usize, size: i64) -> Option<i64> {
        let bucket = self.ladders[symbol].bucket(size, self.largest.get(symbol).copied().flatten())?;
        Some(if bucket <= SMALLEST { size } else { bucket })
    }

    /// The sizes that each symbol is compiled for, to serve all sizes in a range (first and last).
    pub fn rungs(&self, ranges: &[(i64, i64)]) -> Vec<Vec<i64>> {
        let of = |(symbol, &(first, last)): (usize, &(i64, i64))| {
            let mut rungs: Vec<i64> = (first..=last).filter_map(|size| self.rung(symbol, size)).collect();
            rungs.dedup();
            rungs
        };
        ranges.iter().enumerate().map(of).collect()
    }

    /// The bucket of these sizes, made at first use; `None` when it cannot be had, which is logged once.
    ///
    /// # Errors
    /// With what `build` raises.
    pub fn get<E>(
        &self,
        sizes: &Symbols,
        program: &Program,
        options: LowerOptions,
        build: impl FnOnce(&Bucketed) -> Result<Arc<Runner>, E>,
    ) -> Result<Option<Arc<Bucket>>, E> {
        if let Some(found) = self.lock().get(sizes) {
            return Ok(found.clone());
        }
        let made = match bucket(program, sizes, options) {
            Ok(bucketed) => {
                let runner = build(&bucketed)?;
                Some(Arc::new(Bucket { template: bucketed.template, runner }))
            }
            Err(reason) => {
                explain(&reason, sizes);
                None
            }
        };
        Ok(match self.lock().entry(sizes.clone()) {
            Entry::Occupied(first) => first.get().clone(),
            Entry::Vacant(place) => place.insert(made).clone(),
        })
    }

    /// The buckets that are ready and no smaller than these sizes, the one with the least padding first.
    pub fn larger(&self, symbols: &Symbols) -> Vec<Arc<Bucket>> {
        // Sizes up to the smallest bucket are not padded.
        let serves = |(&bucket, &size): (&i64, &i64)| bucket == size || (size > SMALLEST && bucket > size);
        let mut found: Vec<(Symbols, Arc<Bucket>)> = self
            .lock()
            .iter()
            .filter(|(sizes, _)| sizes.iter().zip(symbols).all(serves))
            .filter_map(|(sizes, bucket)| Some((sizes.clone(), bucket.clone()?)))
            .collect();
        found.sort_by_key(|(sizes, _)| (sizes.iter().product::<i64>(), sizes.clone()));
        found.into_iter().map(|(_, bucket)| bucket).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, FxHashMap<Symbols, Option<Arc<Bucket>>>> {
        self.made.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn explain(reason: &BucketError, sizes: &Symbols) {
    match reason {
        BucketError::Small | BucketError::Unsupported => tracing::info!(?sizes, %reason, "sizes are compiled exactly"),
        _ => tracing::warn!(?sizes, %reason, "padding could not be proved harmless; sizes are compiled exactly"),
    }
}
