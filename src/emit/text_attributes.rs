//! Attributes of instructions in HLO text.

use super::proto::precision_config::Precision;
use super::proto::triangular_solve_options::Transpose;
use super::proto::{ConvolutionDimensionNumbers, HloInstructionProto, Window};
use super::text::{Names, braced, push};

pub(super) fn attributes(out: &mut String, inst: &HloInstructionProto, names: &Names<'_>) {
    match inst.opcode.as_str() {
        "iota" => push(out, format_args!(", iota_dimension={}", inst.dimensions.first().copied().unwrap_or(0))),
        "broadcast" | "transpose" | "concatenate" | "reverse" | "reduce" | "sort" => {
            push(out, format_args!(", dimensions={}", braced(&inst.dimensions)));
        }
        "get-tuple-element" => push(out, format_args!(", index={}", inst.tuple_index)),
        "compare" => push(out, format_args!(", direction={}, type={}", inst.comparison_direction, inst.comparison_type)),
        "slice" => {
            let parts: Vec<String> = inst.slice_dimensions.iter().map(|s| format!("[{}:{}:{}]", s.start, s.limit, s.stride)).collect();
            push(out, format_args!(", slice={{{}}}", parts.join(", ")));
        }
        "dynamic-slice" => push(out, format_args!(", dynamic_slice_sizes={}", braced(&inst.dynamic_slice_sizes))),
        "fft" => push(out, format_args!(", fft_type={}, fft_length={}", inst.fft_type().as_str_name(), braced(&inst.fft_length))),
        "topk" => push(out, format_args!(", k={}, largest={}", inst.k, inst.largest)),
        "custom-call" => push(out, format_args!(", custom_call_target=\"{}\"", inst.custom_call_target)),
        _ => {}
    }
    structured(out, inst);
    if inst.feature_group_count > 1 {
        push(out, format_args!(", feature_group_count={}", inst.feature_group_count));
    }
    if inst.batch_group_count > 1 {
        push(out, format_args!(", batch_group_count={}", inst.batch_group_count));
    }
    if let Some(p) = &inst.precision_config {
        let words: Vec<&str> = p
            .operand_precision()
            .map(|p| match p {
                Precision::Default => "default",
                Precision::High => "high",
                Precision::Highest => "highest",
            })
            .collect();
        push(out, format_args!(", operand_precision={{{}}}", words.join(",")));
    }
    for (set, name) in
        [(inst.is_stable, "is_stable"), (inst.indices_are_sorted, "indices_are_sorted"), (inst.unique_indices, "unique_indices")]
    {
        if set {
            push(out, format_args!(", {name}=true"));
        }
    }
    let roles: &[&str] = match inst.opcode.as_str() {
        "while" => &["body", "condition"],
        "conditional" => &["true_computation", "false_computation"],
        "select-and-scatter" => &["select", "scatter"],
        _ => &["to_apply"],
    };
    for (role, id) in roles.iter().zip(&inst.called_computation_ids) {
        push(out, format_args!(", {role}={}", names.get(id).copied().unwrap_or("?")));
    }
}

fn structured(out: &mut String, inst: &HloInstructionProto) {
    if let Some(w) = &inst.window {
        push(out, format_args!(", window={{{}}}", window(w)));
    }
    if let Some(d) = &inst.convolution_dimension_numbers {
        push(out, format_args!(", dim_labels={}", labels(d)));
    }
    if let Some(p) = &inst.padding_config {
        let parts: Vec<String> = p
            .dimensions
            .iter()
            .map(|d| match d.interior_padding {
                0 => format!("{}_{}", d.edge_padding_low, d.edge_padding_high),
                interior => format!("{}_{}_{interior}", d.edge_padding_low, d.edge_padding_high),
            })
            .collect();
        push(out, format_args!(", padding={}", parts.join("x")));
    }
    if let Some(d) = &inst.dot_dimension_numbers {
        for (name, axes) in [
            ("lhs_batch_dims", &d.lhs_batch_dimensions),
            ("lhs_contracting_dims", &d.lhs_contracting_dimensions),
            ("rhs_batch_dims", &d.rhs_batch_dimensions),
            ("rhs_contracting_dims", &d.rhs_contracting_dimensions),
        ] {
            if !axes.is_empty() {
                push(out, format_args!(", {name}={}", braced(axes)));
            }
        }
    }
    if let Some(g) = &inst.gather_dimension_numbers {
        push(
            out,
            format_args!(
                ", offset_dims={}, collapsed_slice_dims={}, start_index_map={}, index_vector_dim={}, slice_sizes={}",
                braced(&g.offset_dims),
                braced(&g.collapsed_slice_dims),
                braced(&g.start_index_map),
                g.index_vector_dim,
                braced(&inst.gather_slice_sizes)
            ),
        );
    }
    if let Some(s) = &inst.scatter_dimension_numbers {
        push(
            out,
            format_args!(
                ", update_window_dims={}, inserted_window_dims={}, scatter_dims_to_operand_dims={}, index_vector_dim={}",
                braced(&s.update_window_dims),
                braced(&s.inserted_window_dims),
                braced(&s.scatter_dims_to_operand_dims),
                s.index_vector_dim
            ),
        );
    }
    if let Some(c) = &inst.cholesky_options {
        push(out, format_args!(", lower={}", c.lower));
    }
    if let Some(t) = &inst.triangular_solve_options {
        let transpose = if t.transpose_a() == Transpose::NoTranspose { "NO_TRANSPOSE" } else { "TRANSPOSE" };
        push(
            out,
            format_args!(", left_side={}, lower={}, unit_diagonal={}, transpose_a={transpose}", t.left_side, t.lower, t.unit_diagonal),
        );
    }
}

fn window(w: &Window) -> String {
    let d = &w.dimensions;
    let join = |f: &dyn Fn(usize) -> String| (0..d.len()).map(f).collect::<Vec<_>>().join("x");
    let mut words = vec![format!("size={}", join(&|i| d[i].size.to_string()))];
    if d.iter().any(|d| d.stride != 1) {
        words.push(format!("stride={}", join(&|i| d[i].stride.to_string())));
    }
    if d.iter().any(|d| d.padding_low != 0 || d.padding_high != 0) {
        words.push(format!("pad={}", join(&|i| format!("{}_{}", d[i].padding_low, d[i].padding_high))));
    }
    if d.iter().any(|d| d.base_dilation != 1) {
        words.push(format!("lhs_dilate={}", join(&|i| d[i].base_dilation.to_string())));
    }
    if d.iter().any(|d| d.window_dilation != 1) {
        words.push(format!("rhs_dilate={}", join(&|i| d[i].window_dilation.to_string())));
    }
    if d.iter().any(|d| d.window_reversal) {
        words.push(format!("rhs_reversal={}", join(&|i| u8::from(d[i].window_reversal).to_string())));
    }
    words.join(" ")
}

/// Axis letters of input, kernel and result, as in `b01f_01io->b01f`.
fn labels(d: &ConvolutionDimensionNumbers) -> String {
    let place = |letters: [(i64, char); 2], spatial: &[i64]| {
        let mut word = vec!['?'; spatial.len() + 2];
        let mut set = |axis: i64, letter: char| {
            if let Some(slot) = usize::try_from(axis).ok().and_then(|a| word.get_mut(a)) {
                *slot = letter;
            }
        };
        for (axis, letter) in letters {
            set(axis, letter);
        }
        for (i, &axis) in spatial.iter().enumerate() {
            set(axis, char::from_digit(i as u32, 10).unwrap_or('?'));
        }
        word.into_iter().collect::<String>()
    };
    format!(
        "{}_{}->{}",
        place([(d.input_batch_dimension, 'b'), (d.input_feature_dimension, 'f')], &d.input_spatial_dimensions),
        place([(d.kernel_input_feature_dimension, 'i'), (d.kernel_output_feature_dimension, 'o')], &d.kernel_spatial_dimensions),
        place([(d.output_batch_dimension, 'b'), (d.output_feature_dimension, 'f')], &d.output_spatial_dimensions)
    )
}
