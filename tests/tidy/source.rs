//! Rust source as tokens and string literals, each with its line.
//!
//! Comments are dropped. It knows as much of the grammar as the rules need, and
//! does not parse items or expand macros.

/// Tokens and string literals of one file.
#[derive(Debug, Default)]
pub(crate) struct Source {
    pub(crate) tokens: Vec<Token>,
    pub(crate) literals: Vec<Token>,
}

/// An identifier, one punctuation character, or the content of a literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Source {
    pub(crate) fn parse(text: &str) -> Self {
        let mut reader = Reader {
            chars: text.chars().collect(),
            at: 0,
            line: 1,
        };
        let mut source = Self::default();
        while let Some(next) = reader.peek(0) {
            match next {
                '/' if reader.peek(1) == Some('/') => reader.skip_line(),
                '/' if reader.peek(1) == Some('*') => reader.skip_block(),
                '"' => source.literals.push(reader.string()),
                '\'' => reader.skip_char_or_lifetime(),
                _ if next.is_alphanumeric() || next == '_' => reader.word(&mut source),
                _ if next.is_whitespace() => reader.advance(),
                _ => {
                    source.tokens.push(Token {
                        line: reader.line,
                        text: next.to_string(),
                    });
                    reader.advance();
                }
            }
        }
        source
    }

    /// The tokens before `#[cfg(test)] mod`: what the program itself consists of.
    pub(crate) fn without_tests(&self) -> &[Token] {
        let marker = ["#", "[", "cfg", "(", "test", ")", "]", "mod"];
        let end = positions(&self.tokens, &marker)
            .next()
            .unwrap_or(self.tokens.len());
        &self.tokens[..end]
    }
}

/// Where `pattern` stands in `tokens`.
pub(crate) fn positions<'a>(
    tokens: &'a [Token],
    pattern: &'a [&'a str],
) -> impl Iterator<Item = usize> + 'a {
    tokens
        .windows(pattern.len())
        .enumerate()
        .filter_map(move |(at, window)| {
            window
                .iter()
                .zip(pattern)
                .all(|(token, text)| token.text == *text)
                .then_some(at)
        })
}

struct Reader {
    chars: Vec<char>,
    at: usize,
    line: usize,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<char> {
        self.chars.get(self.at + ahead).copied()
    }

    fn advance(&mut self) {
        if self.peek(0) == Some('\n') {
            self.line += 1;
        }
        self.at += 1;
    }

    fn skip_line(&mut self) {
        while self.peek(0).is_some_and(|next| next != '\n') {
            self.advance();
        }
    }

    fn skip_block(&mut self) {
        let mut depth = 0_usize;
        while let Some(next) = self.peek(0) {
            match (next, self.peek(1)) {
                ('/', Some('*')) => depth += 1,
                ('*', Some('/')) => depth -= 1,
                _ => {
                    self.advance();
                    continue;
                }
            }
            self.advance();
            self.advance();
            if depth == 0 {
                return;
            }
        }
    }

    /// `'a'` and `'\n'` are skipped whole, `'a` only by its quote.
    fn skip_char_or_lifetime(&mut self) {
        let escaped = self.peek(1) == Some('\\');
        let closed = self.peek(2) == Some('\'');
        self.advance();
        if escaped {
            self.advance();
            self.advance();
            while self.peek(0).is_some_and(|next| next != '\'') {
                self.advance();
            }
            self.advance();
        } else if closed {
            self.advance();
            self.advance();
        }
    }

    /// A string from its opening quote on, escapes kept as written.
    fn string(&mut self) -> Token {
        let line = self.line;
        let mut text = String::new();
        self.advance();
        while let Some(next) = self.peek(0) {
            self.advance();
            match next {
                '"' => break,
                '\\' => {
                    text.push('\\');
                    text.extend(self.peek(0));
                    self.advance();
                }
                _ => text.push(next),
            }
        }
        Token { line, text }
    }

    /// An identifier or number, or a string with a prefix (`r#"…"#`, `b"…"`).
    fn word(&mut self, source: &mut Source) {
        let line = self.line;
        let mut text = String::new();
        while let Some(next) = self
            .peek(0)
            .filter(|next| next.is_alphanumeric() || *next == '_')
        {
            text.push(next);
            self.advance();
        }
        let hashes = self.chars[self.at..]
            .iter()
            .take_while(|next| **next == '#')
            .count();
        let quoted = self.peek(hashes) == Some('"');
        match text.as_str() {
            "r" | "br" | "cr" if quoted => source.literals.push(self.raw_string(hashes)),
            "b" | "c" if quoted && hashes == 0 => source.literals.push(self.string()),
            _ => source.tokens.push(Token { line, text }),
        }
    }

    fn raw_string(&mut self, hashes: usize) -> Token {
        let line = self.line;
        let mut text = String::new();
        (0..=hashes).for_each(|_| self.advance());
        while let Some(next) = self.peek(0) {
            let closes = next == '"' && (1..=hashes).all(|ahead| self.peek(ahead) == Some('#'));
            self.advance();
            if closes {
                (0..hashes).for_each(|_| self.advance());
                break;
            }
            text.push(next);
        }
        Token { line, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens(text: &str) -> Vec<String> {
        Source::parse(text)
            .tokens
            .into_iter()
            .map(|token| token.text)
            .collect()
    }

    fn literals(text: &str) -> Vec<(usize, String)> {
        Source::parse(text)
            .literals
            .into_iter()
            .map(|token| (token.line, token.text))
            .collect()
    }

    #[test]
    fn comments_are_no_tokens() {
        assert_eq!(tokens("a // b\n/* c /* d */ e */ f"), ["a", "f"]);
        assert_eq!(tokens("//! a\n/// b\nc"), ["c"]);
    }

    #[test]
    fn strings_are_no_tokens() {
        assert_eq!(
            tokens(r##"a("b", r#"c "d" e"#, b"f", br"g", 'h', '\'', '"') i"##).concat(),
            "a(,,,,,,)i"
        );
    }

    #[test]
    fn lifetimes_do_not_open_a_char() {
        assert_eq!(
            tokens("fn a<'b>(c: &'b str) {}").concat(),
            "fna<b>(c:&bstr){}"
        );
    }

    #[test]
    fn literals_keep_their_line_and_text() {
        let text = "a(\"b\\\"c\",\n\n r#\"d\n\"e\"#, \"f\")";
        let expected = [(1, "b\\\"c"), (3, "d\n\"e"), (4, "f")];
        assert_eq!(
            literals(text),
            expected.map(|(line, text)| (line, text.to_owned()))
        );
    }

    #[test]
    fn tokens_keep_their_line() {
        let source = Source::parse("a\n/* \n */ \"\n\" b");
        assert_eq!(
            source.tokens[1],
            Token {
                line: 4,
                text: "b".to_owned()
            }
        );
    }

    #[test]
    fn the_tests_of_a_module_are_left_out() {
        let source = Source::parse("a; #[cfg(test)]\nmod tests { b; }");
        let texts: Vec<&str> = source
            .without_tests()
            .iter()
            .map(|token| token.text.as_str())
            .collect();
        assert_eq!(texts, ["a", ";"]);
    }

    #[test]
    fn a_function_for_tests_ends_nothing() {
        let source = Source::parse("#[cfg(test)] fn a() {} b");
        assert_eq!(source.without_tests().len(), source.tokens.len());
    }
}
