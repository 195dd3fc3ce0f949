//! Every declared struct, slot and constant against the tables of the C interface.

use clutch_pjrt::abi::{self, Api};
use pretty_assertions::assert_eq;
use std::collections::{BTreeMap, BTreeSet};
use std::mem::{align_of, size_of};

fn rows(text: &'static str) -> impl Iterator<Item = Vec<&'static str>> {
    text.lines().skip(1).map(|line| line.split('\t').collect())
}

fn number(text: &str) -> usize {
    text.parse().unwrap()
}

const FIELDS: &str = include_str!("data/pjrt_abi.tsv");
const STRUCTS: &str = include_str!("data/pjrt_structs.tsv");
const FUNCTIONS: &str = include_str!("data/pjrt_functions.tsv");
const ENUMS: &str = include_str!("data/pjrt_enums.tsv");
const BUFFER_TYPES: &str = include_str!("data/buffer_type_map.tsv");

struct Declared {
    size: usize,
    struct_size: usize,
    fields: &'static [(&'static str, usize, usize)],
}

macro_rules! declared {
    ($($name:ident),* $(,)?) => {
        BTreeMap::from([$((
            abi::$name::C_NAME,
            Declared {
                size: size_of::<abi::$name>(),
                struct_size: abi::$name::STRUCT_SIZE,
                fields: abi::$name::FIELDS,
            },
        ),)*])
    };
}

fn all_declared() -> BTreeMap<&'static str, Declared> {
    include!("data/declared.in")
}

/// Members of the three unions, all at the union's offset.
fn union_of(c_struct: &str, field: &str) -> Option<&'static str> {
    match (c_struct, field) {
        ("PJRT_NamedValue", name) if name.ends_with("_value") => Some("value"),
        ("PJRT_Buffer_MemoryLayout", "tiled" | "strides") => Some("data"),
        _ => None,
    }
}

#[test]
fn fields_have_the_offsets_and_sizes_of_the_interface() {
    let declared = all_declared();
    let mut seen: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for row in rows(FIELDS) {
        let [c_struct, field, _, offset, size, _] = row[..] else { panic!("{row:?}") };
        let ours = &declared.get(c_struct).unwrap_or_else(|| panic!("{c_struct} is not declared")).fields;
        let union = union_of(c_struct, field);
        let name = union.unwrap_or(if field == "type" { "type_" } else { field });
        let (_, our_offset, our_size) =
            ours.iter().find(|(own, ..)| *own == name).unwrap_or_else(|| panic!("{c_struct}.{field} is missing"));
        assert_eq!(*our_offset, number(offset), "offset of {c_struct}.{field}");
        if union.is_some() {
            assert!(*our_size >= number(size), "size of {c_struct}.{field}");
        } else {
            assert_eq!(*our_size, number(size), "size of {c_struct}.{field}");
        }
        seen.entry(c_struct).or_default().insert(name);
    }
    for (c_struct, ours) in &declared {
        assert_eq!(ours.fields.len(), seen.get(c_struct).map_or(0, BTreeSet::len), "fields of {c_struct}");
    }
}

#[test]
fn structs_have_the_sizes_of_the_interface() {
    let declared = all_declared();
    let mut compared = 0;
    for row in rows(STRUCTS) {
        let [c_struct, size, struct_size] = row[..] else { panic!("{row:?}") };
        if c_struct == "PJRT_Api" {
            assert_eq!(size_of::<Api>(), number(size));
            continue;
        }
        let ours = &declared[c_struct];
        assert_eq!(ours.size, number(size), "size of {c_struct}");
        assert_eq!(ours.struct_size, number(struct_size), "STRUCT_SIZE of {c_struct}");
        compared += 1;
    }
    assert_eq!(compared, declared.len());
    assert_eq!(align_of::<Api>(), align_of::<usize>());
}

#[test]
fn the_function_table_has_every_slot_in_place() {
    let table: Vec<(&str, usize)> = rows(FUNCTIONS).map(|row| (row[1], number(row[0]))).collect();
    assert_eq!(Api::SLOTS, table);
    let declared = all_declared();
    for row in rows(FUNCTIONS) {
        let arguments = format!("{}_Args", row[1]);
        if let Some(ours) = declared.get(arguments.as_str()) {
            assert_eq!(ours.struct_size, number(row[3]), "{arguments}");
        }
    }
}

#[test]
fn constants_have_the_numbers_of_the_interface() {
    let ours = [
        ("PJRT_Error_Code", abi::error_code::ALL),
        ("PJRT_Buffer_Type", abi::buffer_type::ALL),
        ("PJRT_HostBufferSemantics", abi::host_buffer_semantics::ALL),
        ("PJRT_NamedValue_Type", abi::named_value_type::ALL),
        ("PJRT_Extension_Type", abi::extension_type::ALL),
        ("PJRT_Buffer_MemoryLayout_Type", abi::buffer_memory_layout_type::ALL),
    ];
    let flat: Vec<(&str, &str, u32)> =
        ours.iter().flat_map(|(name, values)| values.iter().map(|(value, raw)| (*name, *value, *raw))).collect();
    let mut table: Vec<(&str, &str, u32)> = rows(ENUMS).map(|row| (row[0], row[1], row[2].parse().unwrap())).collect();
    let order = |name: &str| ours.iter().position(|(own, _)| *own == name);
    table.sort_by_key(|(name, _, raw)| (order(name), *raw));
    assert_eq!(flat, table);
}

#[test]
fn element_types_are_numbered_as_buffer_types() {
    use clutch_pjrt::ElementType;
    let mut count = 0;
    for row in rows(BUFFER_TYPES) {
        let raw: u32 = row[1].parse().unwrap();
        let Some(ty) = ElementType::from_raw(raw) else {
            assert_eq!(raw, 0, "{row:?}");
            continue;
        };
        assert_eq!(ty.to_raw(), raw);
        assert_eq!(format!("PJRT_Buffer_Type_{}", ty.name().to_uppercase()), row[0]);
        count += 1;
    }
    assert_eq!(ElementType::ALL.len(), count);
}

#[test]
fn error_codes_go_both_ways() {
    use clutch_pjrt::ErrorCode;
    for (name, raw) in &abi::error_code::ALL[1..] {
        let code = ErrorCode::from_raw(*raw);
        assert_eq!(code.to_raw(), *raw);
        assert_eq!(format!("PJRT_Error_Code_{}", code.name()), *name);
    }
    assert_eq!(ErrorCode::from_raw(99), ErrorCode::Other(99));
    assert_eq!(ErrorCode::Other(99).to_raw(), 99);
}
