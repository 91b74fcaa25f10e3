//! From data files to checked items in three splits.
//!
//! What a record means is the caller's business; here its place, its id and its split are looked after.

use super::config::Splitting;
use crate::data::{
    DataFiles, Place, Record, all_files, bad_data, entry_names, field_names, find, part_names, read_records,
    split_of_file, train_and_val, unused_beside,
};
use crate::error::{EnvError, read_error};
use crate::item::{Item, Split, Splits};
use indexmap::map::Entry;
use indexmap::{IndexMap, IndexSet};
use serde_json::Value;
use skill_core::member::kind_of;
use skill_core::{ItemId, RatioSplit, SplitRatio, python_json};
use skill_llm::text_file;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How many ids a message names.
const MAX_NAMED_IDS: usize = 5;

/// Where items come from and how they are split.
pub(crate) struct Source<'a, T> {
    pub(crate) data: &'a Path,
    pub(crate) splitting: &'a Splitting,
    pub(crate) optional: &'a [Split],
    /// Items for which this is equal are in one split: a split by shares keeps them together, and of splits that are given
    /// the one that is measured later keeps them. `None` asks for nothing of the kind.
    pub(crate) group_of: Option<GroupOf<'a, T>>,
    /// Whether records with the same fields and values count once.
    pub(crate) drops_duplicates: bool,
}

/// What items of one group have in common; `None` for an item that is alone.
pub(crate) type GroupOf<'a, T> = &'a dyn Fn(&Item, &T) -> Option<String>;

/// What an item is read from: its record, and its number in the file, from 1. `None` for a row that nobody has labelled.
type Read<'a, T> = &'a mut dyn FnMut(Record, usize) -> Result<Option<(Item, T)>, EnvError>;

/// An item in both of its forms: as the environment lists it, and as it is asked and scored.
type Both<T> = (Item, T);
/// Items in both of their forms.
type Loaded<T> = Vec<Both<T>>;

/// Reads the items of all splits; also how many are in no split.
pub(crate) fn load_splits<T>(
    source: &Source<'_, T>,
    read: Read<'_, T>,
) -> Result<(Splits<Loaded<T>>, usize), EnvError> {
    let rows = source.drops_duplicates.then(BTreeSet::new);
    let mut loader = Loader { seen: IndexMap::new(), stems: BTreeSet::new(), rows, n_duplicates: 0, read };
    let (splits, n_unused) = match source.splitting {
        Splitting::PartsOrRatio(split) => (loader.parts_or_ratio(source, *split)?, 0),
        Splitting::Field(name) => (loader.by_field(source, name)?, 0),
        Splitting::Ids(lists) => loader.by_ids(source, lists)?,
    };
    match loader.n_duplicates {
        0 => {}
        1 => tracing::warn!("{}: 1 row repeats another one and is left out", source.data.display()),
        n => tracing::warn!("{}: {n} rows repeat others and are left out", source.data.display()),
    }
    Ok((without_shared_inputs(splits, source)?, n_unused))
}

/// Removes items that ask the same as an item of a split that is measured later.
fn without_shared_inputs<T>(
    mut splits: Splits<Loaded<T>>,
    source: &Source<'_, T>,
) -> Result<Splits<Loaded<T>>, EnvError> {
    let Some(group_of) = source.group_of else { return Ok(splits) };
    let (mut seen, mut n_removed) = (BTreeSet::<String>::new(), 0);
    for split in [Split::Test, Split::Val, Split::Train] {
        let (mut own, n_before) = (Vec::new(), splits[split].len());
        splits[split].retain(|(item, task)| {
            let Some(group) = group_of(item, task) else { return true };
            let is_new = !seen.contains(&group);
            own.push(group);
            is_new
        });
        seen.extend(own);
        n_removed += n_before - splits[split].len();
        if n_before > 0 && splits[split].is_empty() {
            let message = format!("has no item in the split `{split}` that no later split asks as well");
            return Err(bad_data(source.data, message));
        }
    }
    if n_removed > 0 {
        let items = if n_removed == 1 { "1 item asks" } else { &format!("{n_removed} items ask") };
        tracing::warn!(
            "{}: {items} the same as an item of a later split, and what is trained on is not measured: left out",
            source.data.display()
        );
    }
    Ok(splits)
}

struct Loader<'a, T> {
    seen: IndexMap<ItemId, Place>,
    /// The beginnings of ids that files gave to their records.
    stems: BTreeSet<String>,
    /// The records that were read, where each counts once.
    rows: Option<BTreeSet<String>>,
    n_duplicates: usize,
    read: Read<'a, T>,
}

impl<T> Loader<'_, T> {
    fn parts_or_ratio(
        &mut self,
        source: &Source<'_, T>,
        by: RatioSplit,
    ) -> Result<Splits<Loaded<T>>, EnvError> {
        let found = find(source.data, source.optional)?;
        warn_of_unused(source.data, &found);
        match found {
            DataFiles::Whole(files) => {
                let items = self.files(&files)?;
                let place = files.first().filter(|_| files.len() == 1).map_or(source.data, PathBuf::as_path);
                if items.is_empty() {
                    return Err(bad_data(place, "holds no items".to_owned()));
                }
                let [n_train, ..] = by.ratio.shares(items.len());
                if n_train > 0 && split_of_file(place) == Some(Split::Test) {
                    tracing::warn!(
                        "{}: is a test split by its name, and a part of it is trained on; name the folder with its training \
                         split, or give the file another name",
                        place.display()
                    );
                }
                split(place, items, source, by)
            }
            DataFiles::Parts(files) => {
                let mut splits = no_items();
                for (split, file) in &files {
                    splits[*split].extend(self.file(file)?);
                }
                for (split, file) in &files {
                    if splits[*split].is_empty() && !source.optional.contains(split) {
                        let message = format!("holds no items, so the split `{split}` is empty");
                        return Err(bad_data(file, message));
                    }
                }
                let has = |split: Split| files.iter().any(|(found, _)| *found == split);
                if has(Split::Train) && has(Split::Test) && !has(Split::Val) {
                    let whole = std::mem::take(&mut splits[Split::Train]);
                    let [train, val] = without_val(whole, source, by)?;
                    (splits[Split::Train], splits[Split::Val]) = (train, val);
                }
                Ok(splits)
            }
        }
    }

    fn by_field(&mut self, source: &Source<'_, T>, name: &str) -> Result<Splits<Loaded<T>>, EnvError> {
        let mut splits = no_items();
        for file in all_files(source.data)? {
            for (item, split) in self.file_with(&file, |record| split_of(record, name))? {
                splits[split].push(item);
            }
        }
        check_empty(source, &splits, |split| format!("has no item whose `{name}` is `{split}`"))?;
        Ok(splits)
    }

    fn by_ids(
        &mut self,
        source: &Source<'_, T>,
        lists: &Path,
    ) -> Result<(Splits<Loaded<T>>, usize), EnvError> {
        let lists = read_id_lists(lists, source.optional)?;
        let items = self.files(&all_files(source.data)?)?;
        let n_items = items.len();
        let mut by_id: IndexMap<ItemId, (Item, T)> =
            items.into_iter().map(|item| (item.0.id.clone(), item)).collect();
        let mut splits = no_items();
        for (split, list) in lists.iter() {
            let Some(list) = list else { continue };
            let missing: Vec<&str> =
                list.ids.iter().filter(|id| !by_id.contains_key(*id)).map(ItemId::as_str).collect();
            if !missing.is_empty() {
                let message = format!("names {} that {} does not hold", ids(&missing), source.data.display());
                return Err(bad_data(&list.file, message));
            }
            splits[split].extend(list.ids.iter().filter_map(|id| by_id.swap_remove(id)));
        }
        check_empty(source, &splits, |split| format!("has no item in the list of `{split}`"))?;
        let n_used: usize = splits.iter().map(|(_, items)| items.len()).sum();
        Ok((splits, n_items - n_used))
    }

    fn files(&mut self, files: &[PathBuf]) -> Result<Loaded<T>, EnvError> {
        let mut items = Vec::new();
        for file in files {
            items.extend(self.file(file)?);
        }
        Ok(items)
    }

    /// The items of a file.
    fn file(&mut self, file: &Path) -> Result<Loaded<T>, EnvError> {
        Ok(self.file_with(file, |_| Ok(()))?.into_iter().map(|(item, ())| item).collect())
    }

    /// The beginning of ids for records without one where another file of this name was read: with the folder, and with the
    /// ending. `None` where the name of the file is enough.
    fn stem_of(&mut self, file: &Path) -> Option<Arc<str>> {
        let text = |part: Option<&OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
        let (stem, ending) = (text(file.file_stem()), text(file.extension()));
        if self.stems.insert(stem.clone()) {
            return None;
        }
        let folder = text(file.parent().and_then(Path::file_name));
        let longer = [format!("{folder}-{stem}"), format!("{folder}-{stem}-{ending}")];
        longer.into_iter().find(|longer| self.stems.insert(longer.clone())).map(Arc::from)
    }

    /// The items of a file, each with what `look` sees in its record.
    fn file_with<S>(
        &mut self,
        file: &Path,
        look: impl Fn(&Record) -> Result<S, EnvError>,
    ) -> Result<Vec<(Both<T>, S)>, EnvError> {
        let mut items = Vec::new();
        let mut n_unlabelled = 0;
        let stem = self.stem_of(file);
        for (record_idx, mut record) in read_records(file)?.into_iter().enumerate() {
            if let Some(stem) = &stem {
                record.place = record.place.with_stem(stem);
            }
            if let Some(rows) = &mut self.rows
                && !rows.insert(Value::Object(record.fields.clone()).to_string())
            {
                self.n_duplicates += 1;
                continue;
            }
            let seen = look(&record)?;
            let place = record.place.clone();
            let Some(item) = (self.read)(record, record_idx + 1)? else {
                n_unlabelled += 1;
                continue;
            };
            match self.seen.entry(item.0.id.clone()) {
                Entry::Occupied(first) => {
                    let message = format!(
                        "the id `{}` is taken by {}; ids are unique over all splits",
                        item.0.id,
                        first.get()
                    );
                    return Err(place.error(message));
                }
                Entry::Vacant(entry) => {
                    entry.insert(place);
                }
            }
            items.push((item, seen));
        }
        if n_unlabelled > 0 {
            let rows = if n_unlabelled == 1 { "row has" } else { "rows have" };
            let are = if n_unlabelled == 1 { "is" } else { "are" };
            tracing::warn!(
                "{}: {n_unlabelled} {rows} no right answer and {are} left out: the field is missing or empty, or the label is -1",
                file.display()
            );
        }
        Ok(items)
    }
}

/// Names the files beside the parts of a split, and folders beside files, that are not read.
fn warn_of_unused(data: &Path, found: &DataFiles) {
    let used: Vec<&Path> = match found {
        DataFiles::Whole(files) => files.iter().map(PathBuf::as_path).collect(),
        DataFiles::Parts(parts) => parts.iter().map(|(_, file)| file.as_path()).collect(),
    };
    let unused = if data.is_dir() { unused_beside(data, &used) } else { Vec::new() };
    if !unused.is_empty() {
        tracing::warn!(
            "{}: not read, because no part of a split has such a name: {}",
            data.display(),
            unused.join(", ")
        );
    }
}

fn split<T>(
    place: &Path,
    items: Loaded<T>,
    source: &Source<'_, T>,
    by: RatioSplit,
) -> Result<Splits<Loaded<T>>, EnvError> {
    if by.ratio == SplitRatio::Shares([0, 0, 0]) {
        let message = "`split_ratio` is 0:0:0; expected weights such as 2:1:7".to_owned();
        return Err(EnvError::Configuration { message });
    }
    let n_items = items.len();
    let [train, val, test] = by.ratio.shares(n_items);
    let splits = match source.group_of {
        None => Splits::from(by.split(items, |(item, _)| item.task_type.as_str())),
        Some(group_of) if by.ratio != SplitRatio::Auto => {
            let mut groups: IndexMap<String, Loaded<T>> = IndexMap::new();
            for (item, task) in items {
                let group = group_of(&item, &task).unwrap_or_else(|| format!("id {}", item.id));
                groups.entry(group).or_default().push((item, task));
            }
            let type_of =
                |group: &Loaded<T>| group.first().map_or("", |(item, _)| item.task_type.as_str()).to_owned();
            let typed: Vec<(String, Loaded<T>)> =
                groups.into_values().map(|group| (type_of(&group), group)).collect();
            let split = by.split(typed, |(kind, _)| kind.as_str());
            Splits::from(split.map(|part| part.into_iter().flat_map(|(_, group)| group).collect()))
        }
        Some(group_of) => {
            let grouped: Vec<(Both<T>, Option<String>)> = items
                .into_iter()
                .map(|(item, task)| {
                    let group = group_of(&item, &task);
                    ((item, task), group)
                })
                .collect();
            let split = by.split_in_groups(
                grouped,
                |((item, _), _)| item.task_type.as_str(),
                |(_, group)| group.as_deref(),
            );
            Splits::from(split.map(|part| part.into_iter().map(|(item, _)| item).collect()))
        }
    };
    for (name, items) in splits.iter() {
        if items.is_empty() && !source.optional.contains(&name) {
            let same = source.group_of.map(|_| ", some of which ask the same").unwrap_or_default();
            let message = format!(
                "holds {n_items} items{same}; split {train}:{val}:{test} they leave the split `{name}` empty, \
                 so give more items or another `split_ratio`"
            );
            return Err(bad_data(place, message));
        }
    }
    Ok(splits)
}

/// Items to train on and to validate with, of data that have a test split of their own and no validation split.
fn without_val<T>(
    items: Loaded<T>,
    source: &Source<'_, T>,
    by: RatioSplit,
) -> Result<[Loaded<T>; 2], EnvError> {
    let by = train_and_val(by, items.len());
    let source = Source { optional: &[Split::Test], ..*source };
    let [train, val, _]: [Loaded<T>; 3] = split(source.data, items, &source, by)?.into();
    Ok([train, val])
}

fn no_items<T>() -> Splits<Loaded<T>> {
    [Vec::new(), Vec::new(), Vec::new()].into()
}

fn check_empty<T>(
    source: &Source<'_, T>,
    splits: &Splits<Loaded<T>>,
    message: impl Fn(Split) -> String,
) -> Result<(), EnvError> {
    for (split, items) in splits.iter() {
        if items.is_empty() && !source.optional.contains(&split) {
            return Err(bad_data(source.data, message(split)));
        }
    }
    Ok(())
}

/// The split that a record names.
fn split_of(record: &Record, name: &str) -> Result<Split, EnvError> {
    let Some(value) = record.fields.get(name) else {
        let fields = field_names(&record.fields);
        return Err(record
            .place
            .error(format!("has no field `{name}`, which names the split; its fields are {fields}")));
    };
    let text = value.as_str().unwrap_or_default().trim().to_lowercase();
    let found = Split::ALL.into_iter().find(|split| part_names(*split).contains(&text.as_str()));
    found.or_else(|| Split::parse(&text)).ok_or_else(|| {
        record.place.error(format!("`{name}` is {value}; expected \"train\", \"val\" or \"test\""))
    })
}

/// A list of ids with the file that it is in.
struct IdList {
    file: PathBuf,
    ids: IndexSet<ItemId>,
}

/// The ids that the lists in a directory name: `train.txt` with an id a line, `val.json`, and so on.
///
/// # Errors
///
/// A list that is missing and not `optional`, several for one split, one that cannot be read, or an id that is in
/// two places.
pub fn read_split_ids(dir: &Path, optional: &[Split]) -> Result<Splits<Vec<ItemId>>, EnvError> {
    let lists = read_id_lists(dir, optional)?;
    Ok(lists.map(|list| list.map(|list| list.ids.into_iter().collect()).unwrap_or_default()))
}

/// The lists in a directory; no id is in two of them.
fn read_id_lists(dir: &Path, optional: &[Split]) -> Result<Splits<Option<IdList>>, EnvError> {
    let mut lists = Splits::default();
    let names = entry_names(dir)?;
    for split in Split::ALL {
        let is_list = |name: &&String| {
            let path = Path::new(name.as_str());
            let stem = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or(name);
            part_names(split).contains(&stem)
        };
        let found: Vec<PathBuf> = names.iter().filter(is_list).map(|name| dir.join(name)).collect();
        match found.as_slice() {
            [] if optional.contains(&split) => {}
            [] => {
                let message = format!(
                    "has no list for the split `{split}`; expected {split}.txt with an id a line, {split}.json, \
                     {split}.jsonl, {split}.csv or a directory {split}"
                );
                return Err(bad_data(dir, message));
            }
            [file] => lists[split] = Some(read_id_list(file)?),
            [first, second, ..] => {
                let message = format!(
                    "has several lists for the split `{split}`: {} and {}; keep one",
                    first.display(),
                    second.display()
                );
                return Err(bad_data(dir, message));
            }
        }
    }
    check_overlap(dir, &lists)?;
    Ok(lists)
}

fn check_overlap(dir: &Path, lists: &Splits<Option<IdList>>) -> Result<(), EnvError> {
    let named: Vec<(Split, &IdList)> =
        lists.iter().filter_map(|(split, list)| Some((split, list.as_ref()?))).collect();
    for (list_idx, (split, list)) in named.iter().enumerate() {
        for (other_split, other) in named.iter().skip(list_idx + 1) {
            let both: Vec<&str> = list.ids.intersection(&other.ids).map(ItemId::as_str).collect();
            if !both.is_empty() {
                let message =
                    format!("the splits `{split}` and `{other_split}` overlap: both name {}", ids(&both));
                return Err(bad_data(dir, message));
            }
        }
    }
    Ok(())
}

fn read_id_list(path: &Path) -> Result<IdList, EnvError> {
    let file = if path.is_dir() {
        let mut files = entry_names(path)?;
        files.retain(|name| path.join(name).is_file());
        match files.as_slice() {
            [name] => path.join(name),
            _ => {
                return Err(bad_data(path, format!("holds {} files; expected one list of ids", files.len())));
            }
        }
    } else {
        path.to_path_buf()
    };
    let is_plain = file.extension().is_none_or(|extension| extension.eq_ignore_ascii_case("txt"));
    let listed = if is_plain { plain_ids(&file)? } else { structured_ids(&file)? };
    let mut ids = IndexMap::<ItemId, usize>::new();
    for (id, line) in listed {
        if let Some(first) = ids.insert(id.clone(), line) {
            let message = format!("the id `{id}` is in line {first} already");
            return Err(EnvError::BadLine { path: file, line, message });
        }
    }
    Ok(IdList { file, ids: ids.into_keys().collect() })
}

/// An id a line; lines that are blank are passed over.
fn plain_ids(file: &Path) -> Result<Vec<(ItemId, usize)>, EnvError> {
    let text = text_file::read(file).map_err(|source| read_error(file, source))?;
    let lines = text.lines().map(str::trim).enumerate().filter(|(_, line)| !line.is_empty());
    Ok(lines.map(|(line_idx, id)| (ItemId::new(id), line_idx + 1)).collect())
}

/// Ids of a JSON list of texts, or of records that have an id.
fn structured_ids(file: &Path) -> Result<Vec<(ItemId, usize)>, EnvError> {
    if file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("json")) {
        let text = text_file::read(file).map_err(|source| read_error(file, source))?;
        let list: Option<Vec<Value>> = python_json::read(&text).ok();
        if let Some(list) = list.filter(|list| !list.iter().any(Value::is_object)) {
            return list
                .iter()
                .enumerate()
                .map(|(element_idx, value)| match value {
                    Value::String(id) => match ItemId::fault(id) {
                        Some(fault) => {
                            let message = format!("element {}: the id {fault}", element_idx + 1);
                            Err(bad_data(file, message))
                        }
                        None => Ok((ItemId::new(id), element_idx + 1)),
                    },
                    Value::Number(id) => Ok((ItemId::new(id.to_string()), element_idx + 1)),
                    other => {
                        let message =
                            format!("element {} is {}; expected an id", element_idx + 1, kind_of(other));
                        Err(bad_data(file, message))
                    }
                })
                .collect();
        }
    }
    read_records(file)?
        .iter()
        .map(|record| match super::reader::listed_id(&record.fields) {
            Ok(id) => Ok((ItemId::new(id), record.place.line())),
            Err(message) => Err(record.place.error(message)),
        })
        .collect()
}

/// A few ids for a message.
fn ids(ids: &[&str]) -> String {
    let named: Vec<String> = ids.iter().take(MAX_NAMED_IDS).map(|id| format!("`{id}`")).collect();
    match ids.len().checked_sub(MAX_NAMED_IDS).filter(|more| *more > 0) {
        Some(more) => format!("{} and {more} more ids", named.join(", ")),
        None => format!("{} {}", if ids.len() == 1 { "the id" } else { "the ids" }, named.join(", ")),
    }
}
