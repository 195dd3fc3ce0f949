//! The bytes of a [`Recipe`] in a cache entry. The only place of this crate that uses bincode.

use clutch_graph::op::Axes;
use clutch_graph::{DType, TensorType};

use crate::capture::lower::{Sink, Source};
use crate::capture::program::ViewBase;
use crate::recipe::{Argument, Interface, Recipe};
use crate::weight_values::WeightValue;

type TypeBytes = (u8, Vec<i64>);
type ArgumentBytes = (u8, u64, Vec<u64>, TypeBytes, bool);
type InterfaceBytes = (Vec<ArgumentBytes>, Vec<TypeBytes>);
type SinkBytes = (u8, i64, Vec<u64>, Vec<i64>, i64);
type ValueBytes = ([u8; 32], Vec<u64>);
type WeightBytes = Option<(InterfaceBytes, Vec<ValueBytes>)>;
type RecipeBytes = (InterfaceBytes, WeightBytes, Vec<SinkBytes>, Vec<(u64, u64)>, Vec<(u64, u64)>, u64, Vec<Vec<u64>>, Vec<(u64, String)>);

/// The bytes are not those of a recipe. Cache entries are verified, so this means another version wrote them.
#[derive(Debug, thiserror::Error)]
#[error("not the bytes of a recipe")]
pub struct RecipeError;

/// The recipe's bytes.
pub fn encode(recipe: &Recipe) -> Vec<u8> {
    let wire: RecipeBytes = (
        interface_bytes(&recipe.main),
        recipe.weights.as_ref().map(|w| (interface_bytes(w), recipe.weight_values.iter().map(value_bytes).collect())),
        recipe.sinks.iter().map(sink_bytes).collect(),
        recipe.mutations.iter().map(|&(i, o)| (i as u64, o as u64)).collect(),
        recipe.donated.iter().map(|&(i, o)| (i as u64, o as u64)).collect(),
        recipe.inputs as u64,
        recipe.mutation_orders.iter().map(order_bytes).collect(),
        recipe.assertions.iter().map(|(o, message)| (*o as u64, message.clone())).collect(),
    );
    bincode::encode_to_vec(wire, bincode::config::standard()).expect("plain vectors and numbers always encode")
}

/// The recipe in `bytes`.
///
/// # Errors
/// When the bytes hold anything else.
pub fn decode(bytes: &[u8]) -> Result<Recipe, RecipeError> {
    let config = bincode::config::standard().with_limit::<{ 64 << 20 }>();
    let ((main, weights, sinks, mutations, donated, inputs, orders, assertions), read): (RecipeBytes, usize) =
        bincode::decode_from_slice(bytes, config).map_err(|_| RecipeError)?;
    if read != bytes.len() {
        return Err(RecipeError);
    }
    let (weights, weight_values) = weights.unzip();
    Ok(Recipe {
        main: interface(main)?,
        weights: weights.map(interface).transpose()?,
        weight_values: weight_values.unwrap_or_default().into_iter().map(weight_value).collect(),
        sinks: sinks.into_iter().map(sink).collect::<Result<_, _>>()?,
        mutations: mutations.into_iter().map(|(i, o)| (i as usize, o as usize)).collect(),
        donated: donated.into_iter().map(|(i, o)| (i as usize, o as usize)).collect(),
        inputs: inputs as usize,
        mutation_orders: orders.into_iter().map(order).collect(),
        assertions: assertions.into_iter().map(|(o, message)| (o as usize, message)).collect(),
    })
}

fn order_bytes(order: &Axes) -> Vec<u64> {
    order.iter().map(|&a| a as u64).collect()
}

fn order(bytes: Vec<u64>) -> Axes {
    bytes.into_iter().map(|a| a as usize).collect()
}

fn value_bytes(value: &WeightValue) -> ValueBytes {
    (value.digest, value.arguments.iter().map(|&a| a as u64).collect())
}

fn weight_value((digest, arguments): ValueBytes) -> WeightValue {
    WeightValue { digest, arguments: arguments.into_iter().map(|a| a as usize).collect() }
}

fn type_bytes(ty: &TensorType) -> TypeBytes {
    let number = DType::ALL.iter().position(|d| *d == ty.dtype).unwrap_or(0);
    (number as u8, ty.dims.to_vec())
}

fn tensor_type((dtype, dims): TypeBytes) -> Result<TensorType, RecipeError> {
    let dtype = DType::ALL.get(usize::from(dtype)).ok_or(RecipeError)?;
    Ok(TensorType::new(*dtype, dims))
}

fn interface_bytes(interface: &Interface) -> InterfaceBytes {
    let arguments = interface.arguments.iter().map(|(argument, ty, kept)| {
        let (tag, index, order) = match argument {
            Argument::Program(Source::Input { index, order }) => (0, *index as u64, order_bytes(order)),
            Argument::Program(Source::Constant(i)) => (1, *i as u64, Vec::new()),
            Argument::Program(Source::Seed) => (2, 0, Vec::new()),
            Argument::Program(Source::Bound(i)) => (4, *i as u64, Vec::new()),
            Argument::Weight(i) => (3, *i as u64, Vec::new()),
        };
        (tag, index, order, type_bytes(ty), *kept)
    });
    (arguments.collect(), interface.outputs.iter().map(type_bytes).collect())
}

fn interface((arguments, outputs): InterfaceBytes) -> Result<Interface, RecipeError> {
    let arguments = arguments.into_iter().map(|(tag, index, axes, ty, kept)| {
        let index = index as usize;
        let argument = match tag {
            0 => Argument::Program(Source::Input { index, order: order(axes) }),
            1 => Argument::Program(Source::Constant(index)),
            2 => Argument::Program(Source::Seed),
            4 => Argument::Program(Source::Bound(index)),
            3 => Argument::Weight(index),
            _ => return Err(RecipeError),
        };
        Ok((argument, tensor_type(ty)?, kept))
    });
    Ok(Interface {
        arguments: arguments.collect::<Result<_, _>>()?,
        outputs: outputs.into_iter().map(tensor_type).collect::<Result<_, _>>()?,
    })
}

fn sink_bytes(sink: &Sink) -> SinkBytes {
    match sink {
        Sink::None => (0, 0, Vec::new(), Vec::new(), 0),
        Sink::Int(i) => (1, *i, Vec::new(), Vec::new(), 0),
        Sink::Input(i) => (2, *i as i64, Vec::new(), Vec::new(), 0),
        Sink::Constant(i) => (3, *i as i64, Vec::new(), Vec::new(), 0),
        Sink::Output { index, order } => (4, *index as i64, order_bytes(order), Vec::new(), 0),
        Sink::View { base, dims, strides, offset } => {
            let (tag, base) = match base {
                ViewBase::Input(i) => (5, *i),
                ViewBase::Output(i) => (6, *i),
            };
            (tag, i64::from(base), Vec::new(), dims.iter().chain(strides).copied().collect(), *offset)
        }
    }
}

fn sink((tag, value, axes, sizes, offset): SinkBytes) -> Result<Sink, RecipeError> {
    let view = |base: ViewBase| {
        let (dims, strides) = sizes.split_at(sizes.len() / 2);
        Sink::View { base, dims: dims.into(), strides: strides.into(), offset }
    };
    let index = usize::try_from(value).unwrap_or(0);
    Ok(match tag {
        0 => Sink::None,
        1 => Sink::Int(value),
        2 => Sink::Input(index),
        3 => Sink::Constant(index),
        4 => Sink::Output { index, order: order(axes) },
        5 => view(ViewBase::Input(index as u32)),
        6 => view(ViewBase::Output(index as u32)),
        _ => return Err(RecipeError),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    #[test]
    fn recipes_round_trip_and_garbage_is_refused() {
        let ty = TensorType::new(DType::BF16, [2, 3]);
        let order: Axes = smallvec::smallvec![1, 0];
        let recipe = Recipe {
            main: Interface {
                arguments: vec![
                    (Argument::Program(Source::Input { index: 3, order: order.clone() }), ty.clone(), true),
                    (Argument::Program(Source::Seed), TensorType::scalar(DType::U64), false),
                    (Argument::Weight(1), ty.clone(), true),
                    (Argument::Program(Source::Bound(7)), TensorType::scalar(DType::S32), false),
                ],
                outputs: vec![ty.clone()],
            },
            weights: Some(Interface { arguments: vec![(Argument::Program(Source::Constant(2)), ty, true)], outputs: vec![] }),
            weight_values: vec![WeightValue { digest: [7; 32], arguments: vec![0] }],
            sinks: vec![
                Sink::None,
                Sink::Int(-4),
                Sink::Input(1),
                Sink::Output { index: 0, order: order.clone() },
                Sink::View { base: ViewBase::Output(3), dims: smallvec::smallvec![2, 3], strides: smallvec::smallvec![1, 2], offset: 5 },
            ],
            mutations: vec![(1, 0)],
            assertions: vec![(2, "lengths must be positive".to_owned())],
            donated: vec![(0, 1)],
            inputs: 4,
            mutation_orders: vec![order],
        };
        let bytes = encode(&recipe);
        assert_eq!(decode(&bytes).unwrap(), recipe);
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end]).is_err());
        }
    }
}
