//! A compiled program as bytes that stand alone: the recipe, the executables, and the emitted programs to compile them anew from.

use std::sync::{Mutex, PoisonError};

use rustc_hash::FxHashMap;

use clutch_cache::{Entry, KeyRecord, Metadata, Store};

use crate::compile::{self, Code, compile_options};
use crate::driver::{Artifact, BuildError, Report};
use crate::graph_entry::{GraphEntry, put, take};
use crate::keys::executable_key;
use crate::runtime::device::Device;

/// Start of the bytes; changing their form changes this.
const MAGIC: &[u8; 8] = b"CLUTCHP2";

/// Why a program cannot be saved or loaded.
#[derive(Debug, thiserror::Error)]
pub enum SavedError {
    /// The program was built without keeping what is saved.
    #[error("the plugin cannot give the executable as bytes: {0}")]
    NoBytes(String),
    /// The bytes are not a saved program of this version.
    #[error("not the bytes of a saved program, or another version of Clutch wrote them")]
    Bytes,
    /// It was made for another kind of device.
    #[error("it was saved for {saved}, and this is {here}; save it again with options={{\"target\": ...}} for this device")]
    Platform {
        /// What it was made for.
        saved: String,
        /// What it was to be loaded on.
        here: String,
    },
    /// The device is not here, or compiling anew failed.
    #[error(transparent)]
    Build(#[from] BuildError),
}

/// One executable and the program that it was compiled from.
struct Part {
    hlo: Vec<u8>,
    executable: Vec<u8>,
}

/// Of a bucket's program, [`Bucketed::digest`](crate::bucket::Bucketed::digest); of an exact one, zeros.
pub type Digest = [u8; 32];

/// A program's bytes, taken apart.
pub struct SavedProgram {
    digest: Digest,
    entry: GraphEntry,
    main: Part,
    weights: Option<Part>,
}

/// What loading did.
pub struct Loaded {
    /// The program, ready to run.
    pub artifact: Artifact,
    /// The first field of the key that differs, when the program was compiled anew.
    pub recompiled_for: Option<String>,
}

impl SavedProgram {
    /// Takes what is to be saved from a program that was built with [`Config::keep_programs`](crate::driver::Config::keep_programs).
    ///
    /// # Errors
    /// When the plugin cannot serialise.
    pub fn of(artifact: &Artifact, digest: Digest, store: Option<&Store>) -> Result<Self, SavedError> {
        let mut parts = artifact.report.programs.iter();
        let mut next = |code: &Code| -> Result<(KeyRecord, Part), SavedError> {
            let kept = parts.next().ok_or_else(|| SavedError::NoBytes("it was not kept".to_owned()))?;
            let stored = || store.and_then(|s| s.get(&kept.record)).map(|entry| entry.payload);
            let executable = match code.executable() {
                Some(executable) if kept.fresh => executable.serialize().map_err(|e| SavedError::NoBytes(e.to_string()))?,
                _ => stored().ok_or_else(|| SavedError::NoBytes("its cache entry is gone; try again".to_owned()))?,
            };
            Ok((kept.record.clone(), Part { hlo: kept.hlo.clone(), executable }))
        };
        let (main_record, main) = next(&artifact.main)?;
        let (weights_record, weights) = match &artifact.weights {
            Some(code) => next(code).map(|(record, part)| (Some(record), Some(part)))?,
            None => (None, None),
        };
        let entry = GraphEntry { recipe: artifact.recipe.clone(), main: main_record, weights: weights_record };
        Ok(SavedProgram { digest, entry, main, weights })
    }

    /// The bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = [MAGIC.as_slice(), &self.digest].concat();
        put(&mut out, &self.entry.encode());
        for part in std::iter::once(&self.main).chain(&self.weights) {
            put(&mut out, &part.hlo);
            put(&mut out, &part.executable);
        }
        out
    }

    /// The program in `bytes`.
    ///
    /// # Errors
    /// When they are anything else.
    pub fn decode(bytes: &[u8]) -> Result<Self, SavedError> {
        let rest = bytes.strip_prefix(MAGIC).ok_or(SavedError::Bytes)?;
        let (&digest, mut rest) = rest.split_first_chunk().ok_or(SavedError::Bytes)?;
        let entry = take(&mut rest).and_then(GraphEntry::decode).ok_or(SavedError::Bytes)?;
        let mut part = || {
            let hlo = take(&mut rest)?.to_vec();
            Some(Part { hlo, executable: take(&mut rest)?.to_vec() })
        };
        let main = part().ok_or(SavedError::Bytes)?;
        let weights = match entry.weights {
            Some(_) => Some(part().ok_or(SavedError::Bytes)?),
            None => None,
        };
        if rest.is_empty() { Ok(SavedProgram { digest, entry, main, weights }) } else { Err(SavedError::Bytes) }
    }

    /// Loads the executables on `device`; those that were compiled for another build of the plugin or another processor are compiled
    /// anew, through the cache when there is one.
    ///
    /// # Errors
    /// When the device is of another kind than the saved one, or compiling anew fails.
    pub fn load(self, device: &Device, store: Option<&Store>) -> Result<Loaded, SavedError> {
        let mut recompiled_for = None;
        let mut code = |part: Part, record: &KeyRecord, label: &str| -> Result<Code, SavedError> {
            let here = executable_key(&part.hlo, &compile_options(device), device).map_err(BuildError::Plugin)?;
            let text = |record: &KeyRecord, name: &str| record.get(name).map(ToString::to_string);
            if text(&here, "platform") != text(record, "platform") {
                let kind = |r: &KeyRecord| text(r, "device_kind").or_else(|| text(r, "platform")).unwrap_or_default();
                return Err(SavedError::Platform { saved: kind(record), here: kind(&here) });
            }
            let difference = here.first_difference(record);
            if difference.is_none() {
                let entry = Entry { record: here, metadata: Metadata::new(), payload: part.executable };
                if let Some(code) = compile::load(entry, device) {
                    return Ok(code);
                }
            }
            recompiled_for = Some(difference.map_or_else(|| "the plugin refused it".to_owned(), |d| d.name));
            Ok(compile::compile(&part.hlo, device, store, label)?.code)
        };
        let main = code(self.main, &self.entry.main, "main")?;
        let weights = match (self.weights, &self.entry.weights) {
            (Some(part), Some(record)) => Some(code(part, record, "weights")?),
            _ => None,
        };
        let artifact = Artifact { recipe: self.entry.recipe, main, weights, key: self.entry.main, report: Report::default() };
        Ok(Loaded { artifact, recompiled_for })
    }
}

/// The programs of a file, by the sizes that they were compiled for; each is loaded when it is first wanted.
pub struct SavedPrograms {
    parts: FxHashMap<Vec<i64>, Vec<u8>>,
    recompiled_for: Mutex<Option<String>>,
}

impl SavedPrograms {
    /// Programs as [`SavedProgram::encode`] wrote them.
    pub fn new(parts: impl IntoIterator<Item = (Vec<i64>, Vec<u8>)>) -> Self {
        SavedPrograms { parts: parts.into_iter().collect(), recompiled_for: Mutex::default() }
    }

    /// The program for these sizes; `None` when there is none, or when this version of Clutch makes another program of the captured one,
    /// which is logged.
    ///
    /// # Errors
    /// As [`SavedProgram::load`].
    pub fn load(&self, sizes: &[i64], digest: Digest, device: &Device, store: Option<&Store>) -> Result<Option<Artifact>, SavedError> {
        let Some(bytes) = self.parts.get(sizes) else {
            tracing::warn!(?sizes, "the file has no program for these sizes; it is compiled now");
            return Ok(None);
        };
        let program = SavedProgram::decode(bytes)?;
        if program.digest != digest {
            tracing::warn!(?sizes, "another version of Clutch saved the program; it is compiled anew");
            self.was_recompiled("clutch");
            return Ok(None);
        }
        let loaded = program.load(device, store)?;
        if let Some(field) = &loaded.recompiled_for {
            tracing::warn!(?sizes, "the program was saved for another {field} and was compiled anew; save it again to start faster");
            self.was_recompiled(field);
        }
        Ok(Some(loaded.artifact))
    }

    fn was_recompiled(&self, field: &str) {
        let mut place = self.recompiled_for.lock().unwrap_or_else(PoisonError::into_inner);
        place.get_or_insert_with(|| field.to_owned());
    }

    /// The first field of a key that differed here, when a program was compiled anew.
    pub fn recompiled_for(&self) -> Option<String> {
        self.recompiled_for.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
