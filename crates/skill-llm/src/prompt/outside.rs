//! Text of a template that no block holds: it is never rendered, and anyone who wrote it does not expect that.

/// The line, from 1, of the first text or expression outside every block; `None` if all is in its place.
///
/// Comments, macros and what is set for later use may stand anywhere.
pub(super) fn line_outside_blocks(source: &str) -> Option<usize> {
    let mut depth = 0_usize;
    let mut at = 0;
    while let Some(rest) = source.get(at..).filter(|rest| !rest.is_empty()) {
        let next = ["{{", "{%", "{#"].iter().filter_map(|mark| rest.find(mark)).min().unwrap_or(rest.len());
        let text = rest.get(..next).unwrap_or_default();
        if depth == 0
            && let Some(first) = text.find(|character: char| !character.is_whitespace())
        {
            return Some(line_of(source, at + first));
        }
        at += next;
        let Some(tag) = source.get(at..).filter(|tag| !tag.is_empty()) else { break };
        let (is_expression, is_comment) = (tag.starts_with("{{"), tag.starts_with("{#"));
        if is_expression && depth == 0 {
            return Some(line_of(source, at));
        }
        let close = if is_expression {
            "}}"
        } else if is_comment {
            "#}"
        } else {
            "%}"
        };
        // A tag without an end is the parser's to refuse.
        let length = tag.find(close)? + close.len();
        if !is_expression && !is_comment {
            let statement = tag.get(2..length - close.len()).unwrap_or_default();
            match of_statement(statement) {
                Statement::Opens => depth += 1,
                Statement::Closes => depth = depth.saturating_sub(1),
                Statement::Other => {}
            }
        }
        at += length;
    }
    None
}

/// What a statement means for what comes after it.
enum Statement {
    /// What follows is kept for its place.
    Opens,
    /// What follows is where it stood before.
    Closes,
    Other,
}

fn of_statement(statement: &str) -> Statement {
    let statement = statement.trim_matches(|c: char| c.is_whitespace() || c == '-' || c == '+');
    match statement.split_whitespace().next().unwrap_or_default() {
        "block" | "macro" => Statement::Opens,
        // Without a value, `set` takes all up to its end.
        "set" if !statement.contains('=') => Statement::Opens,
        "endblock" | "endmacro" | "endset" => Statement::Closes,
        _ => Statement::Other,
    }
}

fn line_of(source: &str, at: usize) -> usize {
    source.get(..at).unwrap_or_default().matches('\n').count() + 1
}

#[cfg(test)]
mod tests {
    #[track_caller]
    fn check(source: &str, expect: Option<usize>) {
        assert_eq!(super::line_outside_blocks(source), expect, "{source:?}");
    }

    #[test]
    fn text_outside_blocks_is_found() {
        const BLOCKS: &str = "{% block system %}\nx {{ a }}\n{% endblock %}\n{%- block user -%}y{% if b %}z{% endif %}{% endblock user %}\n";
        check(BLOCKS, None);
        check("", None);
        check(&format!("{{# a comment #}}\n{BLOCKS}"), None);
        check(&format!("{{% set a = 1 %}}\n{BLOCKS}\n  \n"), None);
        check(&format!("{{% set a %}}text{{% endset %}}{{% macro m() %}}text{{% endmacro %}}{BLOCKS}"), None);
        check(&format!("You are kind.\n{BLOCKS}"), Some(1));
        check(&format!("{{# a\ncomment #}}\n{BLOCKS}\nAnswer briefly.\n"), Some(8));
        check(&format!("{BLOCKS}{{{{ skill }}}}"), Some(5));
        check(&format!("{BLOCKS}{{% if a %}}\nmore\n{{% endif %}}"), Some(6));
        check("{% block system %}{% block inner %}x{% endblock %}y{% endblock %}z", Some(1));
        check("{% block system", None);
    }

    proptest::proptest! {
        #[test]
        fn no_source_makes_it_panic(source in "([{}%#]|block|endblock|set|\n|é|\\PC){0,40}") {
            let line = super::line_outside_blocks(&source);
            proptest::prop_assert!(line.is_none_or(|line| (1..=source.lines().count().max(1)).contains(&line)));
        }
    }
}
