//! Attribute values between an op and its text.

use std::sync::Arc;

use crate::graph::Graph;

/// An attribute value as written.
#[derive(Clone, Debug)]
pub(super) enum Attr {
    /// A word or number.
    Atom(String),
    /// `[a,b]`.
    List(Vec<Attr>),
    /// `{name=value ...}`.
    Record(Attrs),
    /// `graph { ... }`.
    Graph(Arc<Graph>),
}

/// Named attributes in order.
#[derive(Clone, Debug, Default)]
pub(super) struct Attrs(pub Vec<(String, Attr)>);

pub(super) type Fault<T> = Result<T, String>;

impl Attr {
    pub fn atom(value: impl ToString) -> Attr {
        Attr::Atom(value.to_string())
    }

    pub fn list<T: ToString>(values: impl IntoIterator<Item = T>) -> Attr {
        Attr::List(values.into_iter().map(Attr::atom).collect())
    }

    pub fn real(value: f64) -> Attr {
        Attr::Atom(super::literal::real_text(value))
    }

    fn number<T: std::str::FromStr>(&self, name: &str) -> Fault<T> {
        match self {
            Attr::Atom(text) => text.parse().map_err(|_| format!("`{text}` is no value of {name}")),
            _ => Err(format!("{name} takes a number")),
        }
    }

    fn numbers<T: std::str::FromStr, C: FromIterator<T>>(&self, name: &str) -> Fault<C> {
        match self {
            Attr::List(items) => items.iter().map(|a| a.number(name)).collect(),
            _ => Err(format!("{name} takes a list")),
        }
    }
}

impl Attrs {
    pub fn with(mut self, name: &str, value: Attr) -> Attrs {
        self.0.push((name.to_owned(), value));
        self
    }

    pub fn atom(self, name: &str, value: impl ToString) -> Attrs {
        self.with(name, Attr::atom(value))
    }

    pub fn list<T: ToString>(self, name: &str, values: impl IntoIterator<Item = T>) -> Attrs {
        self.with(name, Attr::list(values))
    }

    /// Takes out an attribute.
    pub fn take(&mut self, name: &str) -> Option<Attr> {
        let at = self.0.iter().position(|(n, _)| n == name)?;
        Some(self.0.remove(at).1)
    }

    fn need(&mut self, name: &str) -> Fault<Attr> {
        self.take(name).ok_or_else(|| format!("attribute {name} is missing"))
    }

    pub fn number<T: std::str::FromStr>(&mut self, name: &str) -> Fault<T> {
        self.need(name)?.number(name)
    }

    pub fn number_or<T: std::str::FromStr>(&mut self, name: &str, default: T) -> Fault<T> {
        self.take(name).map_or(Ok(default), |a| a.number(name))
    }

    pub fn numbers<T: std::str::FromStr, C: FromIterator<T>>(&mut self, name: &str) -> Fault<C> {
        self.need(name)?.numbers(name)
    }

    pub fn numbers_or<T: std::str::FromStr, C: FromIterator<T>>(&mut self, name: &str, default: C) -> Fault<C> {
        self.take(name).map_or(Ok(default), |a| a.numbers(name))
    }

    pub fn real(&mut self, name: &str) -> Fault<f64> {
        match self.need(name)? {
            Attr::Atom(text) => super::literal::parse_real(&text).ok_or_else(|| format!("`{text}` is no value of {name}")),
            _ => Err(format!("{name} takes a number")),
        }
    }

    pub fn word<T>(&mut self, name: &str, from_name: fn(&str) -> Option<T>) -> Fault<T> {
        match self.need(name)? {
            Attr::Atom(text) => from_name(&text).ok_or_else(|| format!("`{text}` is no value of {name}")),
            _ => Err(format!("{name} takes a word")),
        }
    }

    pub fn graph(&mut self, name: &str) -> Fault<Arc<Graph>> {
        match self.need(name)? {
            Attr::Graph(g) => Ok(g),
            _ => Err(format!("{name} takes a graph")),
        }
    }

    pub fn records(&mut self, name: &str) -> Fault<Vec<Attrs>> {
        let fault = || format!("{name} takes a list of records");
        match self.need(name)? {
            Attr::List(items) => items.into_iter().map(|a| if let Attr::Record(r) = a { Ok(r) } else { Err(fault()) }).collect(),
            _ => Err(fault()),
        }
    }

    /// An error when attributes are left.
    pub fn finish(&self) -> Fault<()> {
        self.0.first().map_or(Ok(()), |(name, _)| Err(format!("unknown attribute {name}")))
    }
}
