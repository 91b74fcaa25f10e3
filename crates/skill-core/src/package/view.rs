//! What of a package its readers see: the agent, the optimizer, a person.

use super::boundary::{Boundary, Parts, has_boundary, reference_line};
use super::{MAIN_FILE, SkillPackage};
use crate::region::front_matter_end;
use crate::skill::SkillDoc;
use std::fmt::{self, Write as _};
use std::ops::Deref;
use std::sync::Arc;

/// A skill as an agent is shown it that cannot open files; only [`SkillDoc::agent_view`] makes one.
///
/// It is `SKILL.md` below its front matter, then each reference file between a line `<file path="references/x.md">` and
/// a line `</file>`, with a blank line in front. A document without front matter and without files beside it is shown
/// as it is.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AgentText(Arc<str>);

/// A skill as the optimizer reads it; only [`SkillDoc::optimizer_view`] makes one.
///
/// It is all files that can be edited, with the line that separates them, and without hashes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OptimizerText(Arc<str>);

macro_rules! view {
    ($($view:ident),+) => {$(
        impl $view {
            /// The text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Deref for $view {
            type Target = str;

            fn deref(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $view {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl From<$view> for String {
            fn from(view: $view) -> Self {
                view.as_str().to_owned()
            }
        }
    )+};
}

view!(AgentText, OptimizerText);

impl SkillDoc {
    /// The skill as an agent is shown it.
    pub fn agent_view(&self) -> AgentText {
        let parts = Parts::of(self.source_text());
        let body = below_front_matter(parts.main);
        let references: Vec<(&str, &str)> = references(&parts).collect();
        if references.is_empty() {
            return AgentText(Arc::from(body));
        }
        let mut text = body.trim_end().to_owned();
        for (path, content) in references {
            let _ = write!(text, "\n\n<file path=\"{path}\">\n{}\n</file>", content.trim());
        }
        text.push('\n');
        AgentText(Arc::from(text))
    }

    /// The skill as the optimizer reads it.
    pub fn optimizer_view(&self) -> OptimizerText {
        let parts = Parts::of(self.source_text());
        if parts.files.is_empty() {
            return OptimizerText(Arc::from(self.source_text()));
        }
        let mut text = parts.main.to_owned();
        for (path, content) in references(&parts) {
            let _ = write!(text, "\n{}\n{content}", reference_line(path));
        }
        OptimizerText(Arc::from(text))
    }
}

/// The files of a package, one a line; empty for a document without files beside it.
pub fn tree(skill: &SkillDoc) -> String {
    let parts = Parts::of(skill.source_text());
    if parts.files.is_empty() {
        return String::new();
    }
    let mut lines = vec![format!("- `{MAIN_FILE}`")];
    lines.extend(parts.files.iter().map(|(boundary, _)| match boundary {
        Boundary::Reference { path } => format!("- `{path}`"),
        Boundary::Carried { path, name } if name.is_executable => {
            format!("- `{path}` (a program; cannot be edited)")
        }
        Boundary::Carried { path, .. } => format!("- `{path}` (cannot be edited)"),
    }));
    lines.join("\n")
}

/// The text of `SKILL.md`; of a document without files beside it, all of its text.
pub fn main_file(skill: &SkillDoc) -> &str {
    Parts::of(skill.source_text()).main
}

/// The skill with another `SKILL.md`: for what works on a whole document, such as a rewrite or the slow update.
///
/// A document without files beside it becomes what `change` makes of it. A `SKILL.md` that would be taken for more
/// than one file is not taken.
pub fn edit_main(skill: &SkillDoc, change: impl FnOnce(&SkillDoc) -> SkillDoc) -> SkillDoc {
    if Parts::of(skill.source_text()).files.is_empty() {
        return change(skill);
    }
    let mut package = SkillPackage::of(skill);
    let changed = change(&SkillDoc::new(package.main.as_str()));
    package.main = changed.into_source_text();
    // The other files were those of a skill already.
    if has_boundary(&package.main) { skill.clone() } else { package.joined() }
}

/// What is below the front matter, without the rest of its line and blank lines; all of a text without any.
pub(super) fn below_front_matter(main: &str) -> &str {
    let Some(end) = front_matter_end(main) else { return main };
    main.split_at(end).1.trim_start()
}

fn references<'p>(parts: &'p Parts<'_>) -> impl Iterator<Item = (&'p str, &'p str)> {
    parts.files.iter().filter_map(|(boundary, text)| match boundary {
        Boundary::Reference { path } => Some((*path, *text)),
        Boundary::Carried { .. } => None,
    })
}
