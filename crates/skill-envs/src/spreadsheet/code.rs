//! The program in a reply.

/// The program of a reply: its first block of code, or all of it where it looks like one; `None` where there is none.
pub(super) fn program(reply: &str) -> Option<String> {
    let code = match fenced(reply) {
        Some(code) => code,
        None if ["INPUT_PATH", "import "].iter().any(|word| reply.contains(word)) => reply,
        None => return None,
    };
    Some(without_paths(code)).filter(|code| !code.trim().is_empty())
}

/// The first block in a fence; one that is not closed ends with the reply.
fn fenced(reply: &str) -> Option<&str> {
    let mut at = 0;
    let mut start: Option<(usize, usize)> = None;
    for line in reply.split_inclusive('\n') {
        let trimmed = line.trim();
        let n_ticks = trimmed.bytes().take_while(|byte| *byte == b'`').count();
        match start {
            None if n_ticks >= 3 => start = Some((at + line.len(), n_ticks)),
            Some((from, n_opening)) if n_ticks >= n_opening && trimmed.len() == n_ticks => {
                return reply.get(from..at);
            }
            _ => {}
        }
        at += line.len();
    }
    start.and_then(|(from, _)| reply.get(from..))
}

/// Blanks out assignments of texts to the two paths at the top level, which would hide the real ones; lines keep their
/// numbers.
fn without_paths(code: &str) -> String {
    let lines = code.lines().map(|line| {
        let value = ["INPUT_PATH", "OUTPUT_PATH"]
            .iter()
            .find_map(|name| line.strip_prefix(name)?.trim_start().strip_prefix('='))
            .map(str::trim);
        let is_literal = value.is_some_and(|value| {
            let value = value.trim_start_matches(['r', 'R', 'f', 'F']);
            value.starts_with(['"', '\'']) && !value.starts_with("\"\"\"") && !value.starts_with("'''")
        });
        if is_literal { "" } else { line }
    });
    lines.collect::<Vec<_>>().join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(reply: &str, expect: Option<&str>) {
        assert_eq!(program(reply).as_deref().map(str::trim_end), expect);
    }

    #[test]
    fn the_first_block_is_the_program() {
        check("Here:\n```python\nx = 1\n```\nand\n```\ny\n```", Some("x = 1"));
        check("```py\nx = 1", Some("x = 1"));
        check("````\n```\ninner\n```\n````", Some("```\ninner\n```"));
        check("import openpyxl\nopenpyxl", Some("import openpyxl\nopenpyxl"));
        check("I do not know.", None);
        check("", None);
        check("```python\n```", None);
    }

    #[test]
    fn assigned_paths_are_blanked_and_lines_stay() {
        check("```\nINPUT_PATH = \"a.xlsx\"\nx = INPUT_PATH\n```", Some("\nx = INPUT_PATH"));
        check("```\nOUTPUT_PATH = INPUT_PATH\n```", Some("OUTPUT_PATH = INPUT_PATH"));
        check("```\nif x:\n    INPUT_PATH = 'a'\n```", Some("if x:\n    INPUT_PATH = 'a'"));
        check("```\nINPUT_PATHS = ['a']\n```", Some("INPUT_PATHS = ['a']"));
    }
}
