//! The PJRT C interface as Rust declarations: names, layouts and numbers only.
//!
//! Argument structs are passed with their `STRUCT_SIZE` (end of the last field), which is what a plugin compares.
//! Layouts are those of API 0.117; they are a prefix-compatible superset of every version this crate accepts.
#![allow(missing_docs, reason = "names and meanings are those of the PJRT C API")]

use std::ffi::{c_char, c_int, c_void};

macro_rules! opaque {
    ($name:ident) => {
        #[repr(C)]
        pub struct $name {
            _private: [u8; 0],
        }
    };
}

/// Declares a C struct with its `STRUCT_SIZE`, its field table and a zeroed constructor that sets `struct_size`.
macro_rules! abi_struct {
    ($name:ident = $c_name:literal { $($field:ident: $ty:ty,)* }) => {
        #[repr(C)]
        #[derive(Clone, Copy)]
        pub struct $name {
            $(pub $field: $ty,)*
        }

        impl $name {
            /// Name in the C interface.
            pub const C_NAME: &'static str = $c_name;
            /// Offset of the last field plus its size.
            pub const STRUCT_SIZE: usize = {
                let mut end = 0;
                $(
                    let field_end = std::mem::offset_of!($name, $field) + size_of::<$ty>();
                    if field_end > end {
                        end = field_end;
                    }
                )*
                end
            };
            /// Name, offset and size of every field.
            pub const FIELDS: &'static [(&'static str, usize, usize)] =
                &[$((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$ty>()),)*];

            /// All fields zero except `struct_size`.
            #[must_use]
            pub const fn new() -> Self {
                // SAFETY: every field is an integer, a float, a bool, a raw pointer, an optional function pointer or
                // a struct or union of those, for all of which zero bytes are a value.
                let mut value: Self = unsafe { std::mem::zeroed() };
                value.struct_size = Self::STRUCT_SIZE;
                value
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::new()
            }
        }
    };
}

/// Declares the function table and joins each argument struct with its slot.
macro_rules! api_table {
    (@slot opaque) => { *const c_void };
    (@slot $args:ident => void) => { Option<unsafe extern "C" fn(*mut $args)> };
    (@slot $args:ident => PJRT_Error) => { Option<unsafe extern "C" fn(*mut $args) -> *mut Error> };
    (@join $field:ident opaque) => {};
    (@join $field:ident $args:ident => void) => {};
    (@join $field:ident $args:ident => PJRT_Error) => {
        // SAFETY: the slot named here holds a function that takes `*mut $args` and returns `*mut Error`, or null.
        unsafe impl super::Arguments for $args {
            const FUNCTION: &'static str = stringify!($field);
            const SLOT: usize = std::mem::offset_of!(Api, $field);
            const SIZE: usize = $args::STRUCT_SIZE;
        }
    };
    ($($field:ident: $args:ident $(=> $ret:ident)?,)*) => {
        /// The function table a plugin returns from `GetPjrtApi`.
        #[repr(C)]
        #[derive(Clone, Copy)]
        #[allow(non_snake_case, reason = "the fields are the C function names")]
        pub struct Api {
            pub struct_size: usize,
            pub extension_start: *mut ExtensionBase,
            pub pjrt_api_version: ApiVersion,
            $(pub $field: api_table!(@slot $args $(=> $ret)?),)*
        }

        impl Api {
            /// Name and offset of every function slot.
            pub const SLOTS: &'static [(&'static str, usize)] =
                &[$((stringify!($field), std::mem::offset_of!(Api, $field)),)*];
        }

        $(api_table!(@join $field $args $(=> $ret)?);)*
    };
}

mod api;
mod constants;
mod structs;

pub use api::Api;
pub use constants::*;
pub use structs::*;

/// The argument struct of a function that returns an error pointer.
///
/// # Safety
/// `SLOT` is the offset in [`Api`] of an optional function pointer that takes `*mut Self` and returns `*mut Error`, and
/// the struct begins with its size as a `usize`.
pub unsafe trait Arguments {
    /// C name of the function.
    const FUNCTION: &'static str;
    /// Byte offset of the function's slot in [`Api`].
    const SLOT: usize;
    /// `STRUCT_SIZE` of the struct.
    const SIZE: usize;
}

pub type EventOnReadyCallback = unsafe extern "C" fn(error: *mut Error, user_arg: *mut c_void);
/// Type of the exported symbol `GetPjrtApi`.
pub type GetPjrtApi = unsafe extern "C" fn() -> *const Api;

/// Newest minor version whose layouts are declared here.
pub const API_MINOR: c_int = 117;

#[repr(C)]
#[derive(Clone, Copy)]
pub union NamedValueData {
    pub string_value: *const c_char,
    pub int64_value: i64,
    pub int64_array_value: *const i64,
    pub float_value: f32,
    pub bool_value: bool,
}

abi_struct! { NamedValue = "PJRT_NamedValue" {
    struct_size: usize,
    extension_start: *mut ExtensionBase,
    name: *const c_char,
    name_size: usize,
    type_: u32,
    value: NamedValueData,
    value_size: usize,
} }

abi_struct! { BufferMemoryLayoutTiled = "PJRT_Buffer_MemoryLayout_Tiled" {
    struct_size: usize,
    extension_start: *mut ExtensionBase,
    minor_to_major: *const i64,
    minor_to_major_size: usize,
    tile_dims: *const i64,
    tile_dim_sizes: *const usize,
    num_tiles: usize,
} }

abi_struct! { BufferMemoryLayoutStrides = "PJRT_Buffer_MemoryLayout_Strides" {
    struct_size: usize,
    extension_start: *mut ExtensionBase,
    byte_strides: *const i64,
    num_byte_strides: usize,
} }

#[repr(C)]
#[derive(Clone, Copy)]
pub union BufferMemoryLayoutData {
    pub tiled: BufferMemoryLayoutTiled,
    pub strides: BufferMemoryLayoutStrides,
}

abi_struct! { BufferMemoryLayout = "PJRT_Buffer_MemoryLayout" {
    struct_size: usize,
    extension_start: *mut ExtensionBase,
    data: BufferMemoryLayoutData,
    type_: u32,
} }
