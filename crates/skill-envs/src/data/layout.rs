//! Finds the files of a data set.

use super::read::Format;
use crate::error::{EnvError, read_error};
use crate::item::Split;
use skill_core::{RatioSplit, SplitRatio};
use std::fs;
use std::path::{Path, PathBuf};

/// The endings of files that hold data in a form that is not read.
const PACKED: [&str; 12] =
    ["gz", "tgz", "zip", "bz2", "xz", "zst", "7z", "rar", "tar", "feather", "pkl", "pickle"];
/// Files that describe a data set.
const DESCRIBING: [&str; 5] =
    ["dataset_info.json", "dataset_infos.json", "dataset_dict.json", "metadata.json", "evals.json"];

/// The files that a data set consists of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum DataFiles {
    /// Files that are still to be split; there is at least one.
    Whole(Vec<PathBuf>),
    /// The files of each split, in the order of [`Split::ALL`]; those that are not there are left out.
    Parts(Vec<(Split, PathBuf)>),
}

/// The files at this path: itself, or the parts in a directory.
///
/// # Errors
///
/// Nothing at this path, a directory that cannot be read, or one in which a part is missing or ambiguous.
pub(crate) fn find(path: &Path, optional: &[Split]) -> Result<DataFiles, EnvError> {
    let metadata = fs::metadata(path).map_err(|source| read_error(path, source))?;
    if !metadata.is_dir() {
        return Ok(DataFiles::Whole(vec![path.to_path_buf()]));
    }
    let names = entry_names(path)?;
    refuse_saved(path, &names)?;
    refuse_packed_parts(path, &names)?;
    let named = parts_of(path, &names)?;
    if named.is_empty() {
        let files = data_files(path, &names);
        if !files.is_empty() {
            return Ok(DataFiles::Whole(files));
        }
    }
    let has = |split: Split| named.iter().any(|(found, _)| *found == split);
    let mut parts = Vec::with_capacity(named.len());
    for split in Split::ALL {
        match split {
            _ if has(split) => parts.extend(named.iter().filter(|(found, _)| *found == split).cloned()),
            // Validation items are taken from those to train on, and those of test stay what they are.
            Split::Val if has(Split::Train) && has(Split::Test) => {}
            _ if optional.contains(&split) => {}
            _ => {
                let message = format!(
                    "has no part for the split `{split}`; expected {split}.jsonl, {split}.json, {split}.csv or a \
                     directory {split}"
                );
                return Err(bad_data(path, message));
            }
        }
    }
    Ok(DataFiles::Parts(parts))
}

/// How the training items of data with a test split of their own and no validation split become both.
pub(crate) fn train_and_val(by: RatioSplit, n_items: usize) -> RatioSplit {
    let [train, val, _] = by.ratio.shares(n_items);
    let [train, val] = if train > 0 && val > 0 { [train, val] } else { [2, 1] };
    RatioSplit { ratio: SplitRatio::Shares([train, val, 0]), ..by }
}

/// All data files of a directory without parts, in the order of their names.
pub(crate) fn all_files(path: &Path) -> Result<Vec<PathBuf>, EnvError> {
    let metadata = fs::metadata(path).map_err(|source| read_error(path, source))?;
    if !metadata.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    let names = entry_names(path)?;
    refuse_saved(path, &names)?;
    for name in names.iter().filter(|name| path.join(name.as_str()).is_dir()) {
        let inner = path.join(name.as_str());
        files.extend(data_files(&inner, &entry_names(&inner)?));
    }
    files.extend(data_files(path, &names));
    if files.is_empty() {
        return Err(bad_data(path, "holds no .jsonl, .json or .csv file".to_owned()));
    }
    Ok(files)
}

/// Refuses a folder of Arrow files as `datasets` saves it: its JSON files describe the data and hold none.
fn refuse_saved(path: &Path, names: &[String]) -> Result<(), EnvError> {
    let has = |name: &str| names.iter().any(|found| found == name);
    let is_arrow = |name: &String| {
        Path::new(name).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("arrow"))
    };
    if has("dataset_dict.json") || has("state.json") && has("dataset_info.json") || names.iter().any(is_arrow)
    {
        let message = "was written by `save_to_disk` of the package datasets, whose Arrow files are not read; write the data \
                       by `load_from_disk(..).to_json(\"rows.jsonl\")`, each split for itself";
        return Err(bad_data(path, message.to_owned()));
    }
    Ok(())
}

/// Refuses a part of a split that has to be unpacked or converted first: without it another file would be that part.
fn refuse_packed_parts(path: &Path, names: &[String]) -> Result<(), EnvError> {
    let is_packed = |name: &&String| {
        let ending = Path::new(name.as_str()).extension().and_then(|ending| ending.to_str());
        ending.is_some_and(|ending| PACKED.iter().any(|packed| ending.eq_ignore_ascii_case(packed)))
            && split_of_name(name.split('.').next().unwrap_or_default()).is_some()
    };
    let of_split = |split| names.iter().any(|name| split_of_file(Path::new(name)) == Some(split));
    for name in names.iter().filter(is_packed) {
        // The same part may lie unpacked beside it.
        if split_of_name(name.split('.').next().unwrap_or_default()).is_some_and(|split| !of_split(split)) {
            let message = format!(
                "`{name}` is a part of a split by its name and is not read; unpack it or write it as .jsonl, .csv or .parquet"
            );
            return Err(bad_data(path, message));
        }
    }
    Ok(())
}

/// The data files and the folders with some that lie in a directory and belong to no part, by their names.
pub(crate) fn unused_beside(path: &Path, used: &[&Path]) -> Vec<String> {
    let Ok(names) = entry_names(path) else { return Vec::new() };
    let is_used = |entry: &Path| used.iter().any(|used| used.starts_with(entry));
    let holds_data = |entry: &Path| match entry.is_dir() {
        true => entry_names(entry).is_ok_and(|names| !data_files(entry, &names).is_empty()),
        false => Format::of(entry).is_some(),
    };
    let is_unused = |name: &String| {
        let entry = path.join(name);
        // What describes the data is none.
        let is_known = DESCRIBING.contains(&name.as_str());
        !is_known && !is_used(&entry) && holds_data(&entry)
    };
    names.into_iter().filter(is_unused).collect()
}

fn data_files(directory: &Path, names: &[String]) -> Vec<PathBuf> {
    let is_data =
        |name: &&String| Format::of(Path::new(name)).is_some() && directory.join(name.as_str()).is_file();
    names.iter().filter(is_data).map(|name| directory.join(name)).collect()
}

/// The names under which a split's part is looked for.
pub(crate) fn part_names(split: Split) -> &'static [&'static str] {
    match split {
        Split::Train => &["train"],
        Split::Val => &["val", "valid", "validation", "selection", "valid_seen"],
        Split::Test => &["test", "valid_unseen"],
    }
}

/// The names of parts as the Hub and people write them, besides those of [`part_names`].
fn more_part_names(split: Split) -> &'static [&'static str] {
    match split {
        Split::Train => &["training", "trainset", "traindata", "trn"],
        Split::Val => &["dev", "development", "devset", "valset", "validationset", "validate", "eval"],
        Split::Test => &["testing", "testset", "testdata", "tst", "heldout", "holdout"],
    }
}

/// The split that a name says: the whole of it, or one of its words, such as `test-00000-of-00001`, `gsm8k_test`, `val2017`
/// or `TrainTickets`.
fn split_of_name(stem: &str) -> Option<Split> {
    let lower = stem.to_lowercase();
    let is_named = |split: &Split, name: &str| {
        part_names(*split).contains(&name) || more_part_names(*split).contains(&name)
    };
    let of = |name: &str| Split::ALL.into_iter().find(|split| is_named(split, name));
    if let Some(split) = of(&lower) {
        return Some(split);
    }
    let mut found: Vec<Split> = words_of(stem).iter().filter_map(|word| of(word)).collect();
    found.dedup();
    match found.as_slice() {
        [split] => Some(*split),
        // `train_test` says two things, and so none.
        _ => None,
    }
}

/// The split that the name of a file says, such as `test` for `gsm8k_test.jsonl`; `None` for a folder and for a name that says
/// nothing.
pub fn split_of_file(path: &Path) -> Option<Split> {
    Format::of(path)?;
    split_of_name(path.file_stem()?.to_str()?)
}

/// The splits that are there by the names of files and folders, in their order; none for a file, and for a folder whose names
/// say nothing.
///
/// # Errors
///
/// A directory that cannot be read, or in which a part is ambiguous.
pub fn splits_of_names(path: &Path) -> Result<Vec<Split>, EnvError> {
    Ok(match find(path, &Split::ALL)? {
        DataFiles::Whole(_) => Vec::new(),
        DataFiles::Parts(parts) => {
            Split::ALL.into_iter().filter(|split| parts.iter().any(|(found, _)| found == split)).collect()
        }
    })
}

/// The words of a name in lower case: runs of letters, each of which ends before a capital letter behind a small one.
fn words_of(name: &str) -> Vec<String> {
    let (mut words, mut word) = (Vec::new(), String::new());
    let mut is_behind_small = false;
    for sign in name.chars() {
        let is_letter = sign.is_alphabetic();
        if !is_letter || (is_behind_small && sign.is_uppercase()) {
            words.push(std::mem::take(&mut word));
        }
        if is_letter {
            word.extend(sign.to_lowercase());
        }
        is_behind_small = sign.is_lowercase();
    }
    words.push(word);
    words
}

/// The parts that a directory has by the names of its files and folders, in the order of the names; none where no name says
/// anything.
///
/// # Errors
///
/// Names of which some say a split and others nothing, and a part of several forms.
fn parts_of(directory: &Path, names: &[String]) -> Result<Vec<(Split, PathBuf)>, EnvError> {
    let exact = |name: &str| {
        let stem = Format::of(Path::new(name)).and_then(|_| Path::new(name).file_stem()?.to_str());
        let stem = stem.unwrap_or(name);
        Split::ALL.into_iter().find(|split| part_names(*split).contains(&stem))
    };
    let is_data = |name: &str| Format::of(Path::new(name)).is_some() && directory.join(name).is_file();
    let is_folder = |name: &str| directory.join(name).is_dir();
    let said = |name: &String| {
        if is_data(name) {
            return split_of_name(Path::new(name).file_stem()?.to_str()?);
        }
        is_folder(name).then(|| split_of_name(name)).flatten()
    };
    let has_exact = names.iter().any(|name| exact(name).is_some());
    let found: Vec<(Split, &String)> = names
        .iter()
        .filter(|name| is_data(name) || is_folder(name) || exact(name).is_some())
        .filter_map(|name| {
            // Where a part has its usual name, folders of other names are something else, and so are those without data.
            let of_folder = || {
                let split = said(name)?;
                let is_taken = names.iter().any(|other| exact(other) == Some(split));
                let holds_data = || {
                    let inner = directory.join(name);
                    entry_names(&inner).is_ok_and(|names| !data_files(&inner, &names).is_empty())
                };
                (!is_taken && holds_data()).then_some(split)
            };
            let split = match is_data(name) {
                true => said(name),
                false => exact(name).or_else(of_folder),
            };
            Some((split?, name))
        })
        .collect();
    let rest: Vec<&String> =
        names.iter().filter(|name| is_data(name) && !found.iter().any(|(_, found)| found == name)).collect();
    let has_files = found.iter().any(|(_, name)| is_data(name));
    if let (Some((split, named)), Some(other)) = (found.first(), rest.first())
        && has_files
        && !has_exact
    {
        let message = format!(
            "`{named}` is the part `{split}` by its name, and `{other}` says nothing of the kind; put train, val or test \
             into the name of each file, or name one file"
        );
        return Err(bad_data(directory, message));
    }
    let mut parts = Vec::new();
    for (split, name) in &found {
        let of_split: Vec<&String> =
            found.iter().filter(|(other, _)| other == split).map(|(_, name)| *name).collect();
        let n_exact = of_split.iter().filter(|name| exact(name).is_some()).count();
        let forms = of_split.iter().filter(|name| exact(name).is_some() || is_folder(name)).count();
        if n_exact > 1 || forms > 1 || n_exact == 1 && of_split.len() > 1 {
            let message =
                format!("has several parts for the split `{split}`: {}; keep one", joined(&of_split));
            return Err(bad_data(directory, message));
        }
        let part = directory.join(name.as_str());
        if !part.is_dir() {
            parts.push((*split, part));
            continue;
        }
        let files = data_files(&part, &entry_names(&part)?);
        if files.is_empty() {
            return Err(bad_data(&part, "holds no .jsonl, .json or .csv file".to_owned()));
        }
        parts.extend(files.into_iter().map(|file| (*split, file)));
    }
    Ok(parts)
}

/// The names in a directory, sorted; hidden entries are nobody's data.
///
/// # Errors
///
/// A directory that cannot be read, and an entry that is data by its name and cannot be looked at: a link that leads
/// nowhere, or a name that is not Unicode.
pub(crate) fn entry_names(directory: &Path) -> Result<Vec<String>, EnvError> {
    let mut names = Vec::new();
    for entry in fs::read_dir(directory).map_err(|source| read_error(directory, source))? {
        let entry = entry.map_err(|source| read_error(directory, source))?;
        let path = entry.path();
        let name = match entry.file_name().into_string() {
            Ok(name) if name.starts_with('.') => continue,
            Ok(name) => name,
            Err(_) if Format::of(&path).is_some() => {
                return Err(bad_data(&path, "has a name that is not Unicode; rename it".to_owned()));
            }
            Err(_) => continue,
        };
        if Format::of(&path).is_some() || split_of_name(&name).is_some() {
            fs::metadata(&path).map_err(|source| read_error(&path, source))?;
        }
        names.push(name);
    }
    names.sort();
    Ok(names)
}

fn joined(names: &[&String]) -> String {
    names.iter().map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}

pub(crate) fn bad_data(path: &Path, message: String) -> EnvError {
    EnvError::BadData { path: path.to_path_buf(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(unix)]
    #[test]
    fn a_part_that_cannot_be_looked_at_is_not_missing() {
        use std::os::unix::ffi::OsStrExt as _;
        let not_unicode = std::ffi::OsStr::from_bytes(b"tr\xe4in.csv");
        for (name, is_data) in [
            (std::ffi::OsStr::new("test.jsonl"), true),
            (std::ffi::OsStr::new("my-test"), true),
            (not_unicode, true),
            (std::ffi::OsStr::new("README.md"), false),
            (std::ffi::OsStr::new(".test.jsonl"), false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("train.jsonl"), "{}").unwrap();
            let link = dir.path().join(name);
            std::os::unix::fs::symlink("/no/such/file", &link).unwrap();
            let found = find(dir.path(), &[Split::Val, Split::Test]);
            match found {
                Err(EnvError::ReadData { path, .. } | EnvError::BadData { path, .. }) => {
                    assert!(is_data && path == link, "{}", path.display());
                }
                found => assert!(!is_data && found.is_ok(), "{name:?}: {found:?}"),
            }
        }
    }

    #[test]
    fn names_say_which_part_a_file_is() {
        #[track_caller]
        fn check(stem: &str, expect: Option<Split>) {
            assert_eq!(split_of_name(stem), expect, "{stem}");
        }
        for stem in ["train", "Train", "train-00000-of-00002", "gsm8k_train", "TRAIN.v2", "my-training"] {
            check(stem, Some(Split::Train));
        }
        for stem in ["train2017", "TrainTickets", "TRAIN_Tickets", "ticketsTrain"] {
            check(stem, Some(Split::Train));
        }
        for stem in ["val", "dev", "Validation", "validation-00000-of-00001", "valid_seen", "squad-dev"] {
            check(stem, Some(Split::Val));
        }
        for stem in ["val2017", "DevTickets", "dev2"] {
            check(stem, Some(Split::Val));
        }
        for stem in ["test", "Test", "test-00000-of-00001", "gsm8k_test", "valid_unseen", "data.test"] {
            check(stem, Some(Split::Test));
        }
        for stem in ["test1", "TestTickets", "2017test", "MyTestSet"] {
            check(stem, Some(Split::Test));
        }
        for stem in ["data", "latest", "contest", "tickets", "train_test", "testimonials", "part-0"] {
            check(stem, None);
        }
        for stem in ["Latest2017", "Contests", "trainTest", "Testimonials1"] {
            check(stem, None);
        }
    }
}
