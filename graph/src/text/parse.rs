//! Reads the text form.

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::dtype::DType;
use crate::error::GraphError;
use crate::graph::{Alias, Graph, InputKind, NodeId, Operands, ValueId};
use crate::literal::Literal;
use crate::op::Op;
use crate::text::MAX_NESTING;
use crate::text::attr::{Attr, Attrs};
use crate::text::lex::{Lexer, Token};
use crate::text::literal::{MAX_SPLAT, push_hex, push_scalar};
use crate::text::schema::op_of;
use crate::types::{Dims, TensorType};

/// Deepest nesting of lists and records in an attribute.
const MAX_ATTR_NESTING: usize = 8;

/// Reads a graph. Nodes are checked by their shape rules and against the written types; [`crate::verify`] checks the rest.
///
/// # Errors
/// [`GraphError::Parse`] with the line of the first fault.
pub fn parse(text: &str) -> Result<Graph, GraphError> {
    let mut p = Parser { lexer: Lexer::new(text) };
    let graph = p.graph(0)?;
    p.end()?;
    Ok(graph)
}

/// Reads a constant with its type, as in `[1, 2] : s32[2]`.
///
/// # Errors
/// [`GraphError::Parse`] with the line of the first fault.
pub fn parse_literal(text: &str) -> Result<Literal, GraphError> {
    let mut p = Parser { lexer: Lexer::new(text) };
    let elements = p.elements()?;
    p.punct(':')?;
    let ty = p.tensor_type()?;
    p.end()?;
    let line = p.lexer.line_ahead();
    elements.literal(ty).map_err(|reason| GraphError::Parse { line, reason })
}

/// The elements of a constant before its type is known.
enum Elements<'a> {
    Hex(&'a str),
    Splat(Vec<&'a str>),
    /// Parts of all elements in order, with the number of elements.
    List(Vec<&'a str>, usize),
}

impl Elements<'_> {
    fn literal(&self, ty: TensorType) -> Result<Literal, String> {
        let dtype = ty.dtype;
        let mut bytes = Vec::new();
        let fault = |parts: &[&str]| format!("`{}` is no element of type {dtype}", parts.join(", "));
        match self {
            Elements::Hex(digits) => push_hex(&mut bytes, digits).ok_or("not pairs of hexadecimal digits")?,
            Elements::Splat(parts) => {
                push_scalar(&mut bytes, dtype, parts).ok_or_else(|| fault(parts))?;
                if ty.byte_size() > MAX_SPLAT {
                    return Err(format!("a constant of one element for all is at most {MAX_SPLAT} bytes"));
                }
                bytes = bytes.repeat(ty.byte_size() / dtype.size());
            }
            Elements::List(parts, count) => {
                let width = if dtype.is_complex() { 2 } else { 1 };
                if parts.len() != width * count {
                    return Err(format!("elements are not of type {dtype}"));
                }
                for parts in parts.chunks(width) {
                    push_scalar(&mut bytes, dtype, parts).ok_or_else(|| fault(parts))?;
                }
            }
        }
        Literal::new(ty, bytes).map_err(|e| e.to_string())
    }
}

/// What stands between the parentheses of an op.
enum Args<'a> {
    Number(&'a str),
    Elements(Elements<'a>),
    Values(Operands),
}

struct Parser<'a> {
    lexer: Lexer<'a>,
}

/// Values by name, for one graph.
type Names<'a> = FxHashMap<&'a str, NodeId>;

impl<'a> Parser<'a> {
    fn fail<T>(&self, reason: impl Into<String>) -> Result<T, GraphError> {
        Err(GraphError::Parse { line: self.lexer.line_ahead(), reason: reason.into() })
    }

    fn expected<T>(&self, what: &str) -> Result<T, GraphError> {
        match self.lexer.peek() {
            Token::Word(w) => self.fail(format!("expected {what}, found `{}`", clip(w))),
            Token::Value(v) => self.fail(format!("expected {what}, found `%{}`", clip(v))),
            Token::Punct(c) => self.fail(format!("expected {what}, found `{}`", c.escape_default())),
            Token::End => self.fail(format!("expected {what}, found the end of the text")),
        }
    }

    fn end(&self) -> Result<(), GraphError> {
        if self.lexer.peek() == Token::End { Ok(()) } else { self.expected("the end of the text") }
    }

    fn at(&self, c: char) -> bool {
        self.lexer.peek() == Token::Punct(c)
    }

    fn accept(&mut self, c: char) -> bool {
        let found = self.at(c);
        if found {
            self.lexer.advance();
        }
        found
    }

    fn punct(&mut self, c: char) -> Result<(), GraphError> {
        if self.accept(c) { Ok(()) } else { self.expected(&format!("`{c}`")) }
    }

    fn word(&mut self, what: &str) -> Result<&'a str, GraphError> {
        match self.lexer.peek() {
            Token::Word(w) => {
                self.lexer.advance();
                Ok(w)
            }
            _ => self.expected(what),
        }
    }

    fn keyword(&mut self, keyword: &str) -> Result<(), GraphError> {
        if self.lexer.peek() != Token::Word(keyword) {
            return self.expected(&format!("`{keyword}`"));
        }
        self.lexer.advance();
        Ok(())
    }

    fn number<T: std::str::FromStr>(&mut self, what: &str) -> Result<T, GraphError> {
        let line = self.lexer.line_ahead();
        let word = self.word(what)?;
        word.parse().map_err(|_| GraphError::Parse { line, reason: format!("expected {what}, found `{}`", clip(word)) })
    }

    /// Items between the given brackets, separated by commas.
    fn items(&mut self, open: char, close: char, mut item: impl FnMut(&mut Self) -> Result<(), GraphError>) -> Result<(), GraphError> {
        self.punct(open)?;
        if self.accept(close) {
            return Ok(());
        }
        loop {
            item(self)?;
            if self.accept(close) {
                return Ok(());
            }
            if !self.accept(',') {
                return self.expected(&format!("`,` or `{close}`"));
            }
        }
    }

    fn graph(&mut self, depth: usize) -> Result<Graph, GraphError> {
        if depth > MAX_NESTING {
            return self.fail(format!("graphs nest deeper than {MAX_NESTING}"));
        }
        self.keyword("graph")?;
        self.punct('{')?;
        let mut graph = Graph::new();
        let mut names = Names::default();
        while matches!(self.lexer.peek(), Token::Value(_)) {
            self.statement(&mut graph, &mut names, depth)?;
        }
        if self.lexer.peek() == Token::Word("return") {
            self.lexer.advance();
            if matches!(self.lexer.peek(), Token::Value(_)) {
                graph.outputs.push(self.value(&graph, &names)?);
                while self.accept(',') {
                    graph.outputs.push(self.value(&graph, &names)?);
                }
            }
        }
        while self.lexer.peek() == Token::Word("alias") {
            self.lexer.advance();
            let output = self.number("an output number")?;
            self.punct('<')?;
            self.keyword("-")?;
            self.keyword("parameter")?;
            graph.aliases.push(Alias { output, parameter: self.number("a parameter number")? });
        }
        if !self.accept('}') {
            return self.expected("a node, `return`, `alias` or `}`");
        }
        Ok(graph)
    }

    fn value(&mut self, graph: &Graph, names: &Names<'a>) -> Result<ValueId, GraphError> {
        let Token::Value(text) = self.lexer.peek() else { return self.expected("a value") };
        let (name, output) = match text.split_once('.') {
            Some((name, output)) => (name, output.parse().ok()),
            None => (text, Some(0)),
        };
        let value = names.get(name).zip(output).map(|(&node, output)| ValueId { node, output });
        match value.filter(|&v| graph.try_ty(v).is_some()) {
            Some(v) => {
                self.lexer.advance();
                Ok(v)
            }
            None => self.fail(format!("no value %{} stands before", clip(text))),
        }
    }

    fn statement(&mut self, graph: &mut Graph, names: &mut Names<'a>, depth: usize) -> Result<(), GraphError> {
        let line = self.lexer.line_ahead();
        let fail = |reason: String| GraphError::Parse { line, reason };
        let Token::Value(name) = self.lexer.advance() else { return self.expected("a value") };
        if name.is_empty() || name.contains('.') || names.contains_key(name) {
            return Err(fail(format!("%{} is no new name", clip(name))));
        }
        let count: usize = if self.accept(':') { self.number("a result count")? } else { 1 };
        self.punct('=')?;
        let op_name = self.word("an op")?;
        let args = self.args(op_name, graph, names)?;
        let mut attrs = self.attrs(depth)?;
        self.punct(':')?;
        let types = self.types()?;
        if types.len() != count {
            return Err(fail(format!("{} result types for {count} results", types.len())));
        }
        let one_type = || match &types[..] {
            [ty] if ty.is_valid() => Ok(ty.clone()),
            _ => Err(fail(format!("{op_name} has one result of a valid type"))),
        };
        let id = match args {
            Args::Number(number) => {
                if number.parse() != Ok(graph.parameters().len()) {
                    return Err(fail(format!("parameter {} is not the next number", clip(number))));
                }
                let is_static = self.lexer.peek() == Token::Word("static");
                if is_static {
                    self.lexer.advance();
                }
                graph.parameter(one_type()?, if is_static { InputKind::Static } else { InputKind::Dynamic }).node
            }
            Args::Elements(elements) => {
                let literal = elements.literal(one_type()?).map_err(fail)?;
                graph.add(Op::Constant(literal), []).map_err(|e| fail(e.to_string()))?
            }
            Args::Values(operands) => {
                let op = op_of(op_name, &mut attrs, &types).map_err(fail)?;
                graph.add(op, operands).map_err(|e| fail(e.to_string()))?
            }
        };
        attrs.finish().map_err(fail)?;
        let inferred = &graph.node(id).outputs;
        if inferred[..] != types[..] {
            let list = inferred.iter().map(TensorType::to_string).collect::<Vec<_>>().join(", ");
            return Err(fail(format!("the shape rule of {op_name} gives ({list})")));
        }
        names.insert(name, id);
        Ok(())
    }

    fn args(&mut self, op_name: &str, graph: &Graph, names: &Names<'a>) -> Result<Args<'a>, GraphError> {
        match op_name {
            "parameter" => {
                self.punct('(')?;
                let number = self.word("a parameter number")?;
                self.punct(')')?;
                Ok(Args::Number(number))
            }
            "constant" => {
                self.punct('(')?;
                let elements = self.elements()?;
                self.punct(')')?;
                Ok(Args::Elements(elements))
            }
            _ => {
                let mut values = Operands::new();
                self.items('(', ')', |p| {
                    values.push(p.value(graph, names)?);
                    Ok(())
                })?;
                Ok(Args::Values(values))
            }
        }
    }

    fn elements(&mut self) -> Result<Elements<'a>, GraphError> {
        if self.lexer.peek() == Token::Word("hex") {
            self.lexer.advance();
            return self.word("hexadecimal digits").map(Elements::Hex);
        }
        let mut parts = Vec::new();
        if self.at('[') {
            let mut count = 0;
            self.items('[', ']', |p| {
                count += 1;
                p.element(&mut parts)
            })?;
            return Ok(Elements::List(parts, count));
        }
        self.element(&mut parts)?;
        Ok(Elements::Splat(parts))
    }

    fn element(&mut self, parts: &mut Vec<&'a str>) -> Result<(), GraphError> {
        if self.accept('(') {
            parts.push(self.word("a real part")?);
            self.punct(',')?;
            parts.push(self.word("an imaginary part")?);
            return self.punct(')');
        }
        parts.push(self.word("an element")?);
        Ok(())
    }

    /// Attributes up to something else than `name=`.
    fn attrs(&mut self, depth: usize) -> Result<Attrs, GraphError> {
        let mut attrs = Attrs::default();
        while let Token::Word(name) = self.lexer.peek() {
            if attrs.0.iter().any(|(n, _)| n == name) {
                return self.fail(format!("attribute {} appears twice", clip(name)));
            }
            self.lexer.advance();
            self.punct('=')?;
            let value = self.attr(depth, 0)?;
            attrs.0.push((name.to_owned(), value));
        }
        Ok(attrs)
    }

    fn attr(&mut self, depth: usize, inner: usize) -> Result<Attr, GraphError> {
        if inner > MAX_ATTR_NESTING {
            return self.fail("attributes nest too deep");
        }
        match self.lexer.peek() {
            Token::Word("graph") => Ok(Attr::Graph(Arc::new(self.graph(depth + 1)?))),
            Token::Word(w) => {
                self.lexer.advance();
                Ok(Attr::Atom(w.to_owned()))
            }
            Token::Punct('[') => {
                let mut list = Vec::new();
                self.items('[', ']', |p| {
                    list.push(p.attr(depth, inner + 1)?);
                    Ok(())
                })?;
                Ok(Attr::List(list))
            }
            Token::Punct('{') => {
                self.lexer.advance();
                let mut fields = Attrs::default();
                while !self.accept('}') {
                    let name = self.word("a field or `}`")?.to_owned();
                    self.punct('=')?;
                    fields.0.push((name, self.attr(depth, inner + 1)?));
                }
                Ok(Attr::Record(fields))
            }
            _ => self.expected("an attribute value"),
        }
    }

    fn types(&mut self) -> Result<Vec<TensorType>, GraphError> {
        if !self.at('(') {
            return Ok(vec![self.tensor_type()?]);
        }
        let mut types = Vec::new();
        self.items('(', ')', |p| {
            types.push(p.tensor_type()?);
            Ok(())
        })?;
        Ok(types)
    }

    fn tensor_type(&mut self) -> Result<TensorType, GraphError> {
        let dtype: DType = self.number("a type")?;
        let mut dims = Dims::new();
        self.items('[', ']', |p| {
            dims.push(p.number("a size")?);
            Ok(())
        })?;
        let ty = TensorType { dtype, dims };
        if ty.is_valid() { Ok(ty) } else { self.fail(format!("{ty} has a negative size or too many elements")) }
    }
}

/// At most 40 characters, for messages.
fn clip(word: &str) -> &str {
    word.char_indices().nth(40).map_or(word, |(at, _)| &word[..at])
}
