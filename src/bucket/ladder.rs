//! Ladders: which bucket serves a size.

/// Sizes below this are compiled exactly.
pub const SMALLEST: i64 = 8;

/// Ladders of bucket sizes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Ladder {
    /// Geometric: at most a quarter of the true size is added, in multiples of 8 where that allows it.
    #[default]
    Auto,
    /// Powers of two.
    PowersOfTwo,
    /// Every size is its own bucket.
    Exact,
    /// The listed sizes, increasing.
    List(Vec<i64>),
}

/// A ladder that cannot be used, and why.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LadderError {
    /// The word is unknown and is no list of numbers.
    #[error("{0:?} is no ladder; accepted: auto, pow2, exact, or sizes as in 64,128,256")]
    Unknown(String),
    /// The list has no sizes.
    #[error("a ladder needs at least one size")]
    Empty,
    /// Sizes do not increase.
    #[error("the sizes of a ladder must increase; {1} follows {0}")]
    Unsorted(i64, i64),
    /// A size that no tensor has.
    #[error("{0} cannot be a bucket; sizes start at 2, since PyTorch compiles 0 and 1 apart")]
    TooSmall(i64),
}

impl Ladder {
    /// The ladder that the option `buckets` names.
    ///
    /// # Errors
    /// When it is neither a known word nor an increasing list of sizes from 2 up.
    pub fn parse(text: &str) -> Result<Self, LadderError> {
        match text {
            "auto" => return Ok(Ladder::Auto),
            "pow2" => return Ok(Ladder::PowersOfTwo),
            "exact" => return Ok(Ladder::Exact),
            _ => {}
        }
        if text.trim().is_empty() {
            return Err(LadderError::Empty);
        }
        let sizes: Result<Vec<i64>, _> = text.split(',').map(|word| word.trim().parse()).collect();
        let sizes = sizes.map_err(|_| LadderError::Unknown(text.to_owned()))?;
        let first = *sizes.first().ok_or(LadderError::Empty)?;
        if first < 2 {
            return Err(LadderError::TooSmall(first));
        }
        match sizes.windows(2).find(|w| w[0] >= w[1]) {
            Some(w) => Err(LadderError::Unsorted(w[0], w[1])),
            None => Ok(Ladder::List(sizes)),
        }
    }

    /// The bucket that serves `size`, ending exactly at `max` where one is declared; `None` when no bucket is large enough.
    pub fn bucket(&self, size: i64, max: Option<i64>) -> Option<i64> {
        let found = match self {
            Ladder::Exact => size,
            Ladder::PowersOfTwo => u64::try_from(size).ok()?.checked_next_power_of_two()?.try_into().ok()?,
            Ladder::List(sizes) => sizes.iter().copied().find(|&s| s >= size)?,
            Ladder::Auto => auto(size),
        };
        Some(match max {
            Some(max) if max >= size => found.min(max),
            _ => found,
        })
    }
}

/// The first rung from `size` up: each is the largest multiple of 8 within a quarter over the smallest size that it serves.
fn auto(size: i64) -> i64 {
    let mut rung = SMALLEST;
    if size <= rung {
        return size;
    }
    while rung < size {
        let smallest = rung + 1;
        let limit = smallest + smallest / 4;
        let aligned = limit / 8 * 8;
        rung = if aligned >= smallest { aligned } else { limit };
    }
    rung
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn auto_wastes_at_most_a_quarter_and_is_monotone() {
        let mut last = 0;
        for size in 1..5000 {
            let bucket = auto(size);
            assert!(bucket >= size && bucket >= last && bucket - size <= size / 4, "{size} -> {bucket}");
            assert_eq!(auto(bucket), bucket, "a rung serves itself");
            last = bucket;
        }
    }

    #[test]
    fn the_declared_maximum_is_a_rung() {
        assert_eq!(Ladder::Auto.bucket(510, Some(512)), Some(512));
        assert_eq!(Ladder::PowersOfTwo.bucket(65, Some(100)), Some(100));
        assert_eq!(Ladder::PowersOfTwo.bucket(65, None), Some(128));
        assert_eq!(Ladder::List(vec![64, 128]).bucket(65, None), Some(128));
        assert_eq!(Ladder::List(vec![64, 128]).bucket(129, None), None);
        assert_eq!(Ladder::Exact.bucket(77, Some(512)), Some(77));
    }

    #[test]
    fn bad_ladders_are_refused_with_the_reason() {
        assert_eq!(Ladder::parse("64, 128"), Ok(Ladder::List(vec![64, 128])));
        assert_eq!(Ladder::parse("128,64"), Err(LadderError::Unsorted(128, 64)));
        assert_eq!(Ladder::parse("1,2"), Err(LadderError::TooSmall(1)));
        assert_eq!(Ladder::parse(""), Err(LadderError::Empty));
        assert_eq!(Ladder::parse("8,,16"), Err(LadderError::Unknown("8,,16".to_owned())));
        assert_eq!(Ladder::parse("large"), Err(LadderError::Unknown("large".to_owned())));
    }
}
