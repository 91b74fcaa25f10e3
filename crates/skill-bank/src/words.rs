//! What a word is: in titles, goals, answers and names of types.
//!
//! Three other modules split texts in their own way, for a reason: `evolve/select` tells kinds of failures, in which
//! numbers do not count; `format/agent_skills` makes names of folders, which are ASCII; `render` keeps a text as it is and
//! changes its first letters alone.

/// The words of a text as they are written. Everything that is neither a letter nor a digit separates them.
pub(crate) fn written(text: &str) -> impl Iterator<Item = &str> {
    text.split(|character: char| !character.is_alphanumeric()).filter(|word| !word.is_empty())
}

/// The words of a text in lower case.
pub(crate) fn words(text: &str) -> impl Iterator<Item = String> + '_ {
    written(text).map(str::to_lowercase)
}
