//! Symbolic sizes: interned integer expressions over symbols.

use std::fmt;

use rustc_hash::FxHashMap;

/// An expression in an [`ExprTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ExprId(pub u32);

/// A size: a number or an expression over symbols.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    /// A static size.
    Const(i64),
    /// A symbolic size.
    Expr(ExprId),
}

/// An integer expression. Operands stand earlier in the table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Expr {
    /// A number.
    Const(i64),
    /// A symbol by its number.
    Symbol(u32),
    /// Sum.
    Add(ExprId, ExprId),
    /// Product.
    Mul(ExprId, ExprId),
    /// Quotient rounded towards negative infinity.
    FloorDiv(ExprId, ExprId),
    /// Remainder with the sign of the divisor.
    Mod(ExprId, ExprId),
    /// Smaller.
    Min(ExprId, ExprId),
    /// Larger.
    Max(ExprId, ExprId),
    /// Power with a non-negative exponent.
    Pow(ExprId, ExprId),
}

/// An expression that could not be read or computed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExprError {
    /// The text is no expression of the known kinds.
    #[error("cannot read the size expression `{text}`: {reason}")]
    Syntax {
        /// The whole text.
        text: String,
        /// What is wrong.
        reason: String,
    },
    /// Division by zero, overflow or a negative exponent at these sizes.
    #[error("the size expression `{0}` has no value at these sizes")]
    NoValue(String),
}

/// Interned expressions and the names of their symbols. Symbols are numbered by first appearance, so that names never matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExprTable {
    exprs: Vec<Expr>,
    ids: FxHashMap<Expr, ExprId>,
    symbols: Vec<String>,
}

impl ExprTable {
    /// Interns an expression, folding constants.
    pub fn intern(&mut self, expr: Expr) -> ExprId {
        let folded = match expr {
            Expr::Const(_) | Expr::Symbol(_) => None,
            Expr::Add(a, b)
            | Expr::Mul(a, b)
            | Expr::FloorDiv(a, b)
            | Expr::Mod(a, b)
            | Expr::Min(a, b)
            | Expr::Max(a, b)
            | Expr::Pow(a, b) => match (self.get(a), self.get(b)) {
                (&Expr::Const(x), &Expr::Const(y)) => apply(&expr, x, y),
                _ => None,
            },
        };
        let expr = folded.map_or(expr, Expr::Const);
        if let Some(&id) = self.ids.get(&expr) {
            return id;
        }
        let id = ExprId(self.exprs.len() as u32);
        self.exprs.push(expr.clone());
        self.ids.insert(expr, id);
        id
    }

    /// The symbol of this name, numbered when new.
    pub fn symbol(&mut self, name: &str) -> ExprId {
        let number = self.symbols.iter().position(|s| s == name).unwrap_or_else(|| {
            self.symbols.push(name.to_owned());
            self.symbols.len() - 1
        });
        self.intern(Expr::Symbol(number as u32))
    }

    /// An expression.
    pub fn get(&self, id: ExprId) -> &Expr {
        &self.exprs[id.0 as usize]
    }

    /// All expressions, operands first.
    pub fn exprs(&self) -> &[Expr] {
        &self.exprs
    }

    /// Names of the symbols by number.
    pub fn symbols(&self) -> &[String] {
        &self.symbols
    }

    /// The size as a plain number if it is one.
    pub fn size(&self, id: ExprId) -> Size {
        match self.get(id) {
            Expr::Const(c) => Size::Const(*c),
            _ => Size::Expr(id),
        }
    }

    /// Value of a size, given the value of each symbol by number.
    ///
    /// # Errors
    /// On division by zero and overflow.
    pub fn eval(&self, size: Size, symbols: &[i64]) -> Result<i64, ExprError> {
        match size {
            Size::Const(c) => Ok(c),
            Size::Expr(id) => self.eval_expr(id, symbols).ok_or_else(|| ExprError::NoValue(self.display(id).to_string())),
        }
    }

    fn eval_expr(&self, id: ExprId, symbols: &[i64]) -> Option<i64> {
        match *self.get(id) {
            Expr::Const(c) => Some(c),
            Expr::Symbol(s) => symbols.get(s as usize).copied(),
            ref e @ (Expr::Add(a, b)
            | Expr::Mul(a, b)
            | Expr::FloorDiv(a, b)
            | Expr::Mod(a, b)
            | Expr::Min(a, b)
            | Expr::Max(a, b)
            | Expr::Pow(a, b)) => apply(e, self.eval_expr(a, symbols)?, self.eval_expr(b, symbols)?),
        }
    }

    /// Adds `equations` (expression, value) to the known symbol values: solves each equation that has one unknown symbol of the form
    /// `a * s + b`, again and again until nothing changes.
    pub fn solve(&self, equations: &[(ExprId, i64)], known: &mut [Option<i64>]) {
        loop {
            let mut changed = false;
            for &(expr, value) in equations {
                let Some((Some(symbol), a, b)) = self.linear(expr, known) else { continue };
                if a != 0 && (value - b) % a == 0 && known[symbol as usize].is_none() {
                    known[symbol as usize] = Some((value - b) / a);
                    changed = true;
                }
            }
            if !changed {
                return;
            }
        }
    }

    /// The expression as `a * symbol + b` with at most one unknown symbol.
    fn linear(&self, id: ExprId, known: &[Option<i64>]) -> Option<(Option<u32>, i64, i64)> {
        match *self.get(id) {
            Expr::Const(c) => Some((None, 0, c)),
            Expr::Symbol(s) => Some(match known.get(s as usize)? {
                Some(v) => (None, 0, *v),
                None => (Some(s), 1, 0),
            }),
            Expr::Add(x, y) => {
                let ((s, a, b), (t, c, d)) = (self.linear(x, known)?, self.linear(y, known)?);
                match (s, t) {
                    (Some(s), Some(t)) if s != t => None,
                    _ => Some((s.or(t), a.checked_add(c)?, b.checked_add(d)?)),
                }
            }
            Expr::Mul(x, y) => match (self.linear(x, known)?, self.linear(y, known)?) {
                ((s, a, b), (None, _, c)) | ((None, _, c), (s, a, b)) => Some((s, a.checked_mul(c)?, b.checked_mul(c)?)),
                _ => None,
            },
            ref e @ (Expr::FloorDiv(x, y) | Expr::Mod(x, y) | Expr::Min(x, y) | Expr::Max(x, y) | Expr::Pow(x, y)) => {
                match (self.linear(x, known)?, self.linear(y, known)?) {
                    ((None, _, p), (None, _, q)) => Some((None, 0, apply(e, p, q)?)),
                    _ => None,
                }
            }
        }
    }

    /// Text of an expression, for people.
    pub fn display(&self, id: ExprId) -> impl fmt::Display + '_ {
        Shown { table: self, id }
    }

    /// Reads an expression as sympy prints it, for example `2*s77 + 1`, `(s0//2)`, `Mod(s0, 8)` or `Max(1, s0)`.
    ///
    /// # Errors
    /// When the text holds anything else.
    pub fn parse(&mut self, text: &str) -> Result<ExprId, ExprError> {
        let mut p = Parser { table: self, text, at: 0, depth: 0 };
        let id = p.sum()?;
        p.space();
        if p.at < text.len() { p.fail("unexpected text after the expression") } else { Ok(id) }
    }
}

fn apply(e: &Expr, x: i64, y: i64) -> Option<i64> {
    match e {
        Expr::Add(..) => x.checked_add(y),
        Expr::Mul(..) => x.checked_mul(y),
        Expr::FloorDiv(..) if y != 0 => {
            let q = x.checked_div(y)?;
            Some(if x % y != 0 && (x < 0) != (y < 0) { q - 1 } else { q })
        }
        Expr::Mod(..) if y != 0 => {
            let r = x.checked_rem(y)?;
            Some(if r != 0 && (r < 0) != (y < 0) { r + y } else { r })
        }
        Expr::Min(..) => Some(x.min(y)),
        Expr::Max(..) => Some(x.max(y)),
        Expr::Pow(..) => x.checked_pow(u32::try_from(y).ok()?),
        _ => None,
    }
}

struct Shown<'a> {
    table: &'a ExprTable,
    id: ExprId,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let t = self.table;
        let (name, a, b) = match *t.get(self.id) {
            Expr::Const(c) => return write!(f, "{c}"),
            Expr::Symbol(s) => return write!(f, "s{s}"),
            Expr::Add(a, b) => return write!(f, "({} + {})", t.display(a), t.display(b)),
            Expr::Mul(a, b) => return write!(f, "{}*{}", t.display(a), t.display(b)),
            Expr::FloorDiv(a, b) => return write!(f, "({}//{})", t.display(a), t.display(b)),
            Expr::Mod(a, b) => ("Mod", a, b),
            Expr::Min(a, b) => ("Min", a, b),
            Expr::Max(a, b) => ("Max", a, b),
            Expr::Pow(a, b) => return write!(f, "{}**{}", t.display(a), t.display(b)),
        };
        write!(f, "{name}({}, {})", t.display(a), t.display(b))
    }
}

const MAX_DEPTH: usize = 64;

struct Parser<'t, 's> {
    table: &'t mut ExprTable,
    text: &'s str,
    at: usize,
    depth: usize,
}

impl Parser<'_, '_> {
    fn fail<T>(&self, reason: &str) -> Result<T, ExprError> {
        Err(ExprError::Syntax { text: self.text.to_owned(), reason: format!("{reason} at {}", self.at) })
    }

    fn space(&mut self) {
        while self.text[self.at..].starts_with(' ') {
            self.at += 1;
        }
    }

    fn eat(&mut self, token: &str) -> bool {
        self.space();
        let found = self.text[self.at..].starts_with(token);
        if found {
            self.at += token.len();
        }
        found
    }

    fn sum(&mut self) -> Result<ExprId, ExprError> {
        let mut left = self.product()?;
        loop {
            if self.eat("+") {
                let right = self.product()?;
                left = self.table.intern(Expr::Add(left, right));
            } else if self.eat("-") {
                let right = self.product()?;
                let negative = self.negate(right);
                left = self.table.intern(Expr::Add(left, negative));
            } else {
                return Ok(left);
            }
        }
    }

    fn negate(&mut self, x: ExprId) -> ExprId {
        let minus_one = self.table.intern(Expr::Const(-1));
        self.table.intern(Expr::Mul(minus_one, x))
    }

    fn product(&mut self) -> Result<ExprId, ExprError> {
        let mut left = self.power()?;
        loop {
            if self.eat("//") {
                let right = self.power()?;
                left = self.table.intern(Expr::FloorDiv(left, right));
            } else if self.eat("%") {
                let right = self.power()?;
                left = self.table.intern(Expr::Mod(left, right));
            } else if !self.text[self.at..].trim_start().starts_with("**") && self.eat("*") {
                let right = self.power()?;
                left = self.table.intern(Expr::Mul(left, right));
            } else {
                return Ok(left);
            }
        }
    }

    fn power(&mut self) -> Result<ExprId, ExprError> {
        if self.eat("-") {
            let x = self.power()?;
            return Ok(self.negate(x));
        }
        let base = self.atom()?;
        if self.eat("**") {
            let exponent = self.atom()?;
            return Ok(self.table.intern(Expr::Pow(base, exponent)));
        }
        Ok(base)
    }

    fn atom(&mut self) -> Result<ExprId, ExprError> {
        self.space();
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return self.fail("nested too deeply");
        }
        let id = self.atom_inner();
        self.depth -= 1;
        id
    }

    fn atom_inner(&mut self) -> Result<ExprId, ExprError> {
        if self.eat("(") {
            let id = self.sum()?;
            return if self.eat(")") { Ok(id) } else { self.fail("missing `)`") };
        }
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
        let word = &rest[..end];
        if word.is_empty() {
            return self.fail("expected a number, a symbol or `(`");
        }
        self.at += end;
        if word.starts_with(|c: char| c.is_ascii_digit()) {
            return match word.parse() {
                Ok(n) => Ok(self.table.intern(Expr::Const(n))),
                Err(_) => self.fail("not an integer"),
            };
        }
        if !self.eat("(") {
            return Ok(self.table.symbol(word));
        }
        let mut arguments = vec![self.sum()?];
        while self.eat(",") {
            arguments.push(self.sum()?);
        }
        if !self.eat(")") {
            return self.fail("missing `)`");
        }
        let make: fn(ExprId, ExprId) -> Expr = match word {
            "Mod" | "PythonMod" => Expr::Mod,
            "FloorDiv" | "CleanDiv" => Expr::FloorDiv,
            "Min" => Expr::Min,
            "Max" => Expr::Max,
            _ => return self.fail("unknown function"),
        };
        let mut arguments = arguments.into_iter();
        let Some(mut id) = arguments.next() else { return self.fail("no arguments") };
        for x in arguments {
            id = self.table.intern(make(id, x));
        }
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pretty_assertions::assert_eq;

    fn value(text: &str, symbols: &[i64]) -> i64 {
        let mut t = ExprTable::default();
        for i in 0..symbols.len() {
            t.symbol(&format!("s{i}"));
        }
        let id = t.parse(text).unwrap();
        t.eval(Size::Expr(id), symbols).unwrap()
    }

    #[test]
    fn reads_what_sympy_prints() {
        assert_eq!(value("2*s0 + 1", &[5]), 11);
        assert_eq!(value("((s0 - 1)//2) + 1", &[8]), 4);
        assert_eq!(value("-s0 + s1**2", &[3, 4]), 13);
        assert_eq!(value("Max(1, Min(s0, 7))", &[9]), 7);
        assert_eq!(value("Mod(s0, 8)", &[-3]), 5);
        assert_eq!(value("s0*s1//s1", &[6, 4]), 6);
    }

    #[test]
    fn refuses_what_it_does_not_know() {
        let mut t = ExprTable::default();
        for text in ["", "2 +", "sqrt(s0)", "s0 s1", "(s0", "1.5", &"(".repeat(200)] {
            assert!(t.parse(text).is_err(), "{text}");
        }
        let id = t.parse("s0//s1").unwrap();
        assert!(t.eval(Size::Expr(id), &[1, 0]).is_err());
    }

    #[test]
    fn solves_linear_sizes() {
        let mut t = ExprTable::default();
        let (a, b) = (t.parse("4*s0 + 1").unwrap(), t.parse("s0*s1").unwrap());
        let mut known = vec![None; 2];
        t.solve(&[(b, 21), (a, 13)], &mut known);
        assert_eq!(known, [Some(3), Some(7)]);
    }

    #[test]
    fn symbol_names_do_not_matter() {
        let (mut t, mut u) = (ExprTable::default(), ExprTable::default());
        assert_eq!(t.parse("s77*2").unwrap(), u.parse("s3*2").unwrap());
        assert_eq!(t.exprs(), u.exprs());
    }
}
