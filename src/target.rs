//! What a program is compiled for.

use std::fmt;

/// The `target` option.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Target {
    /// A TPU when one is attached to this machine, else the CPU.
    #[default]
    Auto,
    /// The CPU plugin.
    Cpu,
    /// The TPU of this machine.
    Tpu,
    /// A TPU topology that need not be here, as in `v5e:2x2`: compiled ahead of time.
    Topology(String),
}

/// A target name that means nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown target `{name}`; accepted: auto, cpu, tpu, or a TPU topology as in {examples}")]
pub struct UnknownTarget {
    /// What was given.
    pub name: String,
    /// Accepted topologies.
    pub examples: String,
}

impl Target {
    /// Reads a target name.
    ///
    /// # Errors
    /// When it is neither a platform nor of the form `generation:shape` with a known generation.
    pub fn parse(name: &str) -> Result<Target, UnknownTarget> {
        match name {
            "" | "auto" => return Ok(Target::Auto),
            "cpu" => return Ok(Target::Cpu),
            "tpu" => return Ok(Target::Tpu),
            _ => {}
        }
        let known = name.split_once(':').is_some_and(|(generation, shape)| {
            GENERATIONS.contains(&generation) && shape.split('x').all(|n| n.parse::<u32>().is_ok_and(|n| n > 0))
        });
        if known {
            Ok(Target::Topology(name.to_owned()))
        } else {
            let examples =
                GENERATIONS.map(|g| format!("{g}:{}", if matches!(g, "v4" | "v5p" | "tpu7x") { "1x1x1" } else { "1x1" })).join(", ");
            Err(UnknownTarget { name: name.to_owned(), examples })
        }
    }
}

/// TPU generations whose topologies can be named.
const GENERATIONS: [&str; 7] = ["v2", "v3", "v4", "v5e", "v5p", "v6e", "tpu7x"];

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Target::Auto => "auto",
            Target::Cpu => "cpu",
            Target::Tpu => "tpu",
            Target::Topology(name) => name,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_wrong_ones_refused() {
        assert_eq!(Target::parse("auto"), Ok(Target::Auto));
        assert_eq!(Target::parse("v5e:2x2"), Ok(Target::Topology("v5e:2x2".into())));
        for wrong in ["v5litepod-4", "v7x:1x1", "v5e", "v5e:", "v5e:0x1", "gpu"] {
            let error = Target::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("v5e:1x1") && error.contains(wrong), "{error}");
        }
    }
}
