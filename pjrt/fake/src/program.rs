//! What the plugin needs to know of a program: the shapes of its parameters and results.

use crate::handle::Failure;
use clutch_pjrt::ElementType;

/// An array's type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) ty: ElementType,
    pub(crate) dims: Vec<i64>,
}

impl Shape {
    pub(crate) fn bytes(&self) -> usize {
        self.ty.array_bytes(&self.dims).unwrap_or(0)
    }
}

/// A compiled program.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    pub(crate) code: Vec<u8>,
    pub(crate) options: Vec<u8>,
    pub(crate) name: String,
    pub(crate) parameters: Vec<Shape>,
    pub(crate) results: Vec<Shape>,
}

enum Field<'a> {
    Integer(u64),
    Bytes(&'a [u8]),
}

fn malformed() -> Failure {
    Failure::invalid("the program is no HloModuleProto")
}

fn varint(data: &mut &[u8]) -> Result<u64, Failure> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = data.split_first().ok_or_else(malformed)?;
        *data = rest;
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(malformed())
}

fn fields(mut data: &[u8]) -> Result<Vec<(u64, Field<'_>)>, Failure> {
    let mut list = Vec::new();
    while !data.is_empty() {
        let key = varint(&mut data)?;
        let size = match key & 7 {
            0 => {
                list.push((key >> 3, Field::Integer(varint(&mut data)?)));
                continue;
            }
            1 => 8,
            2 => usize::try_from(varint(&mut data)?).map_err(|_| malformed())?,
            5 => 4,
            _ => return Err(malformed()),
        };
        let (value, rest) = data.split_at_checked(size).ok_or_else(malformed)?;
        data = rest;
        if key & 7 == 2 {
            list.push((key >> 3, Field::Bytes(value)));
        }
    }
    Ok(list)
}

/// Numbers of XLA's `PrimitiveType` for the types both enumerations name.
fn element_type(primitive: u64) -> Result<ElementType, Failure> {
    use ElementType as T;
    Ok(match primitive {
        1 => T::Pred,
        2 => T::S8,
        3 => T::S16,
        4 => T::S32,
        5 => T::S64,
        6 => T::U8,
        7 => T::U16,
        8 => T::U32,
        9 => T::U64,
        10 => T::F16,
        11 => T::F32,
        12 => T::F64,
        15 => T::C64,
        16 => T::Bf16,
        17 => T::Token,
        18 => T::C128,
        19 => T::F8E5M2,
        20 => T::F8E4M3Fn,
        21 => T::S4,
        22 => T::U4,
        other => return Err(Failure::invalid(format!("the fake plugin does not know primitive type {other}"))),
    })
}

/// The arrays of a shape: itself, or the elements of a flat tuple.
fn shapes(data: &[u8], out: &mut Vec<Shape>) -> Result<(), Failure> {
    const TUPLE: u64 = 13;
    let mut primitive = 0;
    let mut dims = Vec::new();
    let mut elements = Vec::new();
    for (number, field) in fields(data)? {
        match (number, field) {
            (2, Field::Integer(value)) => primitive = value,
            (3, Field::Integer(value)) => dims.push(value.cast_signed()),
            (3, Field::Bytes(mut packed)) => {
                while !packed.is_empty() {
                    dims.push(varint(&mut packed)?.cast_signed());
                }
            }
            (4, Field::Bytes(element)) => elements.push(element),
            _ => {}
        }
    }
    if primitive != TUPLE {
        out.push(Shape { ty: element_type(primitive)?, dims });
        return Ok(());
    }
    for element in elements {
        let before = out.len();
        if fields(element)?.iter().any(|(number, field)| *number == 2 && matches!(field, Field::Integer(TUPLE))) {
            return Err(Failure::invalid("the fake plugin takes no nested tuples"));
        }
        shapes(element, out)?;
        debug_assert_eq!(out.len(), before + 1);
    }
    Ok(())
}

impl Program {
    pub(crate) fn parse(code: &[u8], options: &[u8]) -> Result<Self, Failure> {
        let mut name = String::new();
        let mut signature = None;
        for (number, field) in fields(code)? {
            match (number, field) {
                (1, Field::Bytes(text)) => name = String::from_utf8_lossy(text).into_owned(),
                (4, Field::Bytes(program_shape)) => signature = Some(program_shape),
                _ => {}
            }
        }
        let (mut parameters, mut results) = (Vec::new(), Vec::new());
        for (number, field) in fields(signature.ok_or_else(malformed)?)? {
            match (number, field) {
                (1, Field::Bytes(shape)) => shapes(shape, &mut parameters)?,
                (2, Field::Bytes(shape)) => shapes(shape, &mut results)?,
                _ => {}
            }
        }
        Ok(Self { code: code.to_vec(), options: options.to_vec(), name, parameters, results })
    }

    /// A hash of program and options (FNV-1a).
    pub(crate) fn hash(&self) -> u64 {
        self.code
            .iter()
            .chain(&self.options)
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
    }
}
