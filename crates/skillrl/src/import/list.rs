//! The list that stays beside what was imported: what became of everything.

use super::{Imported, Unmapped};
use std::fmt::Write as _;

/// The list as Markdown.
pub(super) fn markdown(from: &str, imported: &Imported) -> String {
    let mut text = format!("# {from}, as `skillrl import` read it\n\nIt is {}.\n", imported.kind.describe());
    if !imported.missing.is_empty() {
        text.push_str("\n## Before it runs\n\n");
        for missing in &imported.missing {
            let _ = writeln!(text, "- {missing}");
        }
    }
    if !imported.mapped.is_empty() {
        text.push_str("\n## Taken\n\n");
        for mapped in &imported.mapped {
            let _ = writeln!(text, "- {} became {}", code(&mapped.key), code(&mapped.to));
        }
    }
    entries(&mut text, "Without a counterpart", &imported.unmapped);
    entries(&mut text, "Without a counterpart, and without effect there", &imported.idle);
    text
}

fn entries(text: &mut String, title: &str, entries: &[Unmapped]) {
    if entries.is_empty() {
        return;
    }
    let _ = write!(text, "\n## {title}\n\n");
    for Unmapped { key, value, reason } in entries {
        let value = if value.is_empty() { String::new() } else { format!(" = {}", code(value)) };
        let _ = writeln!(text, "- {}{value}: {reason}", code(key));
    }
}

/// A name of somebody else's: it cannot end the code that it is in.
fn code(name: &str) -> String {
    format!("`{}`", name.replace('`', "'").replace(['\n', '\r'], " "))
}
