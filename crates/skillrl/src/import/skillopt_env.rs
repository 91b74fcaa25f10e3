//! The environment and the data of a SkillOpt configuration.

use super::NewFile;
use super::source::read;
use super::split_lists::{items, manifest};
use crate::config::mapping::draft::{Draft, Entry, flag, text};
use crate::error::ImportError;
use serde_json::{Value, json};
use skill_core::SplitRule;
use std::path::{Path, PathBuf};

/// How environments are called there and here: a kind, and a preset for those that have one.
const ENVIRONMENTS: [(&str, &str, Option<&str>); 6] = [
    ("searchqa", "tasks", Some("searchqa")),
    ("docvqa", "tasks", Some("docvqa")),
    ("livemathematicianbench", "tasks", Some("livemath")),
    ("officeqa", "tasks", Some("officeqa")),
    ("alfworld", "alfworld", None),
    ("spreadsheetbench", SPREADSHEET, None),
];

/// The kind of environment whose tasks are workbooks.
const SPREADSHEET: &str = "spreadsheet";

/// How an agent works on a workbook, there and here.
const MODES: [(&str, &str); 3] = [("single", "single"), ("multi", "multi"), ("react", "tools")];

/// The replies of a task where SkillOpt's configuration does not say.
const MAX_ROUNDS: u64 = 30;

/// How a configuration says that its data is split.
const SPLIT_DIR: &str = "split_dir";
const RATIO: &str = "ratio";
const SPLIT_MODES: [&str; 2] = [SPLIT_DIR, RATIO];

/// The ratio of a configuration that names none.
const SPLIT_RATIO: [u32; 3] = [2, 1, 7];

/// Presets and kinds whose items name documents beside them: a copy of the items alone would be of no use.
const WITH_DOCUMENTS: [&str; 3] = ["docvqa", "officeqa", SPREADSHEET];

/// Where copied data stand, and what is copied: larger data stay where they are.
const DATA_DIR: &str = "data";
const DATA_ENDINGS: [&str; 5] = ["json", "jsonl", "csv", "tsv", "txt"];
const MAX_COPIED_BYTES: u64 = 64 * 1024 * 1024;
const MAX_COPIED_FILES: usize = 1_000;

/// How many directories above the configuration a path is looked for.
const MAX_LEVELS: usize = 6;

/// Where paths of the configuration are.
pub(super) struct Found<'a> {
    /// The place of a path that is there, if it is found.
    pub(super) find: &'a dyn Fn(&str) -> Option<PathBuf>,
    /// Where the new configuration will stand.
    pub(super) dir: &'a Path,
}

/// The place of a path: SkillOpt starts in the root of its repository, the configuration lies below that.
pub(super) fn find(config: &Path, asked: &str) -> Option<PathBuf> {
    let asked = Path::new(asked);
    if asked.is_absolute() {
        return asked.exists().then(|| asked.to_owned());
    }
    let config = config.canonicalize().ok()?;
    let above = config.ancestors().skip(1).take(MAX_LEVELS).map(|dir| dir.join(asked));
    let here = std::env::current_dir().ok().map(|dir| dir.join(asked));
    here.into_iter().chain(above).find(|path| path.exists())
}

/// Maps everything about tasks; returns the files that are beside the configuration. A damaged list of a split is an
/// error, and never a split that is not there.
pub(super) fn map(draft: &mut Draft, found: &Found<'_>) -> Result<Vec<NewFile>, ImportError> {
    let name = draft.take("env");
    let known = name
        .as_ref()
        .and_then(|entry| text(&entry.value))
        .and_then(|name| ENVIRONMENTS.into_iter().find(|(there, ..)| *there == name.to_lowercase()));
    let mut files = Vec::new();
    if let Some(entry) = draft.take("skill_init") {
        let path = match copied_skill(&entry, found) {
            Some(file) => {
                let path = file.0.clone();
                files.push(file);
                Some(path)
            }
            None => path_of(draft, &entry, "skill.initial", found),
        };
        set_path(draft, &entry, "skill.initial", path);
    }
    map_run_dir(draft);
    let (kind, preset) = match (&name, known) {
        (Some(entry), Some((_, kind, preset))) => {
            draft.set_from(entry, "env.kind", kind);
            if let Some(preset) = preset {
                draft.set("env.preset", preset);
            }
            (kind, preset)
        }
        (Some(entry), None) => {
            draft.set("env.kind", "tasks");
            draft.lose(entry, "no counterpart; env.kind = \"exec\" plays any program");
            ("tasks", None)
        }
        (None, _) => {
            draft.set("env.kind", "tasks");
            draft.mapping.lose("env.name", "", "the configuration names no environment");
            ("tasks", None)
        }
    };
    files.extend(match kind {
        "alfworld" => alfworld(draft, found)?,
        SPREADSHEET => {
            rounds(draft);
            data(draft, found, Some(SPREADSHEET))?
        }
        _ => data(draft, found, preset)?,
    });
    limits(draft, found, kind, preset);
    Ok(files)
}

/// A run here has a directory of its own, so that nothing is written into that of another program.
pub(super) fn map_run_dir(draft: &mut Draft) {
    if let Some(entry) = draft.take("out_root") {
        let place = text(&entry.value).unwrap_or_default();
        let name = place.rsplit(['/', '\\']).find(|name| !name.is_empty() && !name.starts_with('.'));
        draft.set("run.dir", format!("runs/{}", name.unwrap_or("imported")));
        draft.idle(
            &entry,
            "is the directory of SkillOpt's runs; a run here has a directory of its own, run.dir",
        );
    }
}

/// The data of tasks: split directories, or one file that is split.
fn data(draft: &mut Draft, found: &Found<'_>, preset: Option<&str>) -> Result<Vec<NewFile>, ImportError> {
    let mode = draft.take("split_mode");
    let [split_dir, data_path, data_root, ratio, seed, output] =
        ["split_dir", "data_path", "data_root", "split_ratio", "split_seed", "split_output_dir"]
            .map(|flat| draft.take(flat));
    let data_path = data_path.or(data_root);
    let named = mode.as_ref().and_then(|mode| text(&mode.value));
    if let Some(mode) = &mode
        && !named.as_ref().is_some_and(|named| SPLIT_MODES.contains(&named.as_str()))
    {
        draft.lose(mode, "is neither ratio nor split_dir");
    }
    let is_split = match named.as_deref() {
        Some(SPLIT_DIR) => true,
        Some(RATIO) => false,
        Some(_) | None => split_dir.is_some() && data_path.is_none(),
    };
    if let Some(output) = output {
        draft.idle(&output, "splits follow from their seed and are not written");
    }
    let mut files = Vec::new();
    if is_split {
        for unused in [ratio, seed].into_iter().flatten() {
            draft.idle(&unused, "the split directory decides");
        }
        let Some(dir) = split_dir else {
            draft.mapping.need("env.data: where the splits are");
            draft.mapping.lose(
                "env.split_dir",
                "",
                "the splits are said to be in a directory, and none is named",
            );
            return Ok(files);
        };
        let place = text(&dir.value).and_then(|asked| (found.find)(&asked));
        let lists = place.map(|place| manifest(&place)).transpose()?.flatten();
        match (lists, data_path) {
            (Some(lists), Some(data)) => {
                let place = path_of(draft, &data, "env.data", found);
                set_path(draft, &data, "env.data", place);
                draft.set_from(&dir, "env.split_ids", "split_ids");
                files = lists;
            }
            (Some(_), None) => {
                let place = path_of(draft, &dir, "env.data", found);
                set_path(draft, &dir, "env.data", place);
                let reason = "holds lists of ids and not the items: name their file in env.data, and the lists in env.split_ids";
                draft.lose(&dir, reason);
                draft.mapping.need("env.data: the file with the items, and env.split_ids: the lists of ids");
            }
            (None, data) => {
                let place = data_place(draft, &dir, found, preset, &mut files);
                set_path(draft, &dir, "env.data", place);
                if let Some(data) = data {
                    draft.idle(&data, "the split directory decides");
                }
            }
        }
    } else {
        if let Some(dir) = split_dir {
            draft.idle(&dir, "the data is split by ratio");
        }
        match data_path {
            Some(data) => {
                let place = data_place(draft, &data, found, preset, &mut files);
                set_path(draft, &data, "env.data", place);
            }
            None => {
                draft.mapping.need("env.data: where the data are");
                draft.mapping.lose("env.data_path", "", "no data is named: write its place into env.data");
            }
        }
        if let Some(ratio) = ratio {
            let asked = text(&ratio.value).unwrap_or_default();
            let parts: Option<Vec<u64>> =
                asked.split([':', ',', '/']).map(|part| part.trim().parse().ok()).collect();
            match parts.filter(|parts| parts.len() == 3) {
                Some(parts) => draft.set_from(&ratio, "env.split_ratio", json!(parts)),
                None => draft.lose(&ratio, "is not three whole numbers"),
            }
        }
        // What SkillOpt takes where its configuration does not say; the default here is another.
        draft.set("env.split_ratio", json!(SPLIT_RATIO));
        draft.set("env.split_rule", SplitRule::Float.number());
        if let Some(seed) = seed {
            match seed.value.as_u64() {
                Some(value) => draft.set_from(&seed, "env.split_seed", value),
                None => draft.lose(&seed, "is not a whole number"),
            }
        }
    }
    Ok(files)
}

/// How an agent works on workbooks, with the rounds that SkillOpt gives it: a program that runs ends them, and in training
/// it is told which cells are wrong before.
fn rounds(draft: &mut Draft) {
    let mode = draft.take("mode");
    let named = mode.as_ref().and_then(|mode| text(&mode.value));
    let known = MODES.iter().find(|(there, _)| named.as_deref().is_none_or(|named| named == *there));
    // Without the key it is the first one there.
    let here = known.map_or("single", |(_, here)| *here);
    match (&mode, known) {
        (Some(entry), Some((_, here))) => draft.set_from(entry, "env.mode", *here),
        (Some(entry), None) => draft.lose(entry, "is not one of single, multi and react"),
        (None, _) => draft.set("env.mode", here),
    }
    let turns = draft.take("max_turns");
    let asked = turns.as_ref().and_then(|turns| turns.value.as_u64());
    let n_rounds = asked.unwrap_or(MAX_ROUNDS).clamp(1, 1000);
    match &turns {
        Some(turns) if here == "single" => draft.idle(turns, "a task is one reply"),
        Some(turns) if asked.is_none() => draft.lose(turns, "is not a whole number"),
        Some(turns) => draft.set_from(turns, "env.max_rounds", n_rounds),
        None => {}
    }
    if here == "multi" {
        draft.set("env.review_rounds", 0);
        draft.set("env.feedback_rounds", n_rounds.saturating_sub(1));
    }
}

/// ALFWorld's splits are lists of games.
fn alfworld(draft: &mut Draft, found: &Found<'_>) -> Result<Vec<NewFile>, ImportError> {
    let mut files = Vec::new();
    let dir = draft.take("split_dir");
    let place = dir.as_ref().and_then(|dir| text(&dir.value)).and_then(|asked| (found.find)(&asked));
    if let (Some(dir), Some(place)) = (&dir, place) {
        for (split, items) in items(&place)? {
            // A file of another form holds none.
            let items = items.unwrap_or_default();
            let games: Vec<String> = items
                .iter()
                .filter_map(|item| {
                    ["gamefile", "path", "id"].iter().find_map(|key| item.get(*key)).and_then(Value::as_str)
                })
                .map(|game| format!("{game}\n"))
                .collect();
            let n_others = items.len() - games.len();
            if n_others > 0 || games.is_empty() {
                let reason = "items without a game were left out: each needs a `gamefile`";
                draft.mapping.lose(format!("{}, {split}", dir.key), n_others.to_string(), reason);
            }
            if !games.is_empty() {
                let name = format!("games_{split}.txt");
                draft.set(&format!("env.games_{split}"), name.as_str());
                files.push((name, games.concat().into_bytes()));
            }
        }
        draft.mapping.map(dir.key.as_str(), "env.games_*");
    } else if let Some(dir) = &dir {
        draft.mapping.need("env.games_train, env.games_val and env.games_test: lists of games");
        draft.lose(dir, "the directory is not found: name lists of games in env.games_train, _val and _test");
    }
    for flat in ["split_mode", "data_path", "split_ratio", "split_seed", "split_output_dir"] {
        if let Some(entry) = draft.take(flat) {
            draft.idle(&entry, "the lists of games decide");
        }
    }
    draft.mapping.need("env.games: the directory of the games, which ALFWORLD_DATA names there");
    let reason = "the games' directory comes from ALFWORLD_DATA there: name it in env.games";
    draft.mapping.lose("ALFWORLD_DATA", "", reason);
    Ok(files)
}

/// Bounds on an episode or a call.
fn limits(draft: &mut Draft, found: &Found<'_>, kind: &str, preset: Option<&str>) {
    if let Some(entry) = draft.take("exec_timeout") {
        match entry.value.as_u64() {
            Some(_) if draft.has("models.target.timeout_s") => {
                draft.idle(&entry, "the backend has a timeout of its own");
            }
            Some(seconds) => draft.set_from(&entry, "models.target.timeout_s", seconds.clamp(1, 86_400)),
            None => draft.lose(&entry, "is not a whole number of seconds"),
        }
    }
    if let Some(entry) = draft.take("max_steps") {
        match entry.value.as_u64() {
            Some(turns) if kind == "alfworld" => draft.set_from(&entry, "env.max_turns", turns),
            _ => draft.lose(&entry, "an item is answered in one call here"),
        }
    }
    if let Some(entry) = draft.take("max_turns") {
        match entry.value.as_u64() {
            Some(1) => draft.idle(&entry, "an item is answered in one call here too"),
            _ => draft.lose(&entry, "an item is answered in one call here"),
        }
    }
    if let Some(entry) = draft.take("max_completion_tokens") {
        match entry.value.as_u64() {
            Some(tokens) => draft.set_from(&entry, "env.max_tokens", tokens),
            None => draft.lose(&entry, "is not a whole number"),
        }
    }
    if preset == Some("officeqa") {
        documents(draft, found);
    }
    if let Some(entry) = draft.take("max_api_workers") {
        draft.idle(&entry, "one number bounds all calls in flight: run.workers");
    }
    if let Some(entry) = draft.take("shuffle_choices") {
        match flag(&entry.value) {
            Some(flag) if preset == Some("livemath") => draft.set_from(&entry, "env.shuffle_choices", flag),
            _ => draft.lose(&entry, "is a setting of multiple choice"),
        }
    }
}

/// The documents that an agent looks things up in, and its turns with them, which mean nothing without documents.
fn documents(draft: &mut Draft, found: &Found<'_>) {
    let (dirs, turns) = (draft.take("data_dirs"), draft.take("max_tool_turns"));
    let listed: &[Value] = match dirs.as_ref().map(|dirs| &dirs.value) {
        Some(Value::Array(list)) => list,
        Some(one) => std::slice::from_ref(one),
        None => &[],
    };
    let named: Vec<String> = listed.iter().filter_map(text).collect();
    if let Some(entry) = &dirs
        && named.len() < listed.len()
    {
        draft.lose(entry, "holds something that is not the name of a directory");
    }
    if let (Some(entry), Some(first)) = (&dirs, named.first()) {
        let one = Entry { value: json!(first), ..entry.clone() };
        let place = path_of(draft, &one, "env.files_dir", found);
        set_path(draft, entry, "env.files_dir", place);
        if named.len() > 1 {
            draft.lose(entry, "only the first directory is used: env.files_dir names one");
        }
    }
    let Some(turns) = turns else { return };
    match turns.value.as_u64() {
        Some(n_turns) if !named.is_empty() => {
            draft.set_from(&turns, "env.max_tool_turns", n_turns.clamp(1, 1000));
        }
        Some(_) => draft.lose(&turns, "is about documents: name their directory in env.files_dir first"),
        None => draft.lose(&turns, "is not a whole number"),
    }
}

/// The data's place: a copy beside the configuration where the data are a few files of text that name no others.
fn data_place(
    draft: &mut Draft,
    entry: &Entry,
    found: &Found<'_>,
    preset: Option<&str>,
    files: &mut Vec<NewFile>,
) -> Option<String> {
    let place = text(&entry.value).and_then(|asked| (found.find)(&asked));
    let names_others = preset.is_some_and(|preset| WITH_DOCUMENTS.contains(&preset));
    let copies = place.filter(|_| !names_others).and_then(|place| copied_data(&place));
    match copies {
        Some((name, copies)) => {
            files.extend(copies);
            Some(name)
        }
        None => path_of(draft, entry, "env.data", found),
    }
}

/// The files of a directory, or one file, below `data`; `None` if they are too large, or of kinds that are not data.
fn copied_data(place: &Path) -> Option<(String, Vec<NewFile>)> {
    let is_data = |path: &Path| {
        path.extension()
            .is_some_and(|ending| DATA_ENDINGS.iter().any(|known| ending.eq_ignore_ascii_case(known)))
    };
    if place.is_file() {
        let name = format!("{DATA_DIR}/{}", place.file_name()?.to_string_lossy());
        let length = std::fs::metadata(place).ok()?.len();
        let bytes = (is_data(place) && length <= MAX_COPIED_BYTES).then(|| std::fs::read(place).ok())??;
        return Some((name.clone(), vec![(name, bytes)]));
    }
    let (mut dirs, mut copies, mut n_bytes) = (vec![PathBuf::new()], Vec::new(), 0_u64);
    while let Some(below) = dirs.pop() {
        for entry in std::fs::read_dir(place.join(&below)).ok()? {
            let entry = entry.ok()?;
            let (kind, path) = (entry.file_type().ok()?, below.join(entry.file_name()));
            if kind.is_dir() {
                dirs.push(path);
                continue;
            }
            n_bytes = n_bytes.saturating_add(entry.metadata().ok()?.len());
            if !kind.is_file()
                || !is_data(&path)
                || n_bytes > MAX_COPIED_BYTES
                || copies.len() >= MAX_COPIED_FILES
            {
                return None;
            }
            let names: Vec<_> = path.components().map(|part| part.as_os_str().to_string_lossy()).collect();
            copies.push((format!("{DATA_DIR}/{}", names.join("/")), std::fs::read(place.join(&path)).ok()?));
        }
    }
    copies.sort();
    (!copies.is_empty()).then(|| (DATA_DIR.to_owned(), copies))
}

/// The initial skill, to be beside the configuration.
fn copied_skill(entry: &Entry, found: &Found<'_>) -> Option<(String, Vec<u8>)> {
    let place = text(&entry.value).and_then(|asked| (found.find)(&asked)).filter(|place| place.is_file())?;
    Some(("skill.md".to_owned(), read(&place).ok()?))
}

/// The path for our `key`: relative to the configuration if the file is beside it, else absolute. A value that is not a path
/// is reported as lost.
fn path_of(draft: &mut Draft, entry: &Entry, key: &str, found: &Found<'_>) -> Option<String> {
    let Some(asked) = text(&entry.value) else {
        draft.lose(entry, "is not a path");
        return None;
    };
    match (found.find)(&asked) {
        Some(place) => {
            let dir = found.dir.canonicalize().unwrap_or_else(|_| found.dir.to_owned());
            let place = place.canonicalize().unwrap_or(place);
            Some(place.strip_prefix(&dir).unwrap_or(&place).to_string_lossy().into_owned())
        }
        None => {
            draft.lose(entry, "is not there: paths are relative to the configuration file here");
            draft.mapping.need(format!("{key}: {asked} is not there"));
            Some(asked)
        }
    }
}

/// Sets a key here to a path, if it is one; a configuration without it is refused by the name of the key.
fn set_path(draft: &mut Draft, entry: &Entry, key: &str, path: Option<String>) {
    if let Some(path) = path {
        draft.set_from(entry, key, path);
    }
}
