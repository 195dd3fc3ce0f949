//! Element types of buffers.

use crate::abi::buffer_type;
use std::fmt;

macro_rules! element_types {
    ($($variant:ident = $raw:ident, $bytes:literal, $name:literal;)*) => {
        /// Element type of a buffer, numbered as in the PJRT interface.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u32)]
        pub enum ElementType {
            $(
                #[doc = concat!("`", $name, "`")]
                $variant = buffer_type::$raw,
            )*
        }

        impl ElementType {
            /// Every element type.
            pub const ALL: &'static [Self] = &[$(Self::$variant,)*];

            /// The element type with this number in the PJRT interface; `None` for numbers this crate does not know.
            #[must_use]
            pub const fn from_raw(raw: u32) -> Option<Self> {
                match raw {
                    $(buffer_type::$raw => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// Bytes of one element in host memory. Types narrower than a byte take one byte each; a token takes none.
            #[must_use]
            pub const fn size_of(self) -> usize {
                match self {
                    $(Self::$variant => $bytes,)*
                }
            }

            /// Lower-case XLA name, such as `"bf16"`.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)*
                }
            }
        }
    };
}

element_types! {
    Pred = PRED, 1, "pred";
    S8 = S8, 1, "s8";
    S16 = S16, 2, "s16";
    S32 = S32, 4, "s32";
    S64 = S64, 8, "s64";
    U8 = U8, 1, "u8";
    U16 = U16, 2, "u16";
    U32 = U32, 4, "u32";
    U64 = U64, 8, "u64";
    F16 = F16, 2, "f16";
    F32 = F32, 4, "f32";
    F64 = F64, 8, "f64";
    Bf16 = BF16, 2, "bf16";
    C64 = C64, 8, "c64";
    C128 = C128, 16, "c128";
    F8E5M2 = F8E5M2, 1, "f8e5m2";
    F8E4M3Fn = F8E4M3FN, 1, "f8e4m3fn";
    F8E4M3B11Fnuz = F8E4M3B11FNUZ, 1, "f8e4m3b11fnuz";
    F8E5M2Fnuz = F8E5M2FNUZ, 1, "f8e5m2fnuz";
    F8E4M3Fnuz = F8E4M3FNUZ, 1, "f8e4m3fnuz";
    S4 = S4, 1, "s4";
    U4 = U4, 1, "u4";
    Token = TOKEN, 0, "token";
    S2 = S2, 1, "s2";
    U2 = U2, 1, "u2";
    F8E4M3 = F8E4M3, 1, "f8e4m3";
    F8E3M4 = F8E3M4, 1, "f8e3m4";
    F8E8M0Fnu = F8E8M0FNU, 1, "f8e8m0fnu";
    F4E2M1Fn = F4E2M1FN, 1, "f4e2m1fn";
    S1 = S1, 1, "s1";
    U1 = U1, 1, "u1";
    F6E2M3Fn = F6E2M3FN, 1, "f6e2m3fn";
    F6E3M2Fn = F6E3M2FN, 1, "f6e3m2fn";
}

impl ElementType {
    /// The number in the PJRT interface (not XLA's `PrimitiveType`).
    #[must_use]
    pub const fn to_raw(self) -> u32 {
        self as u32
    }

    /// The interface's minor version from which a plugin is known to have the type. A plugin given a number it does not
    /// know ends the process, so this is checked before the call.
    #[must_use]
    pub const fn since_minor(self) -> i32 {
        match self {
            Self::F6E2M3Fn | Self::F6E3M2Fn => 115,
            Self::S1 | Self::U1 => 106,
            _ => 81,
        }
    }

    /// Whether an element is narrower than a byte, so that device memory may hold several in one.
    #[must_use]
    pub const fn is_sub_byte(self) -> bool {
        use ElementType as T;
        matches!(self, T::S1 | T::U1 | T::S2 | T::U2 | T::S4 | T::U4 | T::F4E2M1Fn | T::F6E2M3Fn | T::F6E3M2Fn)
    }

    /// Bytes of a dense host array with these dimensions; `None` if a dimension is negative or the size overflows.
    #[must_use]
    pub fn array_bytes(self, dims: &[i64]) -> Option<usize> {
        dims.iter().try_fold(self.size_of(), |bytes, dim| bytes.checked_mul(usize::try_from(*dim).ok()?))
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}
