//! The canonical bytes of a captured program: equal for equal programs whatever their names, files, lines and processes.

use clutch_graph::DType;

use super::expr::{Expr, Size};
use super::program::{Arg, Meta, Program, TensorMeta, ValueRef, ViewBase};

/// The bytes that the graph key stands on.
pub fn canonical_bytes(program: &Program) -> Vec<u8> {
    let mut w = Writer(Vec::with_capacity(64 * program.nodes.len() + 1024));
    w.program(program);
    w.0
}

/// Every element is written with a tag or a length before it, so that no two programs share their bytes.
struct Writer(Vec<u8>);

impl Writer {
    fn tag(&mut self, tag: u8) {
        self.0.push(tag);
    }

    fn int(&mut self, value: i64) {
        self.0.extend(value.to_le_bytes());
    }

    fn len(&mut self, value: usize) {
        self.0.extend((value as u32).to_le_bytes());
    }

    fn text(&mut self, text: &str) {
        self.len(text.len());
        self.0.extend(text.as_bytes());
    }

    fn dtype(&mut self, dtype: DType) {
        self.text(dtype.name());
    }

    fn size(&mut self, size: Size) {
        match size {
            Size::Const(c) => {
                self.tag(0);
                self.int(c);
            }
            Size::Expr(id) => {
                self.tag(1);
                self.len(id.0 as usize);
            }
        }
    }

    fn sizes(&mut self, sizes: &[Size]) {
        self.len(sizes.len());
        for &s in sizes {
            self.size(s);
        }
    }

    fn tensor(&mut self, t: &TensorMeta) {
        self.dtype(t.dtype);
        self.sizes(&t.shape);
        self.sizes(&t.strides);
    }

    fn meta(&mut self, meta: &Meta) {
        match meta {
            Meta::Tensor(t) => {
                self.tag(0);
                self.tensor(t);
            }
            Meta::Int(s) => {
                self.tag(1);
                self.size(*s);
            }
            Meta::None => self.tag(2),
        }
    }

    fn value(&mut self, v: ValueRef) {
        let (tag, a, b) = match v {
            ValueRef::Input(i) => (0, i, 0),
            ValueRef::Constant(i) => (1, i, 0),
            ValueRef::Node(n, o) => (2, n, o),
        };
        self.tag(tag);
        self.len(a as usize);
        self.len(b as usize);
    }

    fn arg(&mut self, arg: &Arg) {
        match arg {
            Arg::None => self.tag(0),
            Arg::Value(v) => {
                self.tag(1);
                self.value(*v);
            }
            Arg::Bool(b) => {
                self.tag(2);
                self.tag(u8::from(*b));
            }
            Arg::Int(i) => {
                self.tag(3);
                self.int(*i);
            }
            Arg::Size(s) => {
                self.tag(4);
                self.size(*s);
            }
            Arg::Float(x) => {
                self.tag(5);
                self.int(x.to_bits() as i64);
            }
            Arg::Complex(re, im) => {
                self.tag(6);
                self.int(re.to_bits() as i64);
                self.int(im.to_bits() as i64);
            }
            Arg::Str(s) => {
                self.tag(7);
                self.text(s);
            }
            Arg::DType(d) => {
                self.tag(8);
                self.dtype(*d);
            }
            Arg::Device => self.tag(9),
            Arg::List(items) => {
                self.tag(10);
                self.args(items);
            }
            Arg::Program(p) => {
                self.tag(11);
                self.len(*p as usize);
            }
        }
    }

    fn args(&mut self, args: &[Arg]) {
        self.len(args.len());
        for a in args {
            self.arg(a);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        let (tag, a, b) = match *expr {
            Expr::Const(c) => {
                self.tag(0);
                self.int(c);
                return;
            }
            Expr::Symbol(s) => (1, s, 0),
            Expr::Add(a, b) => (2, a.0, b.0),
            Expr::Mul(a, b) => (3, a.0, b.0),
            Expr::FloorDiv(a, b) => (4, a.0, b.0),
            Expr::Mod(a, b) => (5, a.0, b.0),
            Expr::Min(a, b) => (6, a.0, b.0),
            Expr::Max(a, b) => (7, a.0, b.0),
            Expr::Pow(a, b) => (8, a.0, b.0),
        };
        self.tag(tag);
        self.len(a as usize);
        self.len(b as usize);
    }

    fn program(&mut self, p: &Program) {
        self.len(p.exprs.symbols().len());
        self.len(p.exprs.exprs().len());
        for e in p.exprs.exprs() {
            self.expr(e);
        }
        self.len(p.targets.len());
        for t in &p.targets {
            self.text(t);
        }
        self.len(p.inputs.len());
        for i in &p.inputs {
            self.meta(&i.meta);
            self.tag(u8::from(i.is_static));
            self.tag(u8::from(i.is_lazy));
        }
        self.len(p.constants.len());
        for c in &p.constants {
            self.tensor(&c.meta);
            let bytes = c.inline.as_ref().map(|l| l.bytes());
            self.tag(u8::from(bytes.is_some()));
            let bytes = bytes.unwrap_or_default();
            self.len(bytes.len());
            self.0.extend(bytes);
        }
        self.len(p.nodes.len());
        for n in &p.nodes {
            self.len(n.target as usize);
            self.args(&n.args);
            self.len(n.kwargs.len());
            for (name, a) in &n.kwargs {
                self.text(name);
                self.arg(a);
            }
            self.len(n.outputs.len());
            for o in &n.outputs {
                self.meta(o);
            }
        }
        self.args(&p.outputs);
        self.len(p.views.len());
        for v in &p.views {
            self.len(v.output as usize);
            let (tag, base) = match v.base {
                ViewBase::Input(i) => (0, i),
                ViewBase::Output(i) => (1, i),
            };
            self.tag(tag);
            self.len(base as usize);
            self.sizes(&v.shape);
            self.sizes(&v.strides);
            self.size(v.offset);
        }
        self.len(p.subprograms.len());
        for s in &p.subprograms {
            self.program(s);
        }
    }
}
