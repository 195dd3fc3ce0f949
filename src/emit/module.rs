//! The module: finished computations and the entry.

use clutch_graph::Graph;
use rustc_hash::FxHashMap;

use super::body::{Body, Inst};
use super::helpers::Helper;
use super::lower;
use super::proto::hlo_input_output_alias_proto::AliasEntryProto;
use super::proto::{HloComputationProto, HloInputOutputAliasProto, HloModuleProto, Kind};
use super::{EmitError, EmitOptions};

/// How a nested graph's computation takes its parameters and returns its outputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Calling {
    /// One parameter each; an array for one output, else a tuple. For `call`.
    Flat,
    /// A tuple of parameters; a tuple of outputs. For loop bodies and branches.
    Packed,
    /// A tuple of parameters; one array. For loop conditions.
    Predicate,
}

/// Computations in callee-first order. Ids of computations and instructions count up from 1.
pub(super) struct Module<'g> {
    pub(super) options: EmitOptions,
    computations: Vec<HloComputationProto>,
    next_instruction: i64,
    helpers: FxHashMap<Helper, i64>,
    nested: FxHashMap<(&'g Graph, Calling), i64>,
}

impl<'g> Module<'g> {
    pub(super) fn new(options: EmitOptions) -> Self {
        Module { options, computations: Vec::new(), next_instruction: 1, helpers: FxHashMap::default(), nested: FxHashMap::default() }
    }

    /// Id that the next added computation will have.
    pub(super) fn next_computation(&self) -> i64 {
        self.computations.len() as i64 + 1
    }

    /// Adds a finished body under `name` and returns the computation's id.
    pub(super) fn add(&mut self, body: Body, root: Inst, name: String) -> i64 {
        let id = self.next_computation();
        let first = self.next_instruction;
        self.next_instruction += body.len() as i64;
        self.computations.push(body.finish(root, name, id, first));
        id
    }

    /// The computation of a helper, made on first use.
    pub(super) fn helper(&mut self, helper: Helper) -> i64 {
        if let Some(&id) = self.helpers.get(&helper) {
            return id;
        }
        let (body, root) = helper.body(self.options.max_drops_nan);
        let id = self.add(body, root, helper.name());
        self.helpers.insert(helper, id);
        id
    }

    /// Emits a nested graph; those it refers to must have been added before.
    pub(super) fn add_nested(&mut self, graph: &'g Graph, calling: Calling) -> Result<(), EmitError> {
        if self.nested.contains_key(&(graph, calling)) {
            return Ok(());
        }
        let (body, root) = lower::nested(self, graph, calling)?;
        let name = format!("region.{}", self.next_computation());
        let id = self.add(body, root, name);
        self.nested.insert((graph, calling), id);
        Ok(())
    }

    /// Id of a nested graph's computation.
    pub(super) fn nested(&self, graph: &Graph, calling: Calling) -> i64 {
        *self.nested.get(&(graph, calling)).expect("nested graphs are added before their users")
    }

    /// Emits the entry computation and returns the module and its instruction count.
    pub(super) fn finish(mut self, graph: &'g Graph) -> Result<(HloModuleProto, usize), EmitError> {
        let aliases = aliases(graph)?;
        let (body, root) = lower::entry(&mut self, graph)?;
        let entry = self.add(body, root, "main".to_owned());
        let host_program_shape = self.computations.last().and_then(|c| c.program_shape.clone());
        let count = self.computations.iter().map(|c| c.instructions.len()).sum();
        let proto = HloModuleProto {
            name: "clutch".to_owned(),
            entry_computation_name: "main".to_owned(),
            computations: self.computations,
            host_program_shape,
            id: 1,
            entry_computation_id: entry,
            input_output_alias: aliases,
        };
        Ok((proto, count))
    }
}

fn aliases(graph: &Graph) -> Result<Option<HloInputOutputAliasProto>, EmitError> {
    let mut aliases = graph.aliases.clone();
    aliases.sort_unstable();
    let mut entries = Vec::with_capacity(aliases.len());
    for (i, a) in aliases.iter().enumerate() {
        let fail = |reason| Err(EmitError::Alias { output: a.output, parameter: a.parameter, reason });
        let Some(&output) = graph.outputs.get(a.output) else {
            return fail("there is no such output");
        };
        let Some(&parameter) = graph.parameters().get(a.parameter) else {
            return fail("there is no such parameter");
        };
        if graph.try_ty(output) != graph.node(parameter).outputs.first() {
            return fail("their types differ");
        }
        if aliases[..i].iter().any(|b| b.output == a.output || b.parameter == a.parameter) {
            return fail("one of them is in another alias");
        }
        entries.push(AliasEntryProto {
            output_shape_index: vec![a.output as i64],
            parameter_number: a.parameter as i64,
            parameter_shape_index: Vec::new(),
            kind: Kind::MayAlias.into(),
        });
    }
    Ok((!entries.is_empty()).then_some(HloInputOutputAliasProto { entries }))
}
