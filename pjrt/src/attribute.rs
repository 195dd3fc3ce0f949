//! Named values: options we pass, attributes plugins report.

use crate::abi::{self, named_value_type};
use crate::api::{slice_from, string_from};
use std::collections::BTreeMap;
use std::fmt;

/// Value of a client, topology or compile option.
#[derive(Clone, Debug, PartialEq)]
pub enum OptionValue {
    /// Text.
    String(String),
    /// Truth value.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// Number. Client and topology options hold it as 32 bits, compile options as 64.
    Float(f64),
}

impl From<&str> for OptionValue {
    fn from(value: &str) -> Self {
        Self::String(value.to_owned())
    }
}

impl From<String> for OptionValue {
    fn from(value: String) -> Self {
        Self::String(value)
    }
}

impl From<bool> for OptionValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for OptionValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<f64> for OptionValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl fmt::Display for OptionValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => formatter.write_str(value),
            Self::Bool(value) => value.fmt(formatter),
            Self::Int(value) => value.fmt(formatter),
            Self::Float(value) => value.fmt(formatter),
        }
    }
}

/// Value of an attribute that a plugin reports.
#[derive(Clone, Debug, PartialEq)]
pub enum Attribute {
    /// Text.
    String(String),
    /// Truth value.
    Bool(bool),
    /// Integer.
    Int(i64),
    /// List of integers.
    IntList(Vec<i64>),
    /// Number.
    Float(f32),
}

impl Attribute {
    /// The integer, if it is one.
    #[must_use]
    pub fn as_int(&self) -> Option<i64> {
        match self {
            Self::Int(value) => Some(*value),
            _ => None,
        }
    }

    /// The text, if it is text.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(value) => Some(value),
            _ => None,
        }
    }
}

impl fmt::Display for Attribute {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::String(value) => formatter.write_str(value),
            Self::Bool(value) => value.fmt(formatter),
            Self::Int(value) => value.fmt(formatter),
            Self::IntList(values) => write!(formatter, "{values:?}"),
            Self::Float(value) => value.fmt(formatter),
        }
    }
}

/// The C form of options. Borrows from the options, which must stay in place while it is used.
pub(crate) fn named_values(options: &[(&str, OptionValue)]) -> Vec<abi::NamedValue> {
    options
        .iter()
        .map(|(name, option)| {
            let mut value = abi::NamedValue::new();
            value.name = name.as_ptr().cast();
            value.name_size = name.len();
            value.value_size = 1;
            match option {
                OptionValue::String(text) => {
                    value.type_ = named_value_type::STRING;
                    value.value.string_value = text.as_ptr().cast();
                    value.value_size = text.len();
                }
                OptionValue::Bool(flag) => {
                    value.type_ = named_value_type::BOOL;
                    value.value.bool_value = *flag;
                }
                OptionValue::Int(number) => {
                    value.type_ = named_value_type::INT64;
                    value.value.int64_value = *number;
                }
                OptionValue::Float(number) => {
                    value.type_ = named_value_type::FLOAT;
                    #[allow(clippy::cast_possible_truncation, reason = "the interface holds 32 bits")]
                    let number = *number as f32;
                    value.value.float_value = number;
                }
            }
            value
        })
        .collect()
}

/// Copies a plugin's named values; values of a type this crate does not know are left out.
///
/// # Safety
/// `values` points to `count` valid entries, or is null.
pub(crate) unsafe fn attributes_from(values: *const abi::NamedValue, count: usize) -> BTreeMap<String, Attribute> {
    let mut attributes = BTreeMap::new();
    if values.is_null() || count == 0 {
        return attributes;
    }
    for index in 0..count {
        // SAFETY: within the array. Its stride is the C struct's size, which no version has changed.
        let entry = unsafe { &*values.add(index) };
        // SAFETY: the union field read is the one the type names; pointers are valid for the sizes given.
        let value = unsafe {
            match entry.type_ {
                named_value_type::STRING => Attribute::String(string_from(entry.value.string_value, entry.value_size)),
                named_value_type::INT64 => Attribute::Int(entry.value.int64_value),
                named_value_type::INT64_LIST => Attribute::IntList(slice_from(entry.value.int64_array_value, entry.value_size).to_vec()),
                named_value_type::FLOAT => Attribute::Float(entry.value.float_value),
                named_value_type::BOOL => Attribute::Bool(entry.value.bool_value),
                _ => continue,
            }
        };
        // SAFETY: the name is valid for its size.
        let name = unsafe { string_from(entry.name, entry.name_size) };
        attributes.insert(name, value);
    }
    attributes
}
