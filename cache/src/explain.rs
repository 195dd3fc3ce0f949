//! Why a record misses: the nearest entry there is, and in what it differs.

use crate::inspect::{EntryInfo, describe};
use crate::key::{FieldDifference, Key, KeyRecord};
use crate::store::Store;

/// What [`Store::explain`] found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation {
    /// Entries of the same kind that were compared.
    pub compared: u64,
    /// The entry with the fewest differing fields, the most recently used of several; `None` if there are no entries
    /// of this kind.
    pub nearest: Option<Nearest>,
}

/// The entry nearest to a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nearest {
    /// The entry.
    pub entry: EntryInfo,
    /// The differing fields, the record's own in its order first. Empty if the entry has this very record.
    pub differences: Vec<FieldDifference>,
}

impl Nearest {
    /// The first field that differs.
    #[must_use]
    pub fn first(&self) -> Option<&FieldDifference> {
        self.differences.first()
    }
}

impl std::fmt::Display for Explanation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Some(nearest) = &self.nearest else { return f.write_str("no entries of this kind to compare with") };
        match nearest.first() {
            None => write!(f, "{} has this record", nearest.entry.key),
            Some(first) => write!(
                f,
                "nearest of {} entries is {}: {} of its fields differ, the first is {first}",
                self.compared,
                nearest.entry.key,
                nearest.differences.len()
            ),
        }
    }
}

impl Store {
    /// Compares a record with the entries of its kind in all directories, by their headers alone.
    #[must_use]
    pub fn explain(&self, record: &KeyRecord) -> Explanation {
        self.compare(record, None)
    }

    /// As [`Store::explain`], leaving the record's own entry out: what was nearest before that was put.
    #[must_use]
    pub fn explain_others(&self, record: &KeyRecord) -> Explanation {
        self.compare(record, Some(record.key()))
    }

    fn compare(&self, record: &KeyRecord, own: Option<Key>) -> Explanation {
        let mut explanation = Explanation { compared: 0, nearest: None };
        for (id, layer) in self.layers() {
            for found in self.inner.walk(layer) {
                if found.name.is_none_or(|(key, kind)| kind != record.kind() || Some(key) == own) {
                    continue;
                }
                let Some(Ok(entry)) = describe(&found, &id, layer) else { continue };
                explanation.compared += 1;
                let differences = record.differences(&entry.record);
                let nearer = explanation.nearest.as_ref().is_none_or(|best| {
                    let rank = |fields: usize, entry: &EntryInfo| (fields, std::cmp::Reverse(entry.last_used));
                    rank(differences.len(), &entry) < rank(best.differences.len(), &best.entry)
                });
                if nearer {
                    explanation.nearest = Some(Nearest { entry, differences });
                }
            }
        }
        explanation
    }
}
