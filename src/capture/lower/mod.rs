//! Lowering: a captured program, with a value for each symbol, becomes a graph. One file per ATen family; [`table`] joins them.

mod activation;
mod adaptive_max;
mod airy_fits;
mod arithmetic;
mod attention;
mod batch_norm;
mod bessel;
mod bessel_fits;
mod call;
mod cast;
mod compare;
mod context;
mod conv;
mod creation;
mod cumulative;
mod distance;
mod elementwise;
mod embedding_bag;
mod error;
mod fft;
mod float_parts;
mod foreach;
mod grid_sample;
pub mod helpers;
mod incomplete_gamma;
mod index;
mod jacobi;
mod join;
mod linalg;
mod logit;
mod loops;
mod loss;
mod lu;
mod matmul;
mod moe;
mod mutation;
mod norm;
mod piecewise;
mod polynomials;
mod pool;
pub mod promote;
mod qr;
mod random;
mod reduce;
mod resample;
mod rrelu;
mod scatter;
mod slicing;
mod softmax;
mod sort;
mod special;
mod special_fits;
mod statistics;
mod strided;
pub mod table;
mod triangular;
mod view;
mod zeta;

pub use call::Call;
pub use context::{LowerOptions, Lowered, Lowering, Sink, Source, lower};
pub use error::{LowerError, Unsupported};

/// Lowers one call: gives one value per result of the operator; `None` for results that no one can use.
pub type LowerFn = fn(&mut Lowering<'_>, &Call<'_>) -> Result<Outputs, LowerError>;

/// Values of a call's results.
pub type Outputs = smallvec::SmallVec<[Option<clutch_graph::ValueId>; 1]>;

/// The only result of a call.
pub fn one(value: clutch_graph::ValueId) -> Result<Outputs, LowerError> {
    Ok(smallvec::smallvec![Some(value)])
}

/// All results of a call, in order.
pub fn many(values: impl IntoIterator<Item = clutch_graph::ValueId>) -> Result<Outputs, LowerError> {
    Ok(values.into_iter().map(Some).collect())
}
