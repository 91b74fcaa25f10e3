//! The data of the world, as the environment `qa` reads it.

use super::dice::{hash, throw};
use serde_json::json;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

/// Contexts are made of these.
const WORDS: [&str; 32] = [
    "ledger", "harbour", "column", "the", "clerk", "of", "crate", "entry", "and", "signed", "with", "number",
    "before", "noon", "seal", "copied", "from", "margin", "a", "second", "page", "under", "weight", "route",
    "in", "ink", "by", "order", "without", "remark", "later", "filed",
];

/// What comes before and behind the id of an item in its question.
pub(super) const QUESTION: [&str; 2] = ["What is the code of ", "?"];

/// How many words a sentence has.
const WORDS_PER_SENTENCE: u64 = 12;

/// How many items each split has, and how long they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct DataSize {
    /// Items to train on.
    pub(crate) train: usize,
    /// Items to choose skills by.
    pub(crate) val: usize,
    /// Items to measure the result by.
    pub(crate) test: usize,
    /// About how many bytes the context of each item has.
    pub(crate) context_bytes: usize,
}

/// Writes `train.jsonl`, `val.jsonl` and `test.jsonl` into a directory, which is made if it is not there.
///
/// # Errors
///
/// A directory or file that cannot be written.
pub(crate) fn write_data(dir: &Path, size: &DataSize) -> io::Result<()> {
    fs::create_dir_all(dir)?;
    for (split, n_items) in [("train", size.train), ("val", size.val), ("test", size.test)] {
        let mut file = BufWriter::new(File::create(dir.join(format!("{split}.jsonl")))?);
        for item_idx in 0..n_items {
            let id = format!("{split}-{item_idx}");
            let item = json!({
                "id": id,
                "question": question(&id),
                "answers": [answer(&id)],
                "context": context(&id, size.context_bytes),
            });
            writeln!(file, "{item}")?;
        }
        file.flush()?;
    }
    Ok(())
}

/// What is asked about an item.
pub(super) fn question(id: &str) -> String {
    let [before, after] = QUESTION;
    format!("{before}{id}{after}")
}

/// The right answer.
pub(super) fn answer(id: &str) -> String {
    format!("code-{id}")
}

/// A text of about so many bytes that names the item and says nothing else.
pub(super) fn context(id: &str, n_bytes: usize) -> String {
    let mut text = format!("<item id=\"{id}\">");
    let key = hash(0, id.as_bytes());
    let mut word_idx = 0;
    while text.len() < n_bytes {
        let thrown = throw(0, key, word_idx, "context") % WORDS.len() as u64;
        let word = usize::try_from(thrown).ok().and_then(|thrown| WORDS.get(thrown));
        let end = if word_idx % WORDS_PER_SENTENCE == WORDS_PER_SENTENCE - 1 { "." } else { "" };
        let between = if word_idx == 0 { "\n" } else { " " };
        text.push_str(between);
        text.push_str(word.copied().unwrap_or_default());
        text.push_str(end);
        word_idx += 1;
    }
    text.push_str("\n</item>");
    text
}
