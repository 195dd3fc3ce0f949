//! HLO text of a module, for reading.

use std::fmt::Write as _;

use rustc_hash::FxHashMap;

use super::proto::{HloComputationProto, HloInstructionProto, HloModuleProto, Kind, PrimitiveType, ProgramShapeProto, ShapeProto};
use super::text_attributes::attributes;
use super::text_literal::literal;

/// Names of computations by id.
pub(super) type Names<'a> = FxHashMap<i64, &'a str>;

pub(super) fn module(module: &HloModuleProto) -> String {
    let mut out = format!("HloModule {}", module.name);
    if let Some(aliases) = &module.input_output_alias {
        let entries: Vec<String> = aliases
            .entries
            .iter()
            .map(|e| {
                let kind = if e.kind() == Kind::MustAlias { "must-alias" } else { "may-alias" };
                format!("{}: ({}, {}, {kind})", braced(&e.output_shape_index), e.parameter_number, braced(&e.parameter_shape_index))
            })
            .collect();
        push(&mut out, format_args!(", input_output_alias={{ {} }}", entries.join(", ")));
    }
    if let Some(program) = &module.host_program_shape {
        push(&mut out, format_args!(", entry_computation_layout={{{}}}", program_shape(program)));
    }
    out.push('\n');
    let names: Names<'_> = module.computations.iter().map(|c| (c.id, c.name.as_str())).collect();
    for c in &module.computations {
        computation(&mut out, c, c.id == module.entry_computation_id, &names);
    }
    out
}

fn computation(out: &mut String, c: &HloComputationProto, entry: bool, names: &Names<'_>) {
    let operands: FxHashMap<i64, &str> = c.instructions.iter().map(|i| (i.id, i.name.as_str())).collect();
    push(out, format_args!("\n{}{} {{\n", if entry { "ENTRY " } else { "" }, c.name));
    for inst in &c.instructions {
        out.push_str(if inst.id == c.root_id { "  ROOT " } else { "  " });
        instruction(out, inst, &operands, names);
        out.push('\n');
    }
    out.push_str("}\n");
}

fn instruction(out: &mut String, inst: &HloInstructionProto, operands: &FxHashMap<i64, &str>, names: &Names<'_>) {
    let ty = inst.shape.as_deref().map(shape).unwrap_or_default();
    push(out, format_args!("{} = {ty} {}(", inst.name, inst.opcode));
    match inst.opcode.as_str() {
        "parameter" => push(out, format_args!("{}", inst.parameter_number)),
        "constant" => out.push_str(&inst.literal.as_deref().map(literal).unwrap_or_default()),
        _ => {
            let list: Vec<&str> = inst.operand_ids.iter().map(|id| operands.get(id).copied().unwrap_or("?")).collect();
            out.push_str(&list.join(", "));
        }
    }
    out.push(')');
    attributes(out, inst, names);
}

fn program_shape(program: &ProgramShapeProto) -> String {
    let parameters: Vec<String> = program.parameters.iter().map(shape).collect();
    format!("({})->{}", parameters.join(", "), program.result.as_ref().map(shape).unwrap_or_default())
}

fn shape(s: &ShapeProto) -> String {
    if s.element_type() == PrimitiveType::Tuple {
        let parts: Vec<String> = s.tuple_shapes.iter().map(shape).collect();
        return format!("({})", parts.join(", "));
    }
    let layout = match &s.layout {
        Some(layout) if !layout.minor_to_major.is_empty() => braced(&layout.minor_to_major),
        _ => String::new(),
    };
    format!("{}[{}]{layout}", s.element_type().as_str_name().to_ascii_lowercase(), joined(&s.dimensions))
}

/// Numbers separated by commas.
pub(super) fn joined(values: &[i64]) -> String {
    let words: Vec<String> = values.iter().map(i64::to_string).collect();
    words.join(",")
}

/// Numbers in braces.
pub(super) fn braced(values: &[i64]) -> String {
    format!("{{{}}}", joined(values))
}

/// Appends formatted text.
pub(super) fn push(out: &mut String, text: std::fmt::Arguments<'_>) {
    out.write_fmt(text).expect("writing to a string cannot fail");
}
