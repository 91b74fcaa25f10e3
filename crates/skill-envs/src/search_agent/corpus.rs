//! Passages of a person's own: JSON Lines with a text each, or files of text, cut into pieces.

use crate::error::{EnvError, read_error};
use crate::retrieval::Passage;
use serde_json::{Map, Value};
use skill_core::canonical::RunningSha256;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

/// Words of a piece of a text file, as the passages of Wikipedia that retrievers are compared on.
const WORDS: usize = 100;
/// A longer passage is of no use in a prompt, and a sign that a file is not what it is taken for.
const MAX_PASSAGE_BYTES: usize = 100_000;
/// How many bytes are hashed at a time.
const PART: usize = 1 << 20;

/// The files of a corpus, in order.
#[derive(Debug, Clone)]
pub(super) struct Corpus {
    root: PathBuf,
    files: Vec<PathBuf>,
}

impl Corpus {
    /// The files at a path: itself, or those of a directory and the directories in it. A link to a directory in which it
    /// lies leads nowhere.
    pub(super) fn find(root: &Path) -> Result<Self, EnvError> {
        let metadata = fs::metadata(root).map_err(|source| read_error(root, source))?;
        let mut files = Vec::new();
        // Each directory with those above it, without links.
        let mut pending = vec![(root.to_owned(), Vec::new())];
        while let Some((path, mut above)) = pending.pop().filter(|_| metadata.is_dir()) {
            let real = fs::canonicalize(&path).map_err(|source| read_error(&path, source))?;
            if above.contains(&real) {
                continue;
            }
            above.push(real);
            for entry in fs::read_dir(&path).map_err(|source| read_error(&path, source))? {
                let path = entry.map_err(|source| read_error(&path, source))?.path();
                if path.is_dir() {
                    pending.push((path, above.clone()));
                } else if kind_of(&path).is_some() {
                    files.push(path);
                }
            }
        }
        if !metadata.is_dir() {
            files.push(root.to_owned());
        }
        files.sort();
        if files.is_empty() {
            return Err(bad(root, "holds no passages; expected files that end in .jsonl, .txt or .md"));
        }
        Ok(Self { root: root.to_owned(), files })
    }

    /// The hash of all that is in its files, and of their names.
    pub(super) fn hash(&self) -> Result<String, EnvError> {
        let mut hash = RunningSha256::default();
        let mut part = vec![0; PART];
        for path in &self.files {
            let name = path.strip_prefix(&self.root).unwrap_or(path);
            hash.update(format!("\n{}\n", name.to_string_lossy()).as_bytes());
            let mut file = File::open(path).map_err(|source| read_error(path, source))?;
            loop {
                let n_bytes = file.read(&mut part).map_err(|source| read_error(path, source))?;
                let Some(read) = part.get(..n_bytes).filter(|read| !read.is_empty()) else { break };
                hash.update(read);
            }
        }
        Ok(hash.hex())
    }

    /// Its passages in order; the first fault is the last item.
    pub(super) fn passages(&self) -> impl Iterator<Item = Result<Passage, EnvError>> + '_ {
        let mut known = BTreeSet::new();
        let read = self.files.iter().flat_map(|path| passages_of(path));
        let checked = read.map(move |found| {
            let (passage, line, path) = found?;
            if passage.text.len() > MAX_PASSAGE_BYTES {
                let message = format!(
                    "a passage has {} bytes, more than {MAX_PASSAGE_BYTES}; split it into passages of about {WORDS} words",
                    passage.text.len()
                );
                return Err(at(path, line, message));
            }
            // Ids are hashed: those of millions of passages take less room that way.
            if !known.insert(hash_of(&passage.id)) {
                return Err(at(path, line, format!("the id `{}` occurs twice", passage.id)));
            }
            Ok(passage)
        });
        let mut checked = checked.fuse();
        let mut is_over = false;
        let root = self.root.clone();
        let mut n_given = 0_usize;
        std::iter::from_fn(move || {
            if is_over {
                return None;
            }
            let next = checked.next();
            is_over = !matches!(next, Some(Ok(_)));
            n_given += usize::from(matches!(next, Some(Ok(_))));
            match next {
                None if n_given == 0 => Some(Err(bad(&root, "holds no text"))),
                next => next,
            }
        })
    }
}

/// Two hashes of an id, whose equality is as good as that of the ids.
fn hash_of(id: &str) -> (u64, u64) {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let hashed = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        (salt, id).hash(&mut hasher);
        hasher.finish()
    };
    (hashed(0), hashed(1))
}

#[derive(Clone, Copy)]
enum Kind {
    JsonLines,
    Text,
}

fn kind_of(path: &Path) -> Option<Kind> {
    match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
        "jsonl" | "ndjson" => Some(Kind::JsonLines),
        "txt" | "md" => Some(Kind::Text),
        _ => None,
    }
}

type Found<'a> = Result<(Passage, usize, &'a Path), EnvError>;

fn passages_of(path: &Path) -> Box<dyn Iterator<Item = Found<'_>> + '_> {
    match kind_of(path) {
        Some(Kind::Text) => match text_pieces(path) {
            Ok(pieces) => Box::new(pieces.into_iter().map(move |passage| Ok((passage, 1, path)))),
            Err(error) => Box::new(std::iter::once(Err(error))),
        },
        Some(Kind::JsonLines) => match File::open(path) {
            Ok(file) => Box::new(json_lines(path, BufReader::new(file))),
            Err(source) => Box::new(std::iter::once(Err(read_error(path, source)))),
        },
        None => {
            let message = "is not a corpus; expected a name that ends in .jsonl, .txt or .md, or a directory";
            Box::new(std::iter::once(Err(bad(path, message))))
        }
    }
}

fn json_lines(path: &Path, file: BufReader<File>) -> impl Iterator<Item = Found<'_>> + '_ {
    file.lines().zip(1_usize..).filter_map(move |(line, number)| {
        let line = match line {
            Ok(line) => line,
            Err(source) => return Some(Err(read_error(path, source))),
        };
        (!line.trim().is_empty()).then(|| {
            let record: Map<String, Value> = serde_json::from_str(&line)
                .map_err(|error| at(path, number, format!("is not a JSON object: {error}")))?;
            let passage = passage_of(&record, path, number)
                .ok_or_else(|| at(path, number, "has no text; expected `text`, or `contents`".to_owned()))?;
            Ok((passage, number, path))
        })
    })
}

/// A passage as the retrievers' files have them: `contents` begins with the title in quotation marks.
fn passage_of(record: &Map<String, Value>, path: &Path, number: usize) -> Option<Passage> {
    let text = |names: &[&str]| {
        names.iter().find_map(|name| match record.get(*name)? {
            Value::String(text) => Some(text.trim().to_owned()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        })
    };
    let id = text(&["id", "_id", "docid"]).unwrap_or_else(|| format!("{}:{number}", path.display()));
    let title = text(&["title"]);
    let found = match text(&["text", "passage", "content"]) {
        Some(text) => Passage { id, title: title.unwrap_or_default(), text },
        None => of_contents(id, &text(&["contents"])?),
    };
    (!found.text.is_empty()).then_some(found)
}

/// `contents` of a passage: the title, in quotation marks or not, in its first line.
pub(super) fn of_contents(id: String, contents: &str) -> Passage {
    match contents.split_once('\n') {
        Some((title, text)) => {
            Passage { id, title: title.trim().trim_matches('"').to_owned(), text: text.trim().to_owned() }
        }
        None => Passage { id, title: String::new(), text: contents.trim().to_owned() },
    }
}

/// A text in pieces, with its first heading or its name as their title.
fn text_pieces(path: &Path) -> Result<Vec<Passage>, EnvError> {
    let text = skill_llm::text_file::read(path).map_err(|source| read_error(path, source))?;
    let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let heading = text.lines().find_map(|line| line.strip_prefix("# ")).map(|line| line.trim().to_owned());
    let title = heading.unwrap_or(name);
    let words: Vec<&str> = text.split_whitespace().collect();
    let pieces = words.chunks(WORDS).zip(1_usize..);
    Ok(pieces
        .map(|(words, number)| Passage {
            id: format!("{}#{number}", path.display()),
            title: title.clone(),
            text: words.join(" "),
        })
        .collect())
}

fn bad(path: &Path, message: &str) -> EnvError {
    EnvError::BadData { path: path.to_owned(), message: message.to_owned() }
}

fn at(path: &Path, line: usize, message: String) -> EnvError {
    EnvError::BadLine { path: path.to_owned(), line, message }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a corpus with this file comes to: titles and texts, or the error.
    fn read(name: &str, content: &str) -> Result<Vec<(String, String)>, String> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join(name), content).unwrap();
        let corpus = Corpus::find(dir.path()).map_err(|error| error.to_string())?;
        let passages = corpus.passages().collect::<Result<Vec<_>, _>>().map_err(|error| error.to_string())?;
        Ok(passages.into_iter().map(|passage| (passage.title, passage.text)).collect())
    }

    #[track_caller]
    fn check(name: &str, content: &str, expect: &[(&str, &str)]) {
        let found = read(name, content).unwrap();
        let found: Vec<(&str, &str)> = found.iter().map(|(title, text)| (&**title, &**text)).collect();
        assert_eq!(found, expect, "{content}");
    }

    #[track_caller]
    fn refused(name: &str, content: &str, parts: &[&str]) {
        let error = read(name, content).unwrap_err();
        for part in parts {
            assert!(error.contains(part), "{part}: {error}");
        }
    }

    #[test]
    fn passages_are_read_in_every_shape() {
        check("a.jsonl", r#"{"id": "1", "title": "T", "text": "one"}"#, &[("T", "one")]);
        check("a.jsonl", r#"{"id": 7, "contents": "\"T\"\none two"}"#, &[("T", "one two")]);
        check("a.jsonl", "{\"text\": \"a\"}\n\n{\"text\": \"b\"}\n", &[("", "a"), ("", "b")]);
        check("notes.txt", "one two", &[("notes", "one two")]);
        check("notes.md", "# Head\none", &[("Head", "# Head one")]);
        let long = "word ".repeat(250);
        assert_eq!(read("a.txt", &long).unwrap().len(), 3);
    }

    #[cfg(unix)]
    #[test]
    fn links_to_directories_make_no_cycles() {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["a", "b"] {
            fs::create_dir(dir.path().join(folder)).unwrap();
            fs::write(dir.path().join(folder).join("text.txt"), folder).unwrap();
        }
        std::os::unix::fs::symlink(dir.path(), dir.path().join("a/up")).unwrap();
        assert_eq!(Corpus::find(dir.path()).unwrap().files.len(), 2);
        std::os::unix::fs::symlink(dir.path().join("b"), dir.path().join("linked")).unwrap();
        assert_eq!(Corpus::find(dir.path()).unwrap().files.len(), 3);
    }

    #[test]
    fn what_is_not_a_corpus_is_named_with_its_place() {
        refused("a.csv", "x", &["holds no passages", ".jsonl"]);
        refused("a.txt", " \n", &["holds no text"]);
        refused("a.jsonl", "", &["holds no text"]);
        refused(
            "a.jsonl",
            "{\"id\": \"1\", \"text\": \"a\"}\n{\"id\": \"1\", \"text\": \"b\"}",
            &["line 2", "`1` occurs twice"],
        );
        refused("a.jsonl", "{\"text\": \"a\"}\nno json", &["line 2", "JSON"]);
        refused("a.jsonl", "{\"id\": \"1\"}", &["line 1", "has no text"]);
        let long = format!("{{\"text\": \"{}\"}}", "x".repeat(1_000_000));
        refused("a.jsonl", &long, &["line 1", "1000000 bytes", "split it"]);
    }
}
