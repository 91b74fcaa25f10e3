//! Edits of the front matter, where they are asked for.

use super::boundary::has_boundary;
use super::front_matter::{FrontMatter, FrontMatterFault, check_front_matter};
use crate::edit::{Edit, EditOp};
use crate::region::front_matter_end;
use memchr::memmem;

/// The text with the first occurrence of the target in its front matter replaced, or why that cannot be; `None` where
/// the edit is none of the front matter.
pub(super) fn replace(text: &str, edit: &Edit) -> Option<Result<String, String>> {
    let head = text.get(..front_matter_end(text)?)?;
    if edit.op != EditOp::Replace || edit.target.is_empty() {
        return None;
    }
    let at = memmem::find(head.as_bytes(), edit.target.as_bytes())?;
    let (before, after) = (text.get(..at)?, text.get(at + edit.target.len()..)?);
    let changed = [before, edit.content.trim(), after].concat();
    Some(match fault(text, &changed) {
        None => Ok(changed),
        Some(fault) => Err(fault),
    })
}

/// Why front matter cannot be taken: it must be sound, keep its name and end where it ended.
fn fault(before: &str, after: &str) -> Option<String> {
    let below = |text: &str| front_matter_end(text).and_then(|end| text.get(end..)).map(str::to_owned);
    if below(before) != below(after) || has_boundary(after) {
        return Some("the edit would move the end of the front matter".to_owned());
    }
    if let Some(fault) = check_front_matter(after, None).iter().find(|fault| fault.is_error) {
        return Some(format!("the front matter would not be sound: {}", fault.message));
    }
    let name =
        |read: Result<Option<FrontMatter>, FrontMatterFault>| read.ok().flatten().and_then(|read| read.name);
    let is_same = name(FrontMatter::read(before)) == name(FrontMatter::read(after));
    (!is_same).then(|| "the edit would change the name of the skill".to_owned())
}
