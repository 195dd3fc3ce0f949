//! Reads a program back from its canonical bytes, for processes that compile what another one captured.

use clutch_graph::{DType, Literal, TensorType};

use super::expr::{Expr, ExprId, ExprTable, Size};
use super::program::{Arg, Constant, Input, Meta, Node, Origin, Program, TensorMeta, ValueRef, View, ViewBase};

/// The bytes are not those of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not the bytes of a captured program")]
pub struct ProgramError;

type Read<T> = Result<T, ProgramError>;

/// Lists and subgraphs nested deeper than this are refused.
const MAX_DEPTH: usize = 64;

/// The program whose [`canonical_bytes`](super::canonical::canonical_bytes) these are. Names of symbols and origins of nodes, which
/// are not in the bytes, are made up.
///
/// # Errors
/// When the bytes hold anything else.
pub fn read_program(bytes: &[u8]) -> Read<Program> {
    let mut reader = Reader { bytes, depth: 0 };
    let program = reader.program()?;
    if reader.bytes.is_empty() { Ok(program) } else { Err(ProgramError) }
}

struct Reader<'a> {
    bytes: &'a [u8],
    depth: usize,
}

impl Reader<'_> {
    fn take(&mut self, count: usize) -> Read<&[u8]> {
        let (found, rest) = self.bytes.split_at_checked(count).ok_or(ProgramError)?;
        self.bytes = rest;
        Ok(found)
    }

    fn array<const N: usize>(&mut self) -> Read<[u8; N]> {
        self.take(N)?.try_into().map_err(|_| ProgramError)
    }

    fn tag(&mut self) -> Read<u8> {
        Ok(self.array::<1>()?[0])
    }

    fn flag(&mut self) -> Read<bool> {
        match self.tag()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ProgramError),
        }
    }

    fn int(&mut self) -> Read<i64> {
        self.array().map(i64::from_le_bytes)
    }

    fn number(&mut self) -> Read<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Memory grows with what is really there, whatever the length says.
    fn list<T>(&mut self, mut one: impl FnMut(&mut Self) -> Read<T>) -> Read<Vec<T>> {
        let count = self.number()?;
        let mut items = Vec::new();
        for _ in 0..count {
            items.push(one(self)?);
        }
        Ok(items)
    }

    fn text(&mut self) -> Read<String> {
        let length = self.number()? as usize;
        String::from_utf8(self.take(length)?.to_vec()).map_err(|_| ProgramError)
    }

    fn dtype(&mut self) -> Read<DType> {
        let name = self.text()?;
        DType::ALL.into_iter().find(|d| d.name() == name).ok_or(ProgramError)
    }

    fn size(&mut self) -> Read<Size> {
        match self.tag()? {
            0 => self.int().map(Size::Const),
            1 => self.number().map(|id| Size::Expr(ExprId(id))),
            _ => Err(ProgramError),
        }
    }

    fn tensor(&mut self) -> Read<TensorMeta> {
        Ok(TensorMeta { dtype: self.dtype()?, shape: self.list(Self::size)?, strides: self.list(Self::size)? })
    }

    fn meta(&mut self) -> Read<Meta> {
        match self.tag()? {
            0 => self.tensor().map(Meta::Tensor),
            1 => self.size().map(Meta::Int),
            2 => Ok(Meta::None),
            _ => Err(ProgramError),
        }
    }

    fn value(&mut self) -> Read<ValueRef> {
        let (tag, a, b) = (self.tag()?, self.number()?, self.number()?);
        match tag {
            0 if b == 0 => Ok(ValueRef::Input(a)),
            1 if b == 0 => Ok(ValueRef::Constant(a)),
            2 => Ok(ValueRef::Node(a, b)),
            _ => Err(ProgramError),
        }
    }

    fn float(&mut self) -> Read<f64> {
        self.int().map(|bits| f64::from_bits(bits as u64))
    }

    fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Read<T>) -> Read<T> {
        if self.depth == MAX_DEPTH {
            return Err(ProgramError);
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn arg(&mut self) -> Read<Arg> {
        Ok(match self.tag()? {
            0 => Arg::None,
            1 => Arg::Value(self.value()?),
            2 => Arg::Bool(self.flag()?),
            3 => Arg::Int(self.int()?),
            4 => Arg::Size(self.size()?),
            5 => Arg::Float(self.float()?),
            6 => Arg::Complex(self.float()?, self.float()?),
            7 => Arg::Str(self.text()?),
            8 => Arg::DType(self.dtype()?),
            9 => Arg::Device,
            10 => Arg::List(self.deeper(|r| r.list(Self::arg))?),
            11 => Arg::Program(self.number()?),
            _ => return Err(ProgramError),
        })
    }

    fn expr(&mut self) -> Read<Expr> {
        let tag = self.tag()?;
        if tag == 0 {
            return self.int().map(Expr::Const);
        }
        let (first, b) = (self.number()?, ExprId(self.number()?));
        let a = ExprId(first);
        Ok(match tag {
            1 if b.0 == 0 => Expr::Symbol(first),
            2 => Expr::Add(a, b),
            3 => Expr::Mul(a, b),
            4 => Expr::FloorDiv(a, b),
            5 => Expr::Mod(a, b),
            6 => Expr::Min(a, b),
            7 => Expr::Max(a, b),
            8 => Expr::Pow(a, b),
            _ => return Err(ProgramError),
        })
    }

    /// The table, checked to be one that interning makes: symbols by first use, operands first, nothing twice.
    fn exprs(&mut self) -> Read<ExprTable> {
        let symbols = self.number()?;
        let mut table = ExprTable::default();
        for (number, expr) in self.list(Self::expr)?.into_iter().enumerate() {
            let known = |id: ExprId| (id.0 as usize) < number;
            let id = match expr {
                Expr::Symbol(s) => {
                    if s as usize > table.symbols().len() {
                        return Err(ProgramError);
                    }
                    table.symbol(&format!("s{s}"))
                }
                Expr::Const(_) => table.intern(expr),
                Expr::Add(a, b)
                | Expr::Mul(a, b)
                | Expr::FloorDiv(a, b)
                | Expr::Mod(a, b)
                | Expr::Min(a, b)
                | Expr::Max(a, b)
                | Expr::Pow(a, b) => {
                    if !known(a) || !known(b) {
                        return Err(ProgramError);
                    }
                    table.intern(expr)
                }
            };
            if id.0 as usize != number {
                return Err(ProgramError);
            }
        }
        if table.symbols().len() == symbols as usize { Ok(table) } else { Err(ProgramError) }
    }

    fn constant(&mut self) -> Read<Constant> {
        let meta = self.tensor()?;
        let is_inline = self.flag()?;
        let length = self.number()? as usize;
        let bytes = self.take(length)?.to_vec();
        let inline = if is_inline {
            let dims = meta.shape.iter().map(|s| match s {
                Size::Const(c) => Ok(*c),
                Size::Expr(_) => Err(ProgramError),
            });
            let ty = TensorType::new(meta.dtype, dims.collect::<Read<Vec<i64>>>()?);
            Some(Literal::new(ty, bytes).map_err(|_| ProgramError)?)
        } else if bytes.is_empty() {
            None
        } else {
            return Err(ProgramError);
        };
        Ok(Constant { meta, inline })
    }

    fn view(&mut self) -> Read<View> {
        let output = self.number()?;
        let is_output = self.flag()?;
        let base = self.number()?;
        Ok(View {
            output,
            base: if is_output { ViewBase::Output(base) } else { ViewBase::Input(base) },
            shape: self.list(Self::size)?,
            strides: self.list(Self::size)?,
            offset: self.size()?,
        })
    }

    fn node(&mut self) -> Read<Node> {
        Ok(Node {
            target: self.number()?,
            args: self.list(Self::arg)?,
            kwargs: self.list(|r| Ok((r.text()?, r.arg()?)))?,
            outputs: self.list(Self::meta)?,
        })
    }

    fn program(&mut self) -> Read<Program> {
        let mut program = Program {
            exprs: self.exprs()?,
            targets: self.list(Self::text)?,
            inputs: self.list(|r| Ok(Input { meta: r.meta()?, is_static: r.flag()?, is_lazy: r.flag()? }))?,
            constants: self.list(Self::constant)?,
            nodes: self.list(Self::node)?,
            outputs: self.list(Self::arg)?,
            views: self.list(Self::view)?,
            subprograms: self.deeper(|r| r.list(Self::program))?,
            origins: Vec::new(),
        };
        if program.nodes.iter().any(|n| n.target as usize >= program.targets.len()) {
            return Err(ProgramError);
        }
        program.origins = (0..program.nodes.len()).map(|n| Origin { name: format!("call {n}"), line: None }).collect();
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::canonical::canonical_bytes;
    use pretty_assertions::assert_eq;

    fn program() -> Program {
        let mut exprs = ExprTable::default();
        let length = exprs.parse("2*s77 + s3//4").expect("an expression");
        let meta = TensorMeta {
            dtype: DType::F32,
            shape: vec![Size::Expr(length), Size::Const(4)],
            strides: vec![Size::Const(4), Size::Const(1)],
        };
        let pair = TensorMeta { dtype: DType::S32, shape: vec![Size::Const(2)], strides: vec![Size::Const(1)] };
        let inner = Program { outputs: vec![Arg::Value(ValueRef::Input(0))], ..Program::default() };
        Program {
            exprs,
            targets: vec!["aten.add.Tensor".to_owned()],
            inputs: vec![
                Input { meta: Meta::Tensor(meta.clone()), is_static: true, is_lazy: false },
                Input { meta: Meta::Int(Size::Expr(length)), is_static: false, is_lazy: true },
            ],
            constants: vec![
                Constant { meta: pair.clone(), inline: Some(Literal::vector_i64(DType::S32, &[1, -2])) },
                Constant { meta: pair, inline: None },
            ],
            nodes: vec![Node {
                target: 0,
                args: vec![
                    Arg::Value(ValueRef::Input(0)),
                    Arg::List(vec![Arg::None, Arg::Bool(true), Arg::Int(-7), Arg::Size(Size::Expr(length)), Arg::Float(f64::NAN)]),
                    Arg::Complex(1.0, -0.0),
                    Arg::Str("strided".to_owned()),
                    Arg::DType(DType::BF16),
                    Arg::Device,
                    Arg::Program(0),
                ],
                kwargs: vec![("alpha".to_owned(), Arg::Value(ValueRef::Constant(1)))],
                outputs: vec![Meta::Tensor(meta), Meta::None],
            }],
            outputs: vec![Arg::Value(ValueRef::Node(0, 0))],
            views: vec![View {
                output: 0,
                base: ViewBase::Input(0),
                shape: vec![Size::Const(2)],
                strides: vec![Size::Expr(length)],
                offset: Size::Const(1),
            }],
            subprograms: vec![inner],
            origins: vec![Origin::default()],
        }
    }

    #[test]
    fn programs_round_trip() {
        let bytes = canonical_bytes(&program());
        let back = read_program(&bytes).expect("its own bytes");
        assert_eq!(canonical_bytes(&back), bytes);
        assert_eq!(back.exprs.symbols().len(), 2);
        assert_eq!(back.constants, program().constants);
    }

    #[test]
    fn cut_or_changed_bytes_never_crash() {
        let bytes = canonical_bytes(&program());
        for end in 0..bytes.len() {
            assert_eq!(read_program(&bytes[..end]).err(), Some(ProgramError));
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 0xff;
            // Either outcome is right; what is read must be what is there.
            if let Ok(read) = read_program(&changed) {
                assert_eq!(canonical_bytes(&read), changed);
            }
        }
    }
}
