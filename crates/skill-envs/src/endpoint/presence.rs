//! Finding a skill in the prompts of an agent, which may have put it into a template or moved its lines.

/// The shortest part of a line that says that it is this line.
const MIN_FRAGMENT: usize = 3;

/// The lines of a skill, file by file: of a package an agent may be shown one file alone.
#[derive(Debug, Default)]
pub(super) struct SkillLines {
    text: String,
    files: Vec<Vec<Vec<String>>>,
}

impl SkillLines {
    /// The lines of a skill as agents are shown it.
    pub(super) fn of(skill: &str) -> Self {
        let mut files = vec![Vec::new()];
        for line in skill.lines().map(str::trim) {
            if line.starts_with("<file path=\"") {
                files.push(Vec::new());
                continue;
            }
            // A template fills in what is between braces.
            let fragments = line.split(['{', '}']).step_by(2).map(str::trim);
            let fragments: Vec<String> =
                fragments.filter(|part| part.chars().count() >= MIN_FRAGMENT).map(str::to_owned).collect();
            if let Some(file) = files.last_mut()
                && !fragments.is_empty()
                && line != "</file>"
            {
                file.push(fragments);
            }
        }
        files.retain(|file| !file.is_empty());
        Self { text: skill.trim().to_owned(), files }
    }

    /// True for a skill that cannot be looked for.
    pub(super) fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// Whether a prompt holds at least half of the lines of a file of the skill.
    pub(super) fn is_in(&self, prompt: &str) -> bool {
        if !self.text.is_empty() && prompt.contains(&self.text) {
            return true;
        }
        let is_there = |line: &&Vec<String>| line.iter().all(|part| prompt.contains(part.as_str()));
        self.files.iter().any(|file| 2 * file.iter().filter(is_there).count() >= file.len())
    }

    /// Whether a prompt holds the whole skill more than once.
    pub(super) fn is_twice_in(&self, prompt: &str) -> bool {
        !self.text.is_empty() && prompt.matches(&self.text).nth(1).is_some()
    }
}

/// The prompt with `skill` in the place of `held`, which is found whatever the space between its words; `None` if the
/// prompt does not hold it.
pub(super) fn replaced(prompt: &str, held: &str, skill: &str) -> Option<String> {
    let wanted: Vec<char> = held.chars().filter(|one| !one.is_whitespace()).collect();
    let placed: Vec<(usize, char)> = prompt.char_indices().filter(|(_, one)| !one.is_whitespace()).collect();
    if wanted.is_empty() {
        return None;
    }
    let at = placed.windows(wanted.len()).position(|window| window.iter().map(|(_, one)| one).eq(&wanted))?;
    let (start, _) = placed.get(at)?;
    let (last, one) = placed.get(at + wanted.len() - 1)?;
    let (before, after) = (prompt.get(..*start)?, prompt.get(last + one.len_utf8()..)?);
    Some(format!("{before}{}{after}", skill.trim()))
}

#[cfg(test)]
mod tests {
    use super::{SkillLines, replaced};

    #[test]
    fn a_skill_is_found_in_templates_and_by_one_file_of_several() {
        let package =
            "Plan first.\nAsk once.\n\n<file path=\"references/tool.md\">\nHands the case over.\n</file>\n";
        for (skill, prompt, is_in) in [
            ("Go right.", "You walk.\n\nGo right.", true),
            ("Go right.", "You walk.", false),
            ("Help {name} with {what}.\nBe kind.", "Help Ann with tax.\nBe kind.", true),
            ("A line.\nAnother line.\nA third line.", "  A line.\n  Another line.", true),
            ("A line.\nAnother line.\nA third line.", "A line.", false),
            (package, "tool: Hands the case over.", true),
            (package, "Plan first.", true),
            (package, "Escalates.", false),
        ] {
            assert_eq!(SkillLines::of(skill).is_in(prompt), is_in, "{skill:?} in {prompt:?}");
        }
        for empty in ["", " \n", "{x}"] {
            assert!(SkillLines::of(empty).is_empty(), "{empty:?}");
        }
        assert!(SkillLines::of("Go.").is_twice_in("Go. x Go."));
        assert!(!SkillLines::of("Go.").is_twice_in("Go. x"));
    }

    #[test]
    fn a_text_is_replaced_whatever_the_space_in_it() {
        for (prompt, held, expect) in [
            ("You walk.", "You walk.", Some("NEW")),
            ("Rules:\n  You\n  walk.\nEnd.", "You walk.\n", Some("Rules:\n  NEW\nEnd.")),
            ("Sé añejo.", "añejo.", Some("Sé NEW")),
            ("You run.", "You walk.", None),
            ("You run.", " ", None),
            ("", "You walk.", None),
        ] {
            assert_eq!(replaced(prompt, held, " NEW\n").as_deref(), expect, "{prompt:?}");
        }
    }
}
