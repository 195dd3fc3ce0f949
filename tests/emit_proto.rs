//! The project's own message definitions against the table of XLA's field numbers.

use std::collections::BTreeMap;

const PROTO: &str = include_str!("../proto/hlo.proto");
const FIELDS: &str = include_str!("data/hlo_proto.tsv");
const ENUMS: &str = include_str!("data/hlo_enums.tsv");

#[derive(Debug, PartialEq, Eq)]
struct Field {
    number: String,
    ty: String,
    repeated: bool,
}

/// Fields by message and name, enum values by enum and name, with the names of nested definitions spelled `Outer.Inner`.
#[derive(Default)]
struct Definitions {
    fields: BTreeMap<(String, String), Field>,
    values: BTreeMap<(String, String), String>,
}

fn definitions() -> Definitions {
    let mut found = Definitions::default();
    let mut scopes: Vec<(bool, String)> = Vec::new();
    for line in PROTO.lines().map(str::trim) {
        let words: Vec<&str> = line.trim_end_matches(';').split_whitespace().collect();
        let scope = || scopes.iter().map(|(_, name)| name.as_str()).collect::<Vec<_>>().join(".");
        match words.as_slice() {
            [kind @ ("message" | "enum"), name, "{"] => scopes.push((*kind == "enum", (*name).to_owned())),
            ["}"] => drop(scopes.pop()),
            [name, "=", number] if scopes.last().is_some_and(|(is_enum, _)| *is_enum) => {
                found.values.insert((scope(), (*name).to_owned()), (*number).to_owned());
            }
            [label @ .., ty, name, "=", number] if !scopes.is_empty() => {
                let field = Field { number: (*number).to_owned(), ty: (*ty).to_owned(), repeated: label == ["repeated"] };
                let clash = found.fields.insert((scope(), (*name).to_owned()), field);
                assert!(clash.is_none(), "{line} stands twice");
            }
            _ => {}
        }
    }
    assert!(scopes.is_empty(), "braces do not match");
    found
}

fn rows(table: &str) -> impl Iterator<Item = Vec<&str>> {
    table.lines().skip(1).map(|line| line.split('\t').collect())
}

#[test]
fn fields_have_their_numbers_and_types() {
    let table: BTreeMap<(String, String), Field> = rows(FIELDS)
        .map(|row| {
            let [message, field, number, kind, type_name, label] = row[..] else { panic!("{row:?} is not a field") };
            let ty = if type_name.is_empty() { kind } else { type_name.rsplit('.').next().unwrap_or(type_name) };
            let value = Field { number: number.to_owned(), ty: ty.to_owned(), repeated: label == "repeated" };
            ((message.to_owned(), field.to_owned()), value)
        })
        .collect();
    let own = definitions().fields;
    assert!(own.len() > 100, "only {} fields were read", own.len());
    for (name, field) in &own {
        assert_eq!(Some(field), table.get(name), "{name:?}");
    }
}

#[test]
fn enum_values_have_their_numbers() {
    let table: BTreeMap<(String, String), String> = rows(ENUMS)
        .map(|row| {
            let [name, value, number] = row[..] else { panic!("{row:?} is not a value") };
            ((name.to_owned(), value.to_owned()), number.to_owned())
        })
        .collect();
    let own = definitions().values;
    assert!(own.len() > 20, "only {} values were read", own.len());
    for (name, number) in &own {
        assert_eq!(Some(number), table.get(name), "{name:?}");
    }
}
