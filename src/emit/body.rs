//! One HLO computation under construction.

use clutch_graph::op::CompareDir;
use clutch_graph::{DType, Literal, TensorType};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::proto::{HloComputationProto, HloInstructionProto, ProgramShapeProto};
use super::types::{Shape, literal, numbers_of};

/// An instruction of the computation under construction, by position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inst(u32);

impl Inst {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// The results of one graph node.
pub(super) type Results = SmallVec<[Inst; 1]>;

/// Instructions so far. Ids are positions until [`Body::finish`] moves them to their place in the module.
#[derive(Default)]
pub(super) struct Body {
    instructions: Vec<HloInstructionProto>,
    shapes: Vec<Shape>,
    parameters: Vec<Inst>,
    scalars: FxHashMap<Literal, Inst>,
}

impl Body {
    pub(super) fn with_capacity(instructions: usize) -> Self {
        Body { instructions: Vec::with_capacity(instructions), shapes: Vec::with_capacity(instructions), ..Body::default() }
    }

    /// Appends an instruction; attributes are set through [`Body::proto`].
    pub(super) fn push(&mut self, opcode: &'static str, shape: Shape, operands: &[Inst]) -> Inst {
        let inst = Inst(self.instructions.len() as u32);
        self.instructions.push(HloInstructionProto {
            opcode: opcode.to_owned(),
            shape: Some(Box::new(shape.proto())),
            operand_ids: operands.iter().map(|o| i64::from(o.0)).collect(),
            ..HloInstructionProto::default()
        });
        self.shapes.push(shape);
        inst
    }

    /// Appends an instruction with an array result.
    pub(super) fn op(&mut self, opcode: &'static str, ty: TensorType, operands: &[Inst]) -> Inst {
        self.push(opcode, Shape::Array(ty), operands)
    }

    /// The message of an instruction, for its attributes.
    pub(super) fn proto(&mut self, inst: Inst) -> &mut HloInstructionProto {
        &mut self.instructions[inst.index()]
    }

    /// Type of an array instruction. Tuples never leave the functions that make them.
    pub(super) fn ty(&self, inst: Inst) -> &TensorType {
        match &self.shapes[inst.index()] {
            Shape::Array(ty) => ty,
            Shape::Tuple(_) => unreachable!("tuples are unpacked where they are made"),
        }
    }

    pub(super) fn dtype(&self, inst: Inst) -> DType {
        self.ty(inst).dtype
    }

    pub(super) fn parameter(&mut self, shape: Shape) -> Inst {
        let number = self.parameters.len() as i64;
        let inst = self.push("parameter", shape, &[]);
        self.proto(inst).parameter_number = number;
        self.parameters.push(inst);
        inst
    }

    /// A tuple of arrays.
    pub(super) fn tuple(&mut self, elements: &[Inst]) -> Inst {
        let types = elements.iter().map(|&e| self.ty(e).clone()).collect();
        self.push("tuple", Shape::Tuple(types), elements)
    }

    /// The elements of a tuple.
    pub(super) fn unpack(&mut self, tuple: Inst) -> Results {
        let types = match &self.shapes[tuple.index()] {
            Shape::Tuple(types) => types.clone(),
            Shape::Array(_) => return SmallVec::from_slice(&[tuple]),
        };
        let mut elements = Results::with_capacity(types.len());
        for (i, ty) in types.into_iter().enumerate() {
            let element = self.op("get-tuple-element", ty, &[tuple]);
            self.proto(element).tuple_index = i as i64;
            elements.push(element);
        }
        elements
    }

    /// A constant. Equal scalars are shared; equal elements become a broadcast scalar.
    pub(super) fn constant(&mut self, value: &Literal) -> Inst {
        let ty = value.ty();
        let size = ty.dtype.size();
        if ty.rank() == 0 {
            if let Some(&known) = self.scalars.get(value) {
                return known;
            }
            let inst = self.raw_constant(value);
            self.scalars.insert(value.clone(), inst);
            return inst;
        }
        let bytes = value.bytes();
        if bytes.len() > size && bytes[size..].chunks_exact(size).all(|c| c == &bytes[..size]) {
            let scalar = Literal::new(TensorType::scalar(ty.dtype), &bytes[..size]).expect("one element is a scalar");
            return self.splat(&scalar, ty);
        }
        self.raw_constant(value)
    }

    fn raw_constant(&mut self, value: &Literal) -> Inst {
        let inst = self.op("constant", value.ty().clone(), &[]);
        self.proto(inst).literal = Some(Box::new(literal(value)));
        inst
    }

    /// The scalar that a constant, or a broadcast of one, repeats.
    pub(super) fn scalar_value(&self, x: Inst) -> Option<&Literal> {
        let proto = &self.instructions[x.index()];
        let source = if proto.opcode == "broadcast" { Inst(*proto.operand_ids.first()? as u32) } else { x };
        self.scalars.iter().find(|(_, inst)| **inst == source).map(|(literal, _)| literal)
    }

    /// A tensor with the sizes of `like` and all elements equal to a scalar literal.
    pub(super) fn splat(&mut self, scalar: &Literal, like: &TensorType) -> Inst {
        let x = self.constant(scalar);
        self.broadcast(x, like.with_dtype(scalar.ty().dtype), &[])
    }

    /// A tensor filled with a number converted to `dtype`.
    pub(super) fn fill(&mut self, dtype: DType, value: f64, like: &TensorType) -> Inst {
        self.splat(&Literal::scalar_f64(dtype, value), like)
    }

    /// HLO's broadcast: operand axis i becomes result axis `axes[i]` of equal size. Nothing where it changes nothing.
    pub(super) fn broadcast(&mut self, x: Inst, ty: TensorType, axes: &[usize]) -> Inst {
        if *self.ty(x) == ty {
            return x;
        }
        let inst = self.op("broadcast", ty, &[x]);
        self.proto(inst).dimensions = numbers_of(axes);
        inst
    }

    /// Nothing where the sizes are equal.
    pub(super) fn reshape(&mut self, x: Inst, dims: &[i64]) -> Inst {
        if self.ty(x).dims[..] == *dims {
            return x;
        }
        let ty = TensorType::new(self.dtype(x), dims.iter().copied());
        self.op("reshape", ty, &[x])
    }

    /// HLO's own conversion. Nothing where the types are equal.
    pub(super) fn convert(&mut self, x: Inst, to: DType) -> Inst {
        if self.dtype(x) == to {
            return x;
        }
        let ty = self.ty(x).with_dtype(to);
        self.op("convert", ty, &[x])
    }

    /// An instruction of the first operand's type.
    pub(super) fn same(&mut self, opcode: &'static str, operands: &[Inst]) -> Inst {
        let ty = self.ty(operands[0]).clone();
        self.op(opcode, ty, operands)
    }

    pub(super) fn compare(&mut self, dir: CompareDir, x: Inst, y: Inst) -> Inst {
        let dtype = self.dtype(x);
        let ty = self.ty(x).with_dtype(DType::Pred);
        let inst = self.op("compare", ty, &[x, y]);
        let proto = self.proto(inst);
        proto.comparison_direction = match dir {
            CompareDir::Eq => "EQ",
            CompareDir::Ne => "NE",
            CompareDir::Lt => "LT",
            CompareDir::Le => "LE",
            CompareDir::Gt => "GT",
            CompareDir::Ge => "GE",
        }
        .to_owned();
        proto.comparison_type = if dtype.is_signed_int() {
            "SIGNED"
        } else if dtype.is_unsigned_int() || dtype == DType::Pred {
            "UNSIGNED"
        } else {
            "FLOAT"
        }
        .to_owned();
        inst
    }

    /// Where the operand is NaN.
    pub(super) fn is_nan(&mut self, x: Inst) -> Inst {
        self.compare(CompareDir::Ne, x, x)
    }

    pub(super) fn select(&mut self, pred: Inst, on_true: Inst, on_false: Inst) -> Inst {
        let ty = self.ty(on_true).clone();
        self.op("select", ty, &[pred, on_true, on_false])
    }

    pub(super) fn len(&self) -> usize {
        self.instructions.len()
    }

    /// The finished computation. Its instructions get the ids from `first_id` on.
    pub(super) fn finish(mut self, root: Inst, name: String, id: i64, first_id: i64) -> HloComputationProto {
        for (i, inst) in self.instructions.iter_mut().enumerate() {
            inst.id = first_id + i as i64;
            inst.name = format!("{}.{}", inst.opcode, inst.id);
            for operand in &mut inst.operand_ids {
                *operand += first_id;
            }
        }
        let program_shape = ProgramShapeProto {
            parameters: self.parameters.iter().map(|p| self.shapes[p.index()].proto()).collect(),
            result: Some(self.shapes[root.index()].proto()),
            parameter_names: self.parameters.iter().map(|p| self.instructions[p.index()].name.clone()).collect(),
        };
        HloComputationProto {
            name,
            instructions: self.instructions,
            program_shape: Some(program_shape),
            id,
            root_id: first_id + i64::from(root.0),
        }
    }
}
