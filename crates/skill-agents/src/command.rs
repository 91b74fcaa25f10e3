//! Which skills a shell command or a path reads, and whether what it printed was a skill's text.

use regex::Regex;
use std::sync::LazyLock;

static PATHS: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?:^|[\s'"`=<(;&|:,\[])((?:[^\s'"`=<(;&|,\[\]]*[/\\])?)SKILL\.md"#));
static CHANGES: LazyLock<Regex> =
    LazyLock::new(|| pattern(r#"(?:^|[;&|\s'"])cd\s+['"]?([^;&|'"\n]+?)['"]?\s*(?:&&|;|\n|\|\|)"#));

/// A pattern of this crate.
pub(crate) fn pattern(text: &str) -> Regex {
    Regex::new(text).expect("the pattern is a constant, and a test compiles it")
}

/// The folders whose `SKILL.md` a command or a program names, each by its own name, in order and once.
pub(crate) fn skills_read(command: &str, working_directory: Option<&str>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for found in PATHS.captures_iter(command) {
        let Some(group) = found.get(1) else { continue };
        let folder = group.as_str().trim_end_matches(['/', '\\']);
        let name = match folder {
            "" | "." => {
                let before = command.get(..group.start()).unwrap_or_default();
                let change = CHANGES.captures_iter(before).last().and_then(|found| found.get(1));
                change.map(|folder| folder.as_str()).or(working_directory).and_then(last_name)
            }
            folder => last_name(folder),
        };
        if let Some(name) = name
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}

/// The folder of a path to a `SKILL.md`.
pub(crate) fn skill_of_path(path: &str) -> Option<String> {
    let path = path.trim();
    let folder = path.strip_suffix("SKILL.md")?.strip_suffix(['/', '\\'])?;
    last_name(folder)
}

/// The last name of a path, if it can be that of a skill.
pub(crate) fn last_name(path: &str) -> Option<String> {
    let name = path.trim_end_matches(['/', '\\']).rsplit(['/', '\\']).next()?.trim();
    let is_name = |sign: char| sign.is_alphanumeric() || matches!(sign, '-' | '_' | '.' | ' ');
    (!name.is_empty() && name.chars().all(is_name) && name.chars().any(char::is_alphanumeric))
        .then(|| name.to_owned())
}

/// True if an output can be the text of a skill, and not only its front matter, its path or a complaint about it.
pub(crate) fn shows_body(output: &str) -> bool {
    let lines: Vec<&str> = output.lines().map(unnumbered).filter(|line| !line.trim().is_empty()).collect();
    let opening = lines.iter().position(|line| line.trim_end() == "---");
    let body = match opening {
        Some(opening) => {
            let rest = lines.get(opening + 1..).unwrap_or_default();
            match rest.iter().position(|line| line.trim_end() == "---") {
                Some(closing) => rest.get(closing + 1..).unwrap_or_default(),
                // The output ends inside the front matter.
                None if rest
                    .iter()
                    .any(|line| line.starts_with("name:") || line.starts_with("description:")) =>
                {
                    &[]
                }
                None => rest,
            }
        }
        None => lines.as_slice(),
    };
    body.iter().any(|line| !line.contains("SKILL.md"))
}

/// A line without the number that some tools write before it.
fn unnumbered(line: &str) -> &str {
    let rest = line.trim_start().trim_start_matches(|sign: char| sign.is_ascii_digit());
    let is_numbered = rest.len() < line.trim_start().len();
    match (is_numbered, rest.strip_prefix(['\t', '→', ':', '|'])) {
        (true, Some(rest)) => rest.trim_start_matches(' '),
        _ => line,
    }
}

#[cfg(test)]
mod tests {
    use super::{shows_body, skill_of_path, skills_read};

    #[track_caller]
    fn check(command: &str, expect: &[&str]) {
        assert_eq!(skills_read(command, Some("/p/.pi/skills/here")), expect, "{command}");
    }

    #[test]
    fn commands_name_the_skills_that_they_read() {
        check("cat /p/.agents/skills/invoice-format/SKILL.md", &["invoice-format"]);
        check("/bin/bash -lc 'sed -n 1,80p .agents/skills/a/SKILL.md'", &["a"]);
        check("cat \"/p q/skills/two words/SKILL.md\"", &["words"]);
        check("cat a/SKILL.md b/SKILL.md a/SKILL.md", &["a", "b"]);
        check("cd .claude/skills/x && cat SKILL.md", &["x"]);
        check("cd '.claude/skills/x'; head -40 ./SKILL.md", &["x"]);
        check("cat SKILL.md", &["here"]);
        check("cat */SKILL.md", &[]);
        check("ls -R .claude/skills", &[]);
        check("const r = await tools.exec_command({\"cmd\": \"cat /s/a/SKILL.md\"});", &["a"]);
    }

    #[test]
    fn paths_name_their_folder() {
        assert_eq!(skill_of_path("/p/.claude/skills/x/SKILL.md").as_deref(), Some("x"));
        assert_eq!(skill_of_path("C:\\p\\x\\SKILL.md").as_deref(), Some("x"));
        assert_eq!(skill_of_path("/p/SKILL.md.bak"), None);
        assert_eq!(skill_of_path("SKILL.md"), None);
    }

    #[test]
    fn only_the_text_of_a_skill_is_a_load() {
        for (output, is_load) in [
            ("---\nname: a\ndescription: b\n---\n\n# A\n\nDo it.\n", true),
            ("     1\t---\n     2\tname: a\n     3\t---\n     4\t# A\n", true),
            ("# A\n", true),
            ("---\nname: a\ndescription: b\n", false),
            ("", false),
            ("/p/.claude/skills/a/SKILL.md\n", false),
            ("cat: /p/a/SKILL.md: No such file or directory\n", false),
        ] {
            assert_eq!(shows_body(output), is_load, "{output}");
        }
    }
}
