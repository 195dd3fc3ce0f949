//! Compiles the HLO messages of `proto/hlo.proto` to Rust, without a `protoc`.

use std::error::Error;

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
    Ok(())
}
