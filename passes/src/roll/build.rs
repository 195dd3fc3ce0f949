//! The graph with runs replaced by loops.

use std::sync::Arc;

use clutch_graph::builder::Builder;
use clutch_graph::graph::InputKind;
use clutch_graph::op::CompareDir;
use clutch_graph::{DType, Dims, Graph, GraphError, NodeId, Op, TensorType, ValueId};
use rustc_hash::FxHashMap;

use super::Known;
use super::plan::{Local, Operand, Plan, Side};
use crate::rewrite::{ValueMap, drop_dead, finish, results};
use crate::weights::Dependence;

/// The graph with these loops, which are in order.
pub(crate) fn build(known: &Known<'_>, live: &[bool], plans: &[Plan]) -> Result<Graph, GraphError> {
    let graph = known.graph;
    let mut outer = Outer { known, b: Builder::new(), map: ValueMap::new(graph.nodes().len()) };
    for (number, &id) in graph.parameters().iter().enumerate() {
        let value = outer.b.parameter(graph.node(id).outputs[0].clone(), graph.input_kinds[number]);
        outer.map.set(id, smallvec::smallvec![value]);
    }
    for id in graph.ids() {
        let parameter = matches!(graph.node(id).op, Op::Parameter(..));
        if live[id.index()] && known.dependence[id.index()] != Dependence::Call && !parameter {
            outer.copy(id)?;
        }
    }
    let mut at = 0;
    for plan in plans {
        let taken = plan.run.range();
        known.order[at..taken.start].iter().try_for_each(|&id| outer.copy(id))?;
        outer.insert(plan)?;
        at = taken.end;
    }
    known.order[at..].iter().try_for_each(|&id| outer.copy(id))?;
    drop_dead(&finish(outer.b, graph, &outer.map))
}

struct Outer<'a, 'g> {
    known: &'a Known<'g>,
    b: Builder,
    map: ValueMap,
}

/// The loop's state: the first value of each entry outside, and in the body its parameter and its next value.
#[derive(Default)]
struct State {
    first: Vec<ValueId>,
    parameter: Vec<ValueId>,
    next: Vec<ValueId>,
}

impl State {
    /// A new entry, which stays as it is until its next value is set; its number.
    fn add(&mut self, body: &mut Builder, ty: TensorType, first: ValueId) -> usize {
        let parameter = body.parameter(ty, InputKind::Dynamic);
        self.first.push(first);
        self.parameter.push(parameter);
        self.next.push(parameter);
        self.first.len() - 1
    }
}

impl Outer<'_, '_> {
    fn copy(&mut self, id: NodeId) -> Result<(), GraphError> {
        let node = self.known.graph.node(id);
        let operands = self.map.operands(node);
        let new = self.b.graph_mut().add(node.op.clone(), operands)?;
        self.map.set(id, results(self.b.graph(), new));
        Ok(())
    }

    fn zeros(&mut self, ty: &TensorType) -> Result<ValueId, GraphError> {
        self.b.full(ty.dtype, &ty.dims, 0.0)
    }

    fn insert(&mut self, plan: &Plan) -> Result<(), GraphError> {
        let (known, run) = (self.known, plan.run);
        let ids = &known.order[run.range()];
        let ty = |(t, output): Local| known.graph.node(ids[t]).outputs[output as usize].clone();
        let (mut body, mut state) = (Builder::new(), State::default());
        let start = self.b.scalar_int(DType::S32, 0)?;
        let counter = state.add(&mut body, TensorType::scalar(DType::S32), start);
        let counter = state.parameter[counter];
        let carried: Vec<usize> = plan.carried.iter().map(|&(local, first)| state.add(&mut body, ty(local), self.map.get(first))).collect();
        let mut sides: Vec<ValueId> = Vec::with_capacity(plan.sides.len());
        for side in &plan.sides {
            let value = match side {
                Side::Made(id, operands) => body.op(known.graph.node(*id).op.clone(), operands.iter().map(|&s| sides[s]))?,
                Side::Same(v) => {
                    let entry = state.add(&mut body, known.graph.ty(*v).clone(), self.map.get(*v));
                    state.parameter[entry]
                }
                Side::Stacked(values) => {
                    let stack = self.stack(values)?;
                    let entry = state.add(&mut body, self.b.ty(stack).clone(), stack);
                    layer_of(&mut body, state.parameter[entry], counter)?
                }
            };
            sides.push(value);
        }
        let mut layer = ValueMap::new(run.period);
        let get = |layer: &ValueMap, (t, output): Local| layer.get(ValueId { node: NodeId(t as u32), output });
        for (t, operands) in plan.operands.iter().enumerate() {
            let values: Vec<ValueId> = operands
                .iter()
                .map(|operand| match *operand {
                    Operand::Local(local) => get(&layer, local),
                    Operand::Carried(number) => state.parameter[carried[number]],
                    Operand::Side(number) => sides[number],
                })
                .collect();
            let id = body.graph_mut().add(known.graph.node(ids[t]).op.clone(), values)?;
            layer.set(NodeId(t as u32), results(body.graph(), id));
        }
        for (&entry, &(local, _)) in carried.iter().zip(&plan.carried) {
            state.next[entry] = get(&layer, local);
        }
        let mut last: FxHashMap<Local, usize> = plan.carried.iter().map(|c| c.0).zip(carried.iter().copied()).collect();
        let mut gathered: Vec<Option<usize>> = Vec::with_capacity(plan.read.len());
        for (local, layers) in &plan.read {
            let value = get(&layer, *local);
            if layers[..] == [run.count - 1] {
                if !last.contains_key(local) {
                    let first = self.zeros(&ty(*local))?;
                    let entry = state.add(&mut body, ty(*local), first);
                    state.next[entry] = value;
                    last.insert(*local, entry);
                }
                gathered.push(None);
            } else {
                let mut all = ty(*local);
                all.dims.insert(0, run.count as i64);
                let first = self.zeros(&all)?;
                let entry = state.add(&mut body, all, first);
                state.next[entry] = set_layer(&mut body, state.parameter[entry], value, counter)?;
                gathered.push(Some(entry));
            }
        }
        let one = body.scalar_int(DType::S32, 1)?;
        state.next[0] = body.add(counter, one)?;
        let types: Vec<TensorType> = state.first.iter().map(|&v| self.b.ty(v).clone()).collect();
        let body = body.finish(state.next);
        let cond = condition(&types, run.count)?;
        let values = self.b.op_multi(Op::While { cond: Arc::new(cond), body: Arc::new(body) }, state.first)?;
        for ((local, layers), gathered) in plan.read.iter().zip(gathered) {
            for &number in layers {
                let value = match gathered {
                    Some(entry) => {
                        let part = self.b.slice_axis(values[entry], 0, number as i64, number as i64 + 1, 1)?;
                        self.b.reshape(part, &ty(*local).dims)?
                    }
                    None => values[last[local]],
                };
                let old = ValueId { node: ids[number * run.period + local.0], output: local.1 };
                self.map.set_result(old, value, known.graph.node(old.node).outputs.len());
            }
        }
        Ok(())
    }

    /// The values along a new first axis.
    fn stack(&mut self, values: &[ValueId]) -> Result<ValueId, GraphError> {
        let mut parts = Vec::with_capacity(values.len());
        for &v in values {
            parts.push(self.b.unsqueeze(self.map.get(v), 0)?);
        }
        self.b.concat(&parts, 0)
    }
}

/// Indices of layer `counter` of a stack of the given rank.
fn indices(body: &mut Builder, rank: usize, counter: ValueId) -> Result<Vec<ValueId>, GraphError> {
    let zero = body.scalar_int(DType::S32, 0)?;
    Ok((0..rank).map(|axis| if axis == 0 { counter } else { zero }).collect())
}

fn layer_of(body: &mut Builder, stack: ValueId, counter: ValueId) -> Result<ValueId, GraphError> {
    let mut dims: Dims = body.dims(stack);
    dims[0] = 1;
    let mut operands = vec![stack];
    operands.extend(indices(body, dims.len(), counter)?);
    let part = body.op(Op::DynamicSlice(dims.clone()), operands)?;
    body.reshape(part, &dims[1..])
}

fn set_layer(body: &mut Builder, stack: ValueId, value: ValueId, counter: ValueId) -> Result<ValueId, GraphError> {
    let part = body.unsqueeze(value, 0)?;
    let mut operands = vec![stack, part];
    let rank = body.rank(stack);
    operands.extend(indices(body, rank, counter)?);
    body.op(Op::DynamicUpdateSlice, operands)
}

/// Whether layers are left.
fn condition(types: &[TensorType], count: usize) -> Result<Graph, GraphError> {
    let mut b = Builder::new();
    let state: Vec<ValueId> = types.iter().map(|ty| b.parameter(ty.clone(), InputKind::Dynamic)).collect();
    let end = b.scalar_int(DType::S32, count as i64)?;
    let more = b.compare(CompareDir::Lt, state[0], end)?;
    Ok(b.finish([more]))
}
