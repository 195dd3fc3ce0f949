//! Graphs and constants as text.

use std::fmt;

use crate::graph::{Graph, InputKind, Node, ValueId};
use crate::literal::Literal;
use crate::op::Op;
use crate::text::attr::{Attr, Attrs};
use crate::text::literal::write_elements;
use crate::text::schema::attrs_of;

/// Elements and type, as in `[1, 2] : s32[2]`; read back by [`crate::parse_literal`].
impl fmt::Display for Literal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_elements(f, self)?;
        write!(f, " : {}", self.ty())
    }
}

/// The text form, read back by [`crate::parse`].
impl fmt::Display for Graph {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_graph(f, self, 0)?;
        f.write_str("\n")
    }
}

fn write_graph(f: &mut fmt::Formatter<'_>, g: &Graph, depth: usize) -> fmt::Result {
    let indent = 2 * depth + 2;
    f.write_str("graph {\n")?;
    for (i, node) in g.nodes().iter().enumerate() {
        write!(f, "{:indent$}%{i}", "")?;
        if node.outputs.len() != 1 {
            write!(f, ":{}", node.outputs.len())?;
        }
        f.write_str(" = ")?;
        write_node(f, g, node, depth)?;
        f.write_str("\n")?;
    }
    write!(f, "{:indent$}return", "")?;
    write_values(f, g, &g.outputs, " ")?;
    f.write_str("\n")?;
    for a in &g.aliases {
        writeln!(f, "{:indent$}alias {} <- parameter {}", "", a.output, a.parameter)?;
    }
    write!(f, "{:1$}}}", "", indent - 2)
}

fn write_values(f: &mut fmt::Formatter<'_>, g: &Graph, values: &[ValueId], before: &str) -> fmt::Result {
    for (i, v) in values.iter().enumerate() {
        f.write_str(if i == 0 { before } else { ", " })?;
        write!(f, "%{}", v.node.0)?;
        if g.nodes().get(v.node.index()).is_none_or(|n| n.outputs.len() != 1) || v.output != 0 {
            write!(f, ".{}", v.output)?;
        }
    }
    Ok(())
}

fn write_node(f: &mut fmt::Formatter<'_>, g: &Graph, node: &Node, depth: usize) -> fmt::Result {
    write!(f, "{}(", node.op.name())?;
    match &node.op {
        Op::Parameter(number, _) => write!(f, "{number}")?,
        Op::Constant(literal) => write_elements(f, literal)?,
        _ => write_values(f, g, &node.operands, "")?,
    }
    f.write_str(")")?;
    for (name, value) in &attrs_of(&node.op).0 {
        write!(f, " {name}=")?;
        write_attr(f, value, depth)?;
    }
    f.write_str(" : ")?;
    match &node.outputs[..] {
        [ty] => write!(f, "{ty}")?,
        types => {
            for (i, ty) in types.iter().enumerate() {
                write!(f, "{}{ty}", if i == 0 { "(" } else { ", " })?;
            }
            f.write_str(if types.is_empty() { "()" } else { ")" })?;
        }
    }
    match node.op {
        Op::Parameter(number, _) if g.input_kinds.get(number) == Some(&InputKind::Static) => f.write_str(" static"),
        _ => Ok(()),
    }
}

fn write_attr(f: &mut fmt::Formatter<'_>, attr: &Attr, depth: usize) -> fmt::Result {
    match attr {
        Attr::Atom(text) => f.write_str(text),
        Attr::List(items) => {
            f.write_str("[")?;
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    f.write_str(",")?;
                }
                write_attr(f, item, depth)?;
            }
            f.write_str("]")
        }
        Attr::Record(Attrs(fields)) => {
            f.write_str("{")?;
            for (i, (name, value)) in fields.iter().enumerate() {
                write!(f, "{}{name}=", if i > 0 { " " } else { "" })?;
                write_attr(f, value, depth)?;
            }
            f.write_str("}")
        }
        Attr::Graph(g) => write_graph(f, g, depth + 1),
    }
}
