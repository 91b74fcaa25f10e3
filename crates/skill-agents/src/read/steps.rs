//! Events in order, each with its run.

use crate::event::{Event, What};
use crate::home::SessionFile;
use crate::record::records;
use crate::rule::{Source, at, holds};
use crate::table::Agent;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// An event with its place.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Step {
    pub(super) run: usize,
    /// In a form that sorts.
    pub(super) time: String,
    pub(super) sub: Option<String>,
    pub(super) what: What,
}

/// The steps of one stream.
#[derive(Debug, Clone, Default)]
pub(super) struct Stream {
    pub(super) steps: Vec<Step>,
    pub(super) session: Option<String>,
    pub(super) n_other: usize,
    pub(super) n_records: usize,
}

/// Reads what a program printed in one run.
pub(super) fn of_stream(agent: &Agent, text: &str, run: usize) -> Stream {
    let (records, n_other) = records(text);
    let mut stream = Stream { n_other, n_records: records.len(), ..Stream::default() };
    for record in &records {
        for event in events(agent, Source::Stream, record) {
            if let What::Session { id, .. } = &event.what
                && !id.is_empty()
                && stream.session.is_none()
            {
                stream.session = Some(id.clone());
            }
            stream.steps.push(Step { run, time: String::new(), sub: event.sub, what: event.what });
        }
    }
    stream
}

fn events(agent: &Agent, source: Source, record: &Value) -> Vec<Event> {
    let mut events = Vec::new();
    for rule in &agent.rules {
        rule.events(source, record, &mut events);
    }
    events
}

/// A time in a form that sorts: texts of ISO 8601 in UTC do, numbers get zeros before them.
fn sortable(value: Option<&Value>) -> String {
    match value {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => format!("{number:0>20}"),
        _ => String::new(),
    }
}

/// The steps of session files in the order of time, and the lines passed over.
///
/// `runs` has the runs of each session in order. A session's prompts begin its runs; where it has more prompts than
/// runs, the last run has the rest.
pub(super) fn of_files(
    agent: &Agent,
    files: &[SessionFile],
    runs: &BTreeMap<String, Vec<usize>>,
) -> (Vec<Step>, usize) {
    let (mut main, mut subs, mut n_other) = (Vec::new(), Vec::new(), 0);
    let mut seen = BTreeSet::new();
    // A fork repeats the records of its parent, which come first.
    let first_run = |file: &&SessionFile| {
        let session = file.records.first().and_then(|first| session_of(agent, file, first));
        session.and_then(|id| runs.get(&id)?.first().copied()).unwrap_or(usize::MAX)
    };
    let mut files: Vec<&SessionFile> = files.iter().collect();
    files.sort_by_key(first_run);
    for file in files {
        n_other += file.n_other;
        let records = own_records(agent, file, &mut seen);
        let Some(first) = file.records.first() else { continue };
        let is_sub_file = !agent.file_is_sub.is_empty() && holds(first, first, &agent.file_is_sub);
        let mut session = session_of(agent, file, first);
        let parent = parent_of(agent, file, first, is_sub_file);
        let is_wanted = |id: &Option<String>| id.as_ref().is_none_or(|id| runs.contains_key(id));
        let mut n_prompts = 0;
        let mut time = String::new();
        for record in records {
            if let Some(id) =
                agent.file_session.as_deref().and_then(|path| at(record, path)).and_then(Value::as_str)
                && agent.file_sub.is_some()
            {
                // One file can hold several sessions.
                if session.as_deref() != Some(id) {
                    n_prompts = 0;
                }
                session = Some(id.to_owned());
            }
            let sub = agent.file_sub.as_deref().and_then(|path| at(record, path)).and_then(Value::as_str);
            let sub = match is_sub_file {
                true => Some(file.path.display().to_string()),
                false => sub.map(str::to_owned),
            };
            let owner = if sub.is_some() && parent.is_some() { &parent } else { &session };
            let owner = match (&sub, agent.file_parent.as_deref().and_then(|path| at(record, path))) {
                (Some(_), Some(Value::String(id))) => &Some(id.clone()),
                _ => owner,
            };
            if !runs.is_empty() && !is_wanted(owner) {
                continue;
            }
            let new = sortable(agent.file_time.as_deref().and_then(|path| at(record, path)));
            if !new.is_empty() {
                time = new;
            }
            for event in events(agent, Source::File, record) {
                let sub = event.sub.or_else(|| sub.clone());
                if matches!(event.what, What::Prompt(_)) && sub.is_none() {
                    n_prompts += 1;
                }
                let of_session = owner.as_ref().and_then(|id| runs.get(id));
                let run = of_session.and_then(|runs| {
                    let at = n_prompts.max(1) - 1;
                    runs.get(at).or(runs.last()).copied()
                });
                let step =
                    Step { run: run.unwrap_or(1), time: time.clone(), sub: sub.clone(), what: event.what };
                match sub {
                    Some(_) => subs.push(step),
                    None => main.push(step),
                }
            }
        }
    }
    (merged(main, subs), n_other)
}

/// Both in the order of time; a sub-agent's step has the run of the main conversation at its time.
fn merged(mut main: Vec<Step>, mut subs: Vec<Step>) -> Vec<Step> {
    main.sort_by(|one, other| one.time.cmp(&other.time));
    subs.sort_by(|one, other| one.time.cmp(&other.time));
    let mut merged = Vec::with_capacity(main.len() + subs.len());
    let mut run = main.first().map_or(1, |step| step.run);
    let mut subs = subs.into_iter().peekable();
    for step in main {
        while subs.peek().is_some_and(|sub| sub.time < step.time) {
            merged.extend(subs.next().map(|sub| Step { run, ..sub }));
        }
        run = step.run;
        merged.push(step);
    }
    merged.extend(subs.map(|sub| Step { run, ..sub }));
    merged
}

fn session_of(agent: &Agent, file: &SessionFile, first: &Value) -> Option<String> {
    let by_record = agent.file_session.as_deref().and_then(|path| at(first, path)).and_then(Value::as_str);
    if let Some(id) = by_record {
        return Some(id.to_owned());
    }
    // The first records may say nothing of it.
    file.records.iter().take(40).find_map(|record| {
        events(agent, Source::File, record).into_iter().find_map(|event| match event.what {
            What::Session { id, .. } if !id.is_empty() => Some(id),
            _ => None,
        })
    })
}

fn parent_of(agent: &Agent, file: &SessionFile, first: &Value, is_sub: bool) -> Option<String> {
    if !is_sub {
        return None;
    }
    if agent.file_parent_is_folder {
        return file.path.parent()?.file_name().map(|name| name.to_string_lossy().into_owned());
    }
    at(first, agent.file_parent.as_deref()?)?.as_str().map(str::to_owned)
}

/// The records of a file that are its own: without the history that it repeats of others, each id once.
fn own_records<'a>(agent: &Agent, file: &'a SessionFile, seen: &mut BTreeSet<String>) -> Vec<&'a Value> {
    let begins = agent.file_begins.as_ref().and_then(|[first, number]| {
        let from = at(file.records.first()?, first)?.as_u64()?;
        Some((from, number))
    });
    let is_own = |record: &Value| match &begins {
        Some((from, number)) => {
            at(record, number).and_then(Value::as_u64).is_none_or(|number| number >= *from)
        }
        None => true,
    };
    let mut own: Vec<&Value> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for record in &file.records {
        // A checkpoint that holds messages, in a shorter form than the records before it.
        let inner = at(record, "$set.messages").and_then(Value::as_array).map(Vec::as_slice);
        for record in inner.unwrap_or(std::slice::from_ref(record)) {
            if !is_own(record) {
                continue;
            }
            let id = agent.file_id.as_deref().and_then(|path| at(record, path)).and_then(Value::as_str);
            match id {
                Some(id) if agent.file_id_replaces => match places.get(id).and_then(|at| own.get_mut(*at)) {
                    Some(_) if inner.is_some() => {}
                    Some(place) => *place = record,
                    None => {
                        places.insert(id, own.len());
                        own.push(record);
                    }
                },
                Some(id) if !seen.insert(id.to_owned()) => {}
                _ => own.push(record),
            }
        }
    }
    own
}
