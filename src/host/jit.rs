//! A plan as machine code, made by Cranelift.

use std::sync::{Mutex, OnceLock, PoisonError};

use cranelift::codegen::isa::OwnedTargetIsa;
use cranelift::jit::{JITBuilder, JITModule};
use cranelift::module::{Linkage, Module, ModuleError, default_libcall_names};
use cranelift::native;
use cranelift::prelude::*;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::plan::{Amount, Place, Plan, Step};
use super::{Contradiction, Sizes};
use crate::capture::expr::{Expr, ExprId, ExprTable};

/// Why a plan has no machine code.
#[derive(Debug, thiserror::Error)]
pub enum JitError {
    /// Cranelift knows no code for this processor.
    #[error("no code generator for this processor: {0}")]
    Processor(String),
    /// An expression of a kind that is left to the interpreter.
    #[error("a size expression divides by or raises to what is no positive number")]
    Expression,
    /// Cranelift failed.
    #[error("Cranelift: {0}")]
    Module(Box<ModuleError>),
}

impl From<ModuleError> for JitError {
    fn from(error: ModuleError) -> Self {
        JitError::Module(Box::new(error))
    }
}

/// Sizes of each tensor, integers, symbols; gives the position of the contradicted step, or [`SATISFIED`].
type Entry = unsafe extern "C" fn(*const *const i64, *const i64, *mut i64) -> i64;

const SATISFIED: i64 = -1;

/// Largest exponent that is multiplied out.
const LARGEST_POWER: i64 = 8;

/// The machine code of a plan.
pub struct Code {
    entry: Entry,
    symbols: usize,
    /// Owns the code's memory.
    module: Mutex<Option<JITModule>>,
}

impl std::fmt::Debug for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Code").field("symbols", &self.symbols).finish_non_exhaustive()
    }
}

impl Drop for Code {
    fn drop(&mut self) {
        if let Some(module) = self.module.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            // SAFETY: the only pointer into the module is `entry`, which is called through `self` alone.
            unsafe { module.free_memory() };
        }
    }
}

/// The code generator of this processor, found once.
fn processor() -> Result<OwnedTargetIsa, JitError> {
    static ISA: OnceLock<Result<OwnedTargetIsa, String>> = OnceLock::new();
    let make = || {
        let mut flags = settings::builder();
        flags.set("use_colocated_libcalls", "false").map_err(|e| e.to_string())?;
        flags.set("is_pic", "false").map_err(|e| e.to_string())?;
        flags.set("opt_level", "none").map_err(|e| e.to_string())?;
        flags.set("regalloc_algorithm", "single_pass").map_err(|e| e.to_string())?;
        flags.set("enable_verifier", if cfg!(debug_assertions) { "true" } else { "false" }).map_err(|e| e.to_string())?;
        native::builder()?.finish(settings::Flags::new(flags)).map_err(|e| e.to_string())
    };
    ISA.get_or_init(make).clone().map_err(JitError::Processor)
}

impl Code {
    /// Compiles `plan`, whose expressions are in `exprs`.
    ///
    /// # Errors
    /// When an expression is of a kind that is left to the interpreter, or this processor is unknown to Cranelift.
    pub fn of(plan: &Plan, exprs: &ExprTable) -> Result<Code, JitError> {
        let mut module = JITModule::new(JITBuilder::with_isa(processor()?, default_libcall_names()));
        let made = define(&mut module, plan, exprs);
        match made {
            Ok(code) => {
                // SAFETY: the function was defined with this signature.
                let entry = unsafe { std::mem::transmute::<*const u8, Entry>(code) };
                Ok(Code { entry, symbols: exprs.symbols().len(), module: Mutex::new(Some(module)) })
            }
            Err(error) => {
                // SAFETY: nothing of the module is in use.
                unsafe { module.free_memory() };
                Err(error)
            }
        }
    }

    /// Runs the code.
    ///
    /// # Errors
    /// At the first step that the sizes contradict; at step 0 when there are fewer sizes or less room than the plan says.
    pub fn run(&self, plan: &Plan, sizes: Sizes<'_>, symbols: &mut [i64]) -> Result<(), Contradiction> {
        if symbols.len() < self.symbols || !plan.fits(sizes, symbols) {
            return Err(Contradiction(0));
        }
        let pointers: SmallVec<[*const i64; 16]> = sizes.tensors.iter().map(|dims| dims.as_ptr()).collect();
        // SAFETY: the code reads the axes and integers of the plan and writes one number per symbol; all were checked to be there.
        let step = unsafe { (self.entry)(pointers.as_ptr(), sizes.integers.as_ptr(), symbols.as_mut_ptr()) };
        if step == SATISFIED { Ok(()) } else { Err(Contradiction(step as usize)) }
    }
}

fn define(module: &mut JITModule, plan: &Plan, exprs: &ExprTable) -> Result<*const u8, JitError> {
    let pointer = module.target_config().pointer_type();
    let mut context = module.make_context();
    context.func.signature.params = vec![AbiParam::new(pointer); 3];
    context.func.signature.returns = vec![AbiParam::new(types::I64)];
    let mut scratch = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut context.func, &mut scratch);
    let (entry, failed) = (b.create_block(), b.create_block());
    b.append_block_params_for_function_params(entry);
    let step = b.append_block_param(failed, types::I64);
    b.switch_to_block(entry);
    let [tensors, integers, symbols] = [0, 1, 2].map(|i| b.block_params(entry)[i]);
    let mut emitter = Emitter {
        b,
        exprs,
        failed,
        tensors,
        integers,
        pointer,
        step: 0,
        shapes: FxHashMap::default(),
        known: FxHashMap::default(),
        symbols: FxHashMap::default(),
    };
    for (i, step) in plan.steps.iter().enumerate() {
        emitter.step = i as i64;
        emitter.emit(step, symbols)?;
    }
    let Emitter { mut b, .. } = emitter;
    let satisfied = b.ins().iconst(types::I64, SATISFIED);
    b.ins().return_(&[satisfied]);
    b.switch_to_block(failed);
    b.ins().return_(&[step]);
    b.seal_all_blocks();
    let target = module.target_config();
    b.finalize(target);
    let function = module.declare_function("solve", Linkage::Export, &context.func.signature)?;
    module.define_function(function, &mut context)?;
    module.finalize_definitions()?;
    Ok(module.get_finalized_function(function))
}

struct Emitter<'a> {
    b: FunctionBuilder<'a>,
    exprs: &'a ExprTable,
    failed: Block,
    tensors: Value,
    integers: Value,
    pointer: Type,
    step: i64,
    /// Address of each tensor's sizes.
    shapes: FxHashMap<usize, Value>,
    /// Expressions computed so far; the code has no joins, so they are there from then on.
    known: FxHashMap<ExprId, Value>,
    symbols: FxHashMap<u32, Value>,
}

impl Emitter<'_> {
    fn emit(&mut self, step: &Step, symbols: Value) -> Result<(), JitError> {
        let read = self.read(step.place());
        match step {
            Step::Solve { symbol, scale, offset, .. } => {
                let offset = self.amount(offset)?;
                let (rest, overflow) = self.b.ins().ssub_overflow(read, offset);
                self.fail_if(overflow);
                let value = match scale {
                    Amount::Const(1) => rest,
                    scale => {
                        let scale = self.amount(scale)?;
                        self.whole_quotient(rest, scale)
                    }
                };
                self.b.ins().store(MemFlagsData::trusted(), value, symbols, (*symbol * 8) as i32);
                self.symbols.insert(*symbol, value);
            }
            Step::Check { size, .. } => {
                let expected = self.size(*size)?;
                let differs = self.b.ins().icmp(IntCC::NotEqual, read, expected);
                self.fail_if(differs);
            }
        }
        Ok(())
    }

    /// `rest / scale`; contradicts the step unless that is a whole number.
    fn whole_quotient(&mut self, rest: Value, scale: Value) -> Value {
        // Zero divides nothing, and -1 overflows the division of the smallest number.
        let zero = self.b.ins().icmp_imm_s(IntCC::Equal, scale, 0);
        self.fail_if(zero);
        let minus = self.b.ins().icmp_imm_s(IntCC::Equal, scale, -1);
        let smallest = self.b.ins().icmp_imm_s(IntCC::Equal, rest, i64::MIN);
        let overflow = self.b.ins().band(minus, smallest);
        self.fail_if(overflow);
        let value = self.b.ins().sdiv(rest, scale);
        let back = self.b.ins().imul(value, scale);
        let broken = self.b.ins().icmp(IntCC::NotEqual, back, rest);
        self.fail_if(broken);
        value
    }

    fn fail_if(&mut self, condition: Value) {
        let next = self.b.create_block();
        let step = self.b.ins().iconst(types::I64, self.step);
        self.b.ins().brif(condition, self.failed, &[step.into()], next, &[]);
        self.b.switch_to_block(next);
    }

    fn read(&mut self, place: Place) -> Value {
        match place {
            Place::Integer(i) => self.b.ins().load(types::I64, MemFlagsData::trusted(), self.integers, (i * 8) as i32),
            Place::Axis { tensor, axis } => {
                let shape = match self.shapes.get(&tensor) {
                    Some(shape) => *shape,
                    None => {
                        let offset = tensor * self.pointer.bytes() as usize;
                        let shape = self.b.ins().load(self.pointer, MemFlagsData::trusted(), self.tensors, offset as i32);
                        self.shapes.insert(tensor, shape);
                        shape
                    }
                };
                self.b.ins().load(types::I64, MemFlagsData::trusted(), shape, (axis * 8) as i32)
            }
        }
    }

    fn amount(&mut self, amount: &Amount) -> Result<Value, JitError> {
        match amount {
            Amount::Const(c) => Ok(self.b.ins().iconst(types::I64, *c)),
            Amount::Size(id) => self.size(*id),
            Amount::Sum(x, y) => {
                let (x, y) = (self.amount(x)?, self.amount(y)?);
                Ok(self.sum(x, y))
            }
            Amount::Product(x, y) => {
                let (x, y) = (self.amount(x)?, self.amount(y)?);
                Ok(self.product(x, y))
            }
        }
    }

    fn sum(&mut self, x: Value, y: Value) -> Value {
        let (value, overflow) = self.b.ins().sadd_overflow(x, y);
        self.fail_if(overflow);
        value
    }

    fn product(&mut self, x: Value, y: Value) -> Value {
        let (value, overflow) = self.b.ins().smul_overflow(x, y);
        self.fail_if(overflow);
        value
    }

    /// Value of an expression whose symbols are known. Operands stand earlier in the table, so the depth is that of the expression as written.
    fn size(&mut self, id: ExprId) -> Result<Value, JitError> {
        if let Some(value) = self.known.get(&id) {
            return Ok(*value);
        }
        let value = match *self.exprs.get(id) {
            Expr::Const(c) => self.b.ins().iconst(types::I64, c),
            Expr::Symbol(s) => *self.symbols.get(&s).ok_or(JitError::Expression)?,
            Expr::Add(x, y) => {
                let (x, y) = (self.size(x)?, self.size(y)?);
                self.sum(x, y)
            }
            Expr::Mul(x, y) => {
                let (x, y) = (self.size(x)?, self.size(y)?);
                self.product(x, y)
            }
            Expr::Min(x, y) => {
                let (x, y) = (self.size(x)?, self.size(y)?);
                self.b.ins().smin(x, y)
            }
            Expr::Max(x, y) => {
                let (x, y) = (self.size(x)?, self.size(y)?);
                self.b.ins().smax(x, y)
            }
            Expr::FloorDiv(x, y) => {
                let (x, by) = (self.size(x)?, self.positive(y)?);
                let by = self.b.ins().iconst(types::I64, by);
                let quotient = self.b.ins().sdiv(x, by);
                let rest = self.b.ins().srem(x, by);
                // The remainder's sign bit is -1 exactly where truncation rounded up.
                let down = self.b.ins().sshr_imm_u(rest, 63);
                self.b.ins().iadd(quotient, down)
            }
            Expr::Mod(x, y) => {
                let (x, by) = (self.size(x)?, self.positive(y)?);
                let divisor = self.b.ins().iconst(types::I64, by);
                let rest = self.b.ins().srem(x, divisor);
                let negative = self.b.ins().sshr_imm_u(rest, 63);
                let back = self.b.ins().band_imm_s(negative, by);
                self.b.ins().iadd(rest, back)
            }
            Expr::Pow(x, y) => {
                let (x, power) = (self.size(x)?, self.constant(y)?);
                if !(1..=LARGEST_POWER).contains(&power) {
                    return Err(JitError::Expression);
                }
                let mut value = x;
                for _ in 1..power {
                    value = self.product(value, x);
                }
                value
            }
        };
        self.known.insert(id, value);
        Ok(value)
    }

    fn constant(&self, id: ExprId) -> Result<i64, JitError> {
        match self.exprs.get(id) {
            Expr::Const(c) => Ok(*c),
            _ => Err(JitError::Expression),
        }
    }

    fn positive(&self, id: ExprId) -> Result<i64, JitError> {
        self.constant(id).and_then(|c| if c > 0 { Ok(c) } else { Err(JitError::Expression) })
    }
}
