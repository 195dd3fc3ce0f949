//! What makes results of weight programs equal: programs for several buckets keep one copy of those that are.

use std::hash::{Hash, Hasher};

use clutch_graph::{Graph, Op, ValueId};

use crate::capture::lower::Source;

/// One result of a weight program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WeightValue {
    /// Equal for equal computations on the same arguments of the captured program.
    pub digest: [u8; 32],
    /// The weight program's arguments that it is computed from.
    pub arguments: Vec<usize>,
}

/// Feeds what the standard library's `Hash` writes to blake3.
struct Blake3(blake3::Hasher);

impl Hasher for Blake3 {
    fn write(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> u64 {
        self.0.finalize().as_bytes().first_chunk().map_or(0, |start| u64::from_le_bytes(*start))
    }
}

/// The results of a weight program whose parameters come from `sources`.
pub fn weight_values(graph: &Graph, sources: &[&Source]) -> Vec<WeightValue> {
    let mut values: Vec<WeightValue> = Vec::with_capacity(graph.nodes().len());
    for node in graph.nodes() {
        let mut hasher = Blake3(blake3::Hasher::new());
        let mut arguments = Vec::new();
        if let Op::Parameter(number, ty) = &node.op {
            format!("{:?}", sources[*number]).hash(&mut hasher);
            ty.hash(&mut hasher);
            arguments.push(*number);
        } else {
            node.op.hash(&mut hasher);
            for operand in &node.operands {
                let value = &values[operand.node.index()];
                value.digest.hash(&mut hasher);
                operand.output.hash(&mut hasher);
                arguments.extend_from_slice(&value.arguments);
            }
            arguments.sort_unstable();
            arguments.dedup();
        }
        values.push(WeightValue { digest: *hasher.0.finalize().as_bytes(), arguments });
    }
    let result = |output: &ValueId| {
        let value = &values[output.node.index()];
        let mut hasher = Blake3(blake3::Hasher::new());
        (value.digest, output.output).hash(&mut hasher);
        WeightValue { digest: *hasher.0.finalize().as_bytes(), arguments: value.arguments.clone() }
    };
    graph.outputs.iter().map(result).collect()
}

#[cfg(test)]
mod tests {
    use clutch_graph::{DType, InputKind, TensorType};
    use pretty_assertions::assert_eq;

    use super::*;

    fn program(weights: usize, transposed: &[usize]) -> (Graph, Vec<Source>) {
        let mut graph = Graph::new();
        let parameters: Vec<_> = (0..weights).map(|_| graph.parameter(TensorType::new(DType::F32, [2, 3]), InputKind::Static)).collect();
        for &t in transposed {
            let value = graph.add1(Op::Transpose(smallvec::smallvec![1, 0]), [parameters[t]]).unwrap();
            graph.outputs.push(value);
        }
        (graph, (0..weights).map(|index| Source::Input { index, order: smallvec::smallvec![0, 1] }).collect())
    }

    #[test]
    fn equal_computations_are_equal_in_any_program() {
        let ((g, s), (h, t)) = (program(3, &[0, 2]), program(3, &[2, 1]));
        let a = weight_values(&g, &s.iter().collect::<Vec<_>>());
        let b = weight_values(&h, &t.iter().collect::<Vec<_>>());
        assert_eq!(a[1], b[0]);
        assert_eq!(a[1].arguments, vec![2]);
        assert!(a[0].digest != b[1].digest && a[0].digest != a[1].digest);
    }

    #[test]
    fn what_an_argument_is_counts_and_not_its_number() {
        let (g, s) = program(2, &[0, 1]);
        let same = weight_values(&g, &[&s[0], &s[0]]);
        assert_eq!(same[0].digest, same[1].digest);
    }
}
