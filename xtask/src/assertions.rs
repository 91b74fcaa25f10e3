//! Sentences in assertions: a test that holds one breaks when words are improved, so their number may only fall.
//!
//! Counted are literals of more than four words in what `assert!` and its kin compare, not in the message of a failure and
//! not in snapshots. Where words are worth freezing, they belong into a snapshot.

use anyhow::{Context as _, ensure};
use proc_macro2::{Delimiter, TokenStream, TokenTree};
use std::collections::BTreeMap;
use std::fs;
use xshell::{Shell, cmd};

/// Sentences that are left. Whoever removes one lowers it.
const MAX_SENTENCES: usize = 145;
/// A literal with more words is a sentence.
const MAX_WORDS: usize = 4;

/// Fails if there are more sentences than there were, or fewer than this file says.
pub(crate) fn check(sh: &Shell) -> anyhow::Result<()> {
    let files = cmd!(sh, "git ls-files *.rs").quiet().read()?;
    let mut by_file = BTreeMap::new();
    for file in files.lines() {
        // A file that was deleted and not committed is still listed.
        let Ok(text) = fs::read_to_string(sh.current_dir().join(file)) else { continue };
        let tokens = text.parse::<TokenStream>().map_err(|error| anyhow::anyhow!("{error}"));
        let n = in_tokens(tokens.with_context(|| format!("{file} cannot be read"))?);
        if n > 0 {
            by_file.insert(file, n);
        }
    }
    let n: usize = by_file.values().sum();
    let mut most: Vec<_> = by_file.into_iter().collect();
    most.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    let most: Vec<String> = most.iter().take(10).map(|(file, n)| format!("  {n} in {file}")).collect();
    ensure!(
        n <= MAX_SENTENCES,
        "{n} sentences in assertions, {MAX_SENTENCES} are allowed: compare kinds, codes and fields, or put the words into a \
         snapshot\n{}",
        most.join("\n")
    );
    ensure!(n == MAX_SENTENCES, "{n} sentences are left: lower MAX_SENTENCES in xtask/src/assertions.rs");
    Ok(())
}

/// Sentences in the assertions of these tokens.
fn in_tokens(tokens: TokenStream) -> usize {
    let mut n = 0;
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        let n_compared = match &token {
            TokenTree::Ident(name) => n_compared(&name.to_string()),
            TokenTree::Group(group) => {
                n += in_tokens(group.stream());
                None
            }
            _ => None,
        };
        let Some(n_compared) = n_compared else { continue };
        if tokens.next_if(|next| matches!(next, TokenTree::Punct(sign) if sign.as_char() == '!')).is_none() {
            continue;
        }
        if let Some(TokenTree::Group(group)) = tokens.next()
            && group.delimiter() == Delimiter::Parenthesis
        {
            n += in_arguments(group.stream(), n_compared);
        }
    }
    n
}

/// How many arguments of a macro are compared.
fn n_compared(name: &str) -> Option<usize> {
    match name.strip_prefix("prop_").unwrap_or(name) {
        "assert" => Some(1),
        "assert_eq" | "assert_ne" => Some(2),
        _ => None,
    }
}

/// Sentences in the first arguments.
fn in_arguments(tokens: TokenStream, n_arguments: usize) -> usize {
    let is_comma = |token: &TokenTree| matches!(token, TokenTree::Punct(sign) if sign.as_char() == ',');
    let mut n_commas = 0;
    let compared = tokens.into_iter().take_while(|token| {
        n_commas += usize::from(is_comma(token));
        n_commas < n_arguments
    });
    compared.map(sentences).sum()
}

fn sentences(token: TokenTree) -> usize {
    match token {
        TokenTree::Group(group) => group.stream().into_iter().map(sentences).sum(),
        TokenTree::Literal(literal) => {
            let text = literal.to_string().replace("\\n", " ");
            let is_text = text.contains('"');
            usize::from(is_text && text.split_whitespace().filter(|word| *word != "\\").count() > MAX_WORDS)
        }
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::in_tokens;

    #[test]
    fn sentences_are_counted_in_what_is_compared() {
        for (code, n) in [
            ("assert_eq!(text, \"one two three four five\");", 1),
            ("assert_eq!(text, \"one two three four\");", 0),
            ("assert!(text.contains(\"one two three four five\"), \"six seven eight nine ten\");", 1),
            ("assert_ne!(f(\"one two three four five\", 1), [r#\"a b c d e\"#], \"a b c d e {x}\");", 2),
            ("mod tests { fn a() { prop_assert!(text == \"a\\nb\\nc\\nd\\ne\"); } }", 1),
            ("let text = \"one two three four five\"; assert(\"one two three four five\");", 0),
        ] {
            assert_eq!(in_tokens(code.parse().unwrap()), n, "{code}");
        }
    }
}
