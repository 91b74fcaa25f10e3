//! One source file as a list of the paths that its production code names.
//!
//! It reads words, `::` and brackets, and skips comments, literals and items under `#[cfg(test)]`; documentation is read
//! as an attribute. A string that is one path, as in `deserialize_with = "crate::skill::written::usage"`, counts as that
//! path.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::BTreeMap;

/// The names of nested modules, from the root of the crate.
pub(super) type Module = Vec<String>;

/// What is read from one file.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Source {
    /// The module of each path, and the path as it is written, without what `use` renames it to.
    pub(super) paths: Vec<(Module, Vec<String>)>,
    /// What each `use` brings into its module: the module, the name there and the path.
    pub(super) imports: BTreeMap<(Module, String), Vec<String>>,
    /// Modules in files of their own that are compiled for tests alone.
    pub(super) test_modules: Vec<Module>,
    /// Macros that are exported at the root of the crate.
    pub(super) macros: Vec<String>,
}

impl Source {
    /// Reads the text of the file that holds this module.
    pub(super) fn read(module: &[String], text: &str) -> anyhow::Result<Self> {
        let stream = text.parse::<TokenStream>().map_err(|error| anyhow::anyhow!("{error}"))?;
        let mut reader = Reader { tokens: Vec::new(), at: 0, source: Self::default() };
        flatten(stream, &mut reader.tokens);
        if !reader.skip_inner_attributes() {
            reader.items(module);
        }
        Ok(reader.source)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    /// `::`
    Colons,
    Sign(char),
    /// The text of a string, with its escapes as they are written.
    Literal(String),
}

/// Adds the tokens in their order, with the signs of brackets around what is inside.
fn flatten(stream: TokenStream, tokens: &mut Vec<Token>) {
    let mut stream = stream.into_iter().peekable();
    while let Some(tree) = stream.next() {
        match tree {
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket | Delimiter::None => ('[', ']'),
                };
                tokens.push(Token::Sign(open));
                flatten(group.stream(), tokens);
                tokens.push(Token::Sign(close));
            }
            TokenTree::Ident(word) => {
                let word = word.to_string();
                tokens.push(Token::Word(word.strip_prefix("r#").unwrap_or(&word).to_owned()));
            }
            TokenTree::Punct(sign) => match sign.as_char() {
                ':' if sign.spacing() == Spacing::Joint && stream.next_if(is_colon).is_some() => {
                    tokens.push(Token::Colons);
                }
                // The name of a lifetime is left to be read as a word.
                '\'' => {}
                sign => tokens.push(Token::Sign(sign)),
            },
            TokenTree::Literal(literal) => {
                let literal = literal.to_string();
                let text = literal.strip_prefix('"').and_then(|text| text.strip_suffix('"'));
                tokens.extend(text.map(|text| Token::Literal(text.to_owned())));
            }
        }
    }
}

fn is_colon(token: &TokenTree) -> bool {
    matches!(token, TokenTree::Punct(sign) if sign.as_char() == ':')
}

/// Words that say what an item is.
const ITEMS: [&str; 9] = ["const", "enum", "fn", "impl", "mod", "static", "struct", "trait", "use"];

struct Reader {
    tokens: Vec<Token>,
    at: usize,
    source: Source,
}

impl Reader {
    fn peek(&self, ahead: usize) -> Option<&Token> {
        self.tokens.get(self.at + ahead)
    }

    fn is_word(&self, ahead: usize, expected: &str) -> bool {
        matches!(self.peek(ahead), Some(Token::Word(word)) if word == expected)
    }

    fn is_sign(&self, ahead: usize, expected: char) -> bool {
        self.peek(ahead) == Some(&Token::Sign(expected))
    }

    fn word(&self, ahead: usize) -> Option<String> {
        match self.peek(ahead) {
            Some(Token::Word(word)) => Some(word.clone()),
            _ => None,
        }
    }

    /// Skips the attributes that a file begins with; true if `#![cfg(test)]` is one of them.
    fn skip_inner_attributes(&mut self) -> bool {
        while self.is_sign(0, '#') && self.is_sign(1, '!') {
            if self.is_test_attribute(2) {
                return true;
            }
            self.skip_brackets('[', ']');
        }
        false
    }

    /// True at the bracket of `[cfg(test)]` or `[cfg(all(test, ..))]`.
    fn is_test_attribute(&self, at: usize) -> bool {
        let test = if self.is_word(at + 3, "all") { at + 5 } else { at + 3 };
        self.is_sign(at, '[') && self.is_word(at + 1, "cfg") && self.is_word(test, "test")
    }

    /// Reads to the end of the module's block, or of the file.
    fn items(&mut self, module: &[String]) {
        let mut depth = 0_u32;
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Token::Sign('#') if self.is_test_attribute(1) => self.skip_item(module),
                Token::Sign('{') => depth += 1,
                Token::Sign('}') if depth == 0 => return,
                Token::Sign('}') => depth -= 1,
                Token::Word(word) if word == "mod" && self.is_sign(2, '{') => {
                    let inner: Module = module.iter().cloned().chain(self.word(1)).collect();
                    self.at += 3;
                    self.items(&inner);
                }
                Token::Word(word) if word == "use" => {
                    self.at += 1;
                    self.tree(module, &[]);
                    continue;
                }
                Token::Word(word) if word == "macro_rules" => self.source.macros.extend(self.word(2)),
                Token::Word(word) if is_anchor(&word) && self.peek(1) == Some(&Token::Colons) => {
                    self.path(module);
                    continue;
                }
                Token::Literal(text) => {
                    let path: Vec<String> = text.split("::").map(str::to_owned).collect();
                    let is_name = |part: &String| part.chars().all(|c| c == '_' || c.is_alphanumeric());
                    if path.len() > 1
                        && path.first().is_some_and(|first| is_anchor(first))
                        && path.iter().all(is_name)
                    {
                        self.source.paths.push((module.to_vec(), path));
                    }
                }
                Token::Word(_) | Token::Colons | Token::Sign(_) => {}
            }
            self.at += 1;
        }
    }

    /// A path outside of `use`.
    fn path(&mut self, module: &[String]) {
        let mut path: Vec<String> = self.word(0).into_iter().collect();
        self.at += 1;
        while self.peek(0) == Some(&Token::Colons)
            && let Some(next) = self.word(1)
        {
            path.push(next);
            self.at += 2;
        }
        self.source.paths.push((module.to_vec(), path));
    }

    /// What follows `use`, or one branch in its braces.
    fn tree(&mut self, module: &[String], above: &[String]) {
        let mut path = above.to_vec();
        loop {
            match self.peek(0).cloned() {
                Some(Token::Word(word)) if word == "as" => {
                    let name = self.word(1).unwrap_or_default();
                    self.at += 2;
                    return self.import(module, path, name);
                }
                Some(Token::Word(word)) => path.push(word),
                Some(Token::Sign('{')) => {
                    self.at += 1;
                    while !self.is_sign(0, '}') && self.peek(0).is_some() {
                        self.tree(module, &path);
                        if self.is_sign(0, ',') {
                            self.at += 1;
                        }
                    }
                    self.at += 1;
                    return;
                }
                Some(Token::Colons | Token::Sign('*')) => {}
                Some(_) | None => {
                    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                        path.pop();
                    }
                    let name = path.last().cloned().unwrap_or_default();
                    return self.import(module, path, name);
                }
            }
            self.at += 1;
        }
    }

    fn import(&mut self, module: &[String], path: Vec<String>, name: String) {
        self.source.paths.push((module.to_vec(), path.clone()));
        self.source.imports.insert((module.to_vec(), name), path);
    }

    /// Goes to the end of the item behind an attribute, and leaves what follows it to be read.
    fn skip_item(&mut self, module: &[String]) {
        while self.is_sign(0, '#') {
            self.at += 1;
            self.skip_brackets('[', ']');
        }
        let mut item = None;
        while let Some(token) = self.peek(0).cloned() {
            match token {
                Token::Sign(';') => {
                    if item.as_deref() == Some("mod") {
                        let name = self.tokens.get(self.at - 1).cloned();
                        let name = name
                            .and_then(|token| if let Token::Word(word) = token { Some(word) } else { None });
                        self.source.test_modules.push(module.iter().cloned().chain(name).collect());
                    }
                    return;
                }
                Token::Sign('{') => {
                    self.skip_brackets('{', '}');
                    self.at -= 1;
                    return;
                }
                Token::Sign('(') => self.skip_brackets('(', ')'),
                // A field, a variant or an argument.
                Token::Sign(',') if item.is_none() => return,
                Token::Sign('}' | ')') => {
                    self.at -= 1;
                    return;
                }
                Token::Word(word) => {
                    item = item.or_else(|| ITEMS.contains(&word.as_str()).then_some(word));
                    self.at += 1;
                }
                Token::Sign(_) | Token::Colons | Token::Literal(_) => self.at += 1,
            }
        }
    }

    /// From an opening bracket to behind its closing one.
    fn skip_brackets(&mut self, open: char, close: char) {
        let mut depth = 0_u32;
        while let Some(token) = self.peek(0) {
            depth += u32::from(*token == Token::Sign(open));
            let is_end = *token == Token::Sign(close);
            self.at += 1;
            if is_end {
                depth -= 1;
                if depth == 0 {
                    return;
                }
            }
        }
    }
}

/// True of a word that a path inside this crate begins with.
fn is_anchor(word: &str) -> bool {
    ["crate", "self", "super"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The paths of a file at the root, each with `module: ` in front of it where it is nested.
    #[track_caller]
    fn check(text: &str, expect: &[&str]) {
        let found: Vec<String> = Source::read(&[], text)
            .unwrap()
            .paths
            .into_iter()
            .map(|(module, path)| match module.as_slice() {
                [] => path.join("::"),
                _ => format!("{}: {}", module.join("::"), path.join("::")),
            })
            .collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn paths_are_those_of_code() {
        check(
            "use crate::a::{B, c::{self, D as E}, *};",
            &["crate::a::B", "crate::a::c", "crate::a::c::D", "crate::a"],
        );
        check(
            "fn f<'a>(x: &'a crate::a::B<'a>) -> super::C { crate::d::f::<u8>('\'', '\"') }",
            &["crate::a::B", "super::C", "crate::d::f"],
        );
        check("pub(crate) fn f() { $crate::a::b!() }", &["crate::a::b"]);
        check(
            "mod a { mod b { use super::super::c; } } use r#type::d;",
            &["a::b: super::super::c", "type::d"],
        );
        check("#[serde(with = \"crate::a::wire\")] struct B;", &["crate::a::wire"]);
    }

    #[test]
    fn comments_literals_and_tests_hold_no_path() {
        check("// crate::a::b\n/* crate::a /* crate::b */ crate::c */ /// crate::d::e", &[]);
        check("let x = \"\\\"crate::a::b\"; let y = \"use crate::a::b;\"; let z = br#\"crate::a::b\"#;", &[]);
        check(
            "#[cfg(test)] #[derive(Debug)] pub struct A { b: crate::b::B } use crate::c::C;",
            &["crate::c::C"],
        );
        check(
            "#[cfg(test)] mod tests { use crate::a::B; fn f() { { } } } use crate::c::C;",
            &["crate::c::C"],
        );
        check("#[cfg(all(test, unix))] fn f<A, B>(a: A) { crate::b::f() } crate::c::f()", &["crate::c::f"]);
        check("S { #[cfg(test)] a: crate::a::f(), b: crate::b::f() }", &["crate::b::f"]);
        check("#[cfg(not(test))] fn f() { crate::b::f() }", &["crate::b::f"]);
        check("#![cfg(test)] use crate::a::B;", &[]);
        check("//! About.\n#![allow(dead_code)]\n#![cfg(test)] use crate::a::B;", &[]);
    }

    #[test]
    fn modules_of_tests_imports_and_macros_are_known() {
        let source = Source::read(
            &["a".to_owned()],
            "#[cfg(test)] mod b; pub use c::D as E; macro_rules! f { () => {} }",
        )
        .unwrap();
        assert_eq!(source.test_modules, [["a", "b"]]);
        assert_eq!(source.macros, ["f"]);
        let key = (vec!["a".to_owned()], "E".to_owned());
        assert_eq!(source.imports.get(&key).map(|path| path.join("::")).as_deref(), Some("c::D"));
    }
}
