//! Tokens of the text form.

/// A token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'a> {
    /// A name, keyword or number.
    Word(&'a str),
    /// `%name` or `%name.n`, without the sign.
    Value(&'a str),
    /// One character of punctuation.
    Punct(char),
    /// End of the text.
    End,
}

/// Reads tokens one ahead.
pub(super) struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    next: Token<'a>,
    ahead_line: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        let mut lexer = Lexer { rest: text, line: 1, next: Token::End, ahead_line: 1 };
        lexer.advance();
        lexer
    }

    /// Line of the token ahead, from 1.
    pub fn line_ahead(&self) -> usize {
        self.ahead_line
    }

    pub fn peek(&self) -> Token<'a> {
        self.next
    }

    pub fn advance(&mut self) -> Token<'a> {
        let token = self.next;
        self.skip_space();
        self.ahead_line = self.line;
        self.next = self.scan();
        token
    }

    fn skip_space(&mut self) {
        loop {
            let trimmed = self.rest.trim_start();
            let skipped = &self.rest[..self.rest.len() - trimmed.len()];
            self.line += skipped.bytes().filter(|&b| b == b'\n').count();
            self.rest = trimmed;
            if !trimmed.starts_with('#') {
                return;
            }
            let end = trimmed.find('\n').unwrap_or(trimmed.len());
            self.rest = &trimmed[end..];
        }
    }

    fn scan(&mut self) -> Token<'a> {
        let text = self.rest;
        let word = |from: usize| {
            let tail = &text[from..];
            from + tail.find(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-' | '+'))).unwrap_or(tail.len())
        };
        let Some(first) = text.chars().next() else { return Token::End };
        match first {
            '%' => {
                let end = word(1);
                self.rest = &text[end..];
                Token::Value(&text[1..end])
            }
            c if c.is_ascii_alphanumeric() || c == '_' || c == '-' => {
                let end = word(0);
                self.rest = &text[end..];
                Token::Word(&text[..end])
            }
            c => {
                self.rest = &text[c.len_utf8()..];
                Token::Punct(c)
            }
        }
    }
}
