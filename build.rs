//! Compiles the HLO messages of `proto/hlo.proto` to Rust, without a `protoc`, and digests the sources for the cache keys.

use std::error::Error;
use std::path::{Path, PathBuf};

/// Rarely set messages of an instruction, kept behind pointers so that an instruction stays small.
const BOXED: [&str; 11] = [
    "literal",
    "window",
    "convolution_dimension_numbers",
    "padding_config",
    "dot_dimension_numbers",
    "gather_dimension_numbers",
    "scatter_dimension_numbers",
    "precision_config",
    "triangular_solve_options",
    "cholesky_options",
    "shape",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/hlo.proto");
    let descriptors = protox::compile(["proto/hlo.proto"], ["proto"])?;
    let mut config = prost_build::Config::new();
    for field in BOXED {
        config.boxed(format!(".hlo.HloInstructionProto.{field}"));
    }
    config.compile_fds(descriptors)?;
    println!("cargo:rustc-env=CLUTCH_SOURCE_DIGEST={}", source_digest()?);
    Ok(())
}

/// Folders whose sources decide what code is made; a change in any of them must not hit entries of the build before.
const SOURCES: [&str; 5] = ["src", "graph/src", "passes/src", "pjrt/src", "proto"];

fn source_digest() -> Result<String, Box<dyn Error>> {
    let mut files = Vec::new();
    for folder in SOURCES {
        println!("cargo:rerun-if-changed={folder}");
        collect(Path::new(folder), &mut files)?;
    }
    files.sort();
    let mut hasher = blake3::Hasher::new();
    for file in files {
        let bytes = std::fs::read(&file)?;
        hasher.update(file.to_string_lossy().as_bytes());
        hasher.update(&(bytes.len() as u64).to_le_bytes());
        hasher.update(&bytes);
    }
    Ok(hasher.finalize().to_hex()[..16].to_owned())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
