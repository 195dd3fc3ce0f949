//! What operations cost on each device.
//!
//! TPU figures are in the TPU compiler's estimated cycles, fitted to its estimates of single operations (libtpu 0.0.52, ahead of time). CPU
//! figures are in nanoseconds of the CPU plugin on two cores with AVX-512. Only costs of one device are ever compared.

/// A device with a cost table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The CPU plugin.
    #[default]
    Cpu,
    /// TPU v5e, and generations before it.
    V5e,
    /// TPU v6e.
    V6e,
    /// TPU 7x.
    Tpu7x,
}

impl Device {
    /// Every device with a table.
    pub const ALL: [Device; 4] = [Device::Cpu, Device::V5e, Device::V6e, Device::Tpu7x];

    /// The table nearest to what PJRT calls a device's kind, as `TPU v6 lite`.
    pub fn of_tpu_kind(kind: &str) -> Device {
        let kind = kind.to_ascii_lowercase();
        match () {
            () if kind.contains("v6") => Device::V6e,
            () if kind.contains("7x") || kind.contains("v7") => Device::Tpu7x,
            () => Device::V5e,
        }
    }

    /// Its table.
    pub fn table(self) -> &'static Table {
        match self {
            Device::Cpu => &CPU,
            Device::V5e => &V5E,
            Device::V6e => &V6E,
            Device::Tpu7x => &TPU7X,
        }
    }
}

/// Rates are per unit of cost.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    /// What a unit of cost is.
    pub unit: &'static str,
    /// Least cost of a kernel.
    pub kernel: f64,
    /// Added to a product or convolution, at most: starting threads, filling pipelines.
    pub start: f64,
    /// Floating-point operations of a product of `bf16`.
    pub flops_bf16: f64,
    /// Floating-point operations of a product of `f32` at each requested accuracy: default, high, highest.
    pub flops_f32: [f64; 3],
    /// Share of the peak that a large product reaches.
    pub efficiency: f64,
    /// Bytes that a product's right operand arrives by.
    pub weight_bytes: f64,
    /// Bytes that other operands and results of a product pass by.
    pub stream_bytes: f64,
    /// Bytes of memory that a kernel reads and writes.
    pub memory_bytes: f64,
    /// Elements of a simple elementwise op inside of a kernel that is there anyway.
    pub fused: f64,
    /// How many times a simple op an exponential, logarithm, error function or the like costs.
    pub transcendental: f64,
    /// Elements of an elementwise kernel that reads memory.
    pub elementwise: f64,
    /// Elements of a reduction.
    pub reduce: f64,
    /// Elements of a slice; most are part of what reads them.
    pub slice: f64,
    /// Elements of a transpose that moves the last axis.
    pub transpose_minor: f64,
    /// Elements of a transpose that keeps the last axis.
    pub transpose_major: f64,
    /// Elements of a concatenation or padding.
    pub concat: f64,
    /// Elements of a sort, for each doubling of its length.
    pub sort: f64,
    /// Passes over its data that a softmax takes, as elementwise kernels.
    pub softmax_passes: f64,
    /// Elements of a gather's or scatter's rows.
    pub gather: f64,
    /// Attention divides by the sums of its weights after the product with the values: less work, but not the form that the TPU compiler
    /// has a kernel for.
    pub divide_after_product: bool,
}

const CPU: Table = Table {
    unit: "ns",
    kernel: 1_500.0,
    start: 15_000.0,
    flops_bf16: 300.0,
    flops_f32: [150.0; 3],
    efficiency: 1.0,
    weight_bytes: 15.0,
    stream_bytes: 40.0,
    memory_bytes: 15.0,
    fused: 40.0,
    transcendental: 4.0,
    elementwise: 3.0,
    reduce: 4.0,
    slice: 2.0,
    transpose_minor: 0.3,
    transpose_major: 2.0,
    concat: 1.5,
    sort: 0.05,
    softmax_passes: 4.0,
    gather: 2.0,
    divide_after_product: true,
};

const V5E: Table = Table {
    unit: "cycles",
    kernel: 1_830.0,
    start: 2_300.0,
    flops_bf16: 131_072.0,
    flops_f32: [131_072.0, 47_000.0, 25_000.0],
    efficiency: 0.95,
    weight_bytes: 492.0,
    stream_bytes: 1_400.0,
    memory_bytes: 492.0,
    fused: 1_000.0,
    transcendental: 3.0,
    elementwise: 55.0,
    reduce: 72.0,
    slice: 110.0,
    transpose_minor: 38.0,
    transpose_major: 55.0,
    concat: 21.0,
    sort: 20.0,
    softmax_passes: 3.3,
    gather: 25.0,
    divide_after_product: false,
};

const V6E: Table = Table {
    unit: "cycles",
    kernel: 2_120.0,
    start: 2_400.0,
    flops_bf16: 524_288.0,
    flops_f32: [524_288.0, 210_000.0, 105_000.0],
    efficiency: 0.87,
    weight_bytes: 936.0,
    stream_bytes: 1_800.0,
    memory_bytes: 936.0,
    fused: 2_000.0,
    transcendental: 3.0,
    elementwise: 94.0,
    reduce: 118.0,
    slice: 190.0,
    transpose_minor: 50.0,
    transpose_major: 94.0,
    concat: 40.0,
    sort: 30.0,
    softmax_passes: 3.3,
    gather: 40.0,
    divide_after_product: false,
};

const TPU7X: Table = Table {
    unit: "cycles",
    kernel: 2_300.0,
    start: 2_500.0,
    flops_bf16: 524_288.0,
    flops_f32: [524_288.0, 210_000.0, 105_000.0],
    efficiency: 0.81,
    weight_bytes: 1_940.0,
    stream_bytes: 3_600.0,
    memory_bytes: 1_940.0,
    fused: 3_000.0,
    transcendental: 3.0,
    elementwise: 157.0,
    reduce: 188.0,
    slice: 310.0,
    transpose_minor: 160.0,
    transpose_major: 160.0,
    concat: 65.0,
    sort: 50.0,
    softmax_passes: 2.8,
    gather: 80.0,
    divide_after_product: false,
};
