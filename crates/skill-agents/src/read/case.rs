//! A case as a whole: session files first, streams for what only they show.

use super::fold::{Call, Folded};
use super::steps::{Step, Stream, of_files, of_stream};
use super::{ReadOptions, base_name};
use crate::event::What;
use crate::home::SessionFile;
use crate::listing::Offer;
use crate::loads::{Failed, How, Load, Loads, NotVisible, Prompt, RunUsage, ToolCall, TriggerRow};
use crate::outcome::TriggerOutcome;
use crate::table::{Agent, OverBudget};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn read(agent: &Agent, streams: &[String], files: &[SessionFile], options: &ReadOptions) -> Loads {
    let streams: Vec<Stream> =
        streams.iter().enumerate().map(|(idx, text)| of_stream(agent, text, idx + 1)).collect();
    let mut runs: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (idx, stream) in streams.iter().enumerate() {
        if let Some(session) = &stream.session {
            runs.entry(session.clone()).or_default().push(idx + 1);
        }
    }
    let (file_steps, n_other_files) = of_files(agent, files, &runs);
    let stream_steps: Vec<Step> = streams.iter().flat_map(|stream| stream.steps.clone()).collect();
    let in_stream = Folded::of(agent, &stream_steps);
    let in_files = Folded::of(agent, &file_steps);
    let has_files = in_files.replies > 0 || !in_files.calls.is_empty() || !in_files.persons.is_empty();
    let folded = if has_files { with_stream(agent, in_files, in_stream) } else { in_stream };
    let failed = failures(agent, &streams, &stream_steps, options);
    let (mut loads, mut loads_that_failed) = loads(&folded);
    failed_calls_by_people(agent, &folded, options, &loads, &mut loads_that_failed);
    loads.sort_by_key(|load| (load.run, load.how != How::Person));
    let listing = listing(agent, &folded);
    let own = |offer: &&Offer| !is_bundled(agent, offer);
    let names = |offers: Vec<&Offer>| {
        let names: BTreeSet<String> = offers.into_iter().map(|offer| offer.name.clone()).collect();
        names.into_iter().collect::<Vec<_>>()
    };
    let offered: Option<Vec<&Offer>> = listing.as_ref().map(|offers| offers.iter().filter(own).collect());
    Loads {
        agent: agent.name.clone(),
        version: folded.version.clone(),
        model: folded.model.clone(),
        skills_offered_without_description: offered.as_ref().map(|offers| names(undescribed(offers))),
        skills_offered_by_the_agent_itself: listing
            .as_ref()
            .map(|offers| names(offers.iter().filter(|offer| is_bundled(agent, offer)).collect())),
        trigger: trigger(&offered, &loads, &loads_that_failed, !failed.is_empty(), options),
        skills_offered: offered.map(names),
        loads,
        loads_that_failed,
        prompts: folded.prompts.iter().map(|(run, text)| Prompt { run: *run, text: text.clone() }).collect(),
        tools: folded.calls.iter().map(tool).collect(),
        replies: folded.replies,
        failed: Some(failed).filter(|failed| !failed.is_empty()),
        sessions: streams.iter().map(|stream| stream.session.clone()).collect(),
        usage: usage(if stream_steps.is_empty() { &file_steps } else { &stream_steps })
            .or_else(|| usage(&file_steps)),
        not_visible: not_visible(agent, has_files, listing.is_some()),
        lines_passed_over: n_other_files + streams.iter().map(|stream| stream.n_other).sum::<usize>(),
    }
}

/// What session files show, with the calls that only a stream has.
fn with_stream(agent: &Agent, mut files: Folded, stream: Folded) -> Folded {
    files.version = files.version.or(stream.version);
    files.model = stream.model.or(files.model);
    if files.offers.is_empty() {
        files.offers = stream.offers;
    }
    if files.listing.is_none() {
        files.listing = stream.listing;
    }
    // Runs whose session file is missing.
    let seen: BTreeSet<usize> =
        files.calls.iter().map(|call| call.run).chain(files.prompts.iter().map(|(run, _)| *run)).collect();
    let mut place = 0;
    for call in stream.calls {
        match files.calls.iter_mut().position(|known| known.id == call.id) {
            Some(at) => {
                if let Some(known) = files.calls.get_mut(at) {
                    known.reached.extend(call.reached);
                }
                place = at + 1;
            }
            None if !agent.ids_differ || !seen.contains(&call.run) => {
                files.calls.insert(place.min(files.calls.len()), call);
                place += 1;
            }
            None => {}
        }
    }
    files
}

fn tool(call: &Call) -> ToolCall {
    ToolCall {
        run: call.run,
        turn: call.turn,
        name: call.name.clone(),
        subagent: call.sub_turn.is_some(),
        arguments: call.arguments.clone(),
    }
}

fn loads(folded: &Folded) -> (Vec<Load>, Vec<Load>) {
    let (mut loads, mut failed, mut seen) = (Vec::new(), Vec::new(), BTreeSet::new());
    let mut persons = folded.persons.iter().peekable();
    for (idx, call) in folded.calls.iter().enumerate() {
        while let Some((run, skill, _)) = persons.next_if(|(_, _, before)| *before <= idx) {
            loads.push(by_person(*run, skill));
        }
        for (skill, how) in &call.targets {
            let key = (call.sub_turn.is_some(), base_name(skill).to_owned());
            let reached = call.reached.contains(skill);
            let load = Load {
                skill: skill.clone(),
                how: *how,
                run: call.run,
                turn: call.turn,
                subagent: call.sub_turn.is_some(),
                subagent_turn: call.sub_turn,
                again: reached && seen.contains(&key),
            };
            if reached {
                seen.insert(key);
                loads.push(load);
            } else {
                failed.push(load);
            }
        }
    }
    loads.extend(persons.map(|(run, skill, _)| by_person(*run, skill)));
    (loads, failed)
}

fn by_person(run: usize, skill: &str) -> Load {
    Load {
        skill: skill.to_owned(),
        how: How::Person,
        run,
        turn: 0,
        subagent: false,
        subagent_turn: None,
        again: false,
    }
}

/// A prompt that calls a known skill by name, in a run in which no person's call reached the model.
fn failed_calls_by_people(
    agent: &Agent,
    folded: &Folded,
    options: &ReadOptions,
    loads: &[Load],
    failed: &mut Vec<Load>,
) {
    let offers = folded.listing.iter().flatten().chain(&folded.offers).map(|offer| offer.name.clone());
    let asked = loads.iter().chain(failed.iter()).map(|load| load.skill.clone());
    let known: BTreeSet<String> = offers.chain(asked).chain(options.skills.iter().cloned()).collect();
    for (run, prompt) in &folded.prompts {
        let Some(rest) = prompt.trim().trim_matches('"').strip_prefix(agent.person_prefix.as_str()) else {
            continue;
        };
        let name = rest.split_whitespace().next().unwrap_or_default();
        let has_loaded = loads.iter().any(|load| load.run == *run && load.how == How::Person);
        if known.contains(name) && !has_loaded {
            failed.insert(0, by_person(*run, name));
        }
    }
}

/// The listing, and the skills that the agent found and whose descriptions did not fit into it.
fn listing(agent: &Agent, folded: &Folded) -> Option<Vec<Offer>> {
    let Some(listing) = &folded.listing else {
        return Some(folded.offers.clone()).filter(|offers| !offers.is_empty());
    };
    let mut listing = listing.clone();
    if let Some(budget) = agent.budget
        && budget.over == OverBudget::NameOnly
    {
        let is_listed = |offer: &Offer| listing.iter().any(|listed| listed.name == offer.name);
        // They are listed in this order until the room is used up; what is left out before that, or where there is
        // room for all, is hidden by its front matter.
        let n_surely_fit = budget.total_chars / budget.description_chars.max(1);
        let last = folded.offers.iter().rposition(|offer| is_listed(offer) && !is_bundled(agent, offer));
        let from = match folded.offers.len() <= n_surely_fit {
            true => folded.offers.len(),
            false => last.map_or(0, |last| last + 1),
        };
        let is_too_long = |offer: &Offer| {
            budget.too_long == Some(OverBudget::NotListed)
                && offer.description.chars().count() > budget.description_chars
        };
        let names_only =
            folded.offers.iter().skip(from).filter(|offer| !is_listed(offer) && !is_too_long(offer));
        let names_only = names_only.map(|offer| Offer { description: String::new(), ..offer.clone() });
        let names_only: Vec<Offer> = names_only.collect();
        listing.extend(names_only);
    }
    Some(listing)
}

/// The offers of which no listing has a description.
fn undescribed<'a>(offers: &[&'a Offer]) -> Vec<&'a Offer> {
    let is_described =
        |name: &str| offers.iter().any(|offer| offer.name == name && !offer.description.is_empty());
    offers.iter().copied().filter(|offer| !is_described(&offer.name)).collect()
}

fn is_bundled(agent: &Agent, offer: &Offer) -> bool {
    let by_path = |path: &str| agent.bundled_paths.iter().any(|part| path.contains(part.as_str()));
    // A skill of the project may have the name of one of the agent's own.
    let is_of_project = offer.path.contains(&format!("{}/", agent.project_skills));
    by_path(&offer.path) || (agent.bundled.contains(&offer.name) && !is_of_project)
}

fn trigger(
    offered: &Option<Vec<&Offer>>,
    loads: &[Load],
    tried: &[Load],
    has_failed: bool,
    options: &ReadOptions,
) -> BTreeMap<String, TriggerRow> {
    let asked = loads.iter().chain(tried).map(|load| base_name(&load.skill));
    let listed = offered.iter().flatten().map(|offer| base_name(&offer.name));
    let names: BTreeSet<&str> =
        asked.chain(listed).chain(options.skills.iter().map(String::as_str)).collect();
    let row = |name: &str| {
        let of_name = |load: &&Load| base_name(&load.skill) == name;
        let mine: Vec<&Load> = loads.iter().filter(of_name).collect();
        let is_tried = tried.iter().filter(of_name).any(|load| load.how != How::Person);
        let in_listing = |with_description: bool| {
            let has = |offer: &&&Offer| {
                base_name(&offer.name) == name && (!with_description || !offer.description.is_empty())
            };
            offered.as_ref().map(|offers| offers.iter().any(|offer| has(&offer)))
        };
        let (is_offered, is_described) = (in_listing(false), in_listing(true));
        let outcome = if mine.iter().any(|load| load.how != How::Person) {
            TriggerOutcome::Triggered
        } else if !mine.is_empty() {
            TriggerOutcome::CalledByPerson
        } else if is_tried {
            TriggerOutcome::Attempted
        } else if has_failed {
            TriggerOutcome::Failed
        } else if is_offered == Some(false) {
            TriggerOutcome::NotOffered
        } else if is_described == Some(false) {
            TriggerOutcome::OfferedWithoutDescription
        } else {
            TriggerOutcome::NotTriggered
        };
        TriggerRow { offered: is_offered, described: is_described, outcome }
    };
    names.into_iter().map(|name| (name.to_owned(), row(name))).collect()
}

/// The runs that failed, as their streams say it.
fn failures(agent: &Agent, streams: &[Stream], steps: &[Step], options: &ReadOptions) -> Vec<Failed> {
    let mut failed = Vec::new();
    for (idx, stream) in streams.iter().enumerate() {
        let run = idx + 1;
        let end = RunEnd::of(steps.iter().filter(|step| step.run == run));
        let silent = |why: &str| Some((why.to_owned(), None, String::new()));
        let fault = match end.fault {
            Some(fault) => Some(fault),
            None if stream.n_records == 0 => silent("the program printed no records"),
            None if options.is_stopped && run == streams.len() => None,
            None if !end.has_ended => silent("the stream has no end"),
            None if agent.empty_reply_fails && !end.has_replied => silent("the model did not reply"),
            None => None,
        };
        failed.extend(fault.map(|(why, status, message)| Failed { run, why, status, message }));
    }
    failed
}

/// How a run ended, by its stream.
#[derive(Debug, Default)]
pub(super) struct RunEnd {
    /// Why it failed, with the status of the model's server and the words of the program.
    pub(super) fault: Option<(String, Option<u16>, String)>,
    /// The program said that it came to its end.
    pub(super) has_ended: bool,
    /// The model replied.
    pub(super) has_replied: bool,
}

impl RunEnd {
    pub(super) fn of<'a>(steps: impl Iterator<Item = &'a Step>) -> Self {
        let mut end = Self::default();
        for step in steps.filter(|step| step.sub.is_none()) {
            match &step.what {
                What::Failure { why, status, text } => {
                    end.fault = Some(described(why.clone(), *status, text.clone()));
                }
                // The model answered after all.
                What::Text(_) | What::Call { .. } | What::Reply { .. } => {
                    (end.fault, end.has_replied) = (None, true);
                }
                What::End => end.has_ended = true,
                _ => {}
            }
        }
        end
    }
}

fn described(why: Option<String>, status: Option<u16>, text: String) -> (String, Option<u16>, String) {
    let status = status.or_else(|| status_in(&text));
    let why = match (why, status) {
        (Some(why), _) => why,
        (None, Some(status)) => format!("model server answered {status}"),
        (None, None) => "the agent reported an error".to_owned(),
    };
    (why, status, text)
}

/// The HTTP status in a message: the first number from 400 to 599 that is a word of its own.
fn status_in(text: &str) -> Option<u16> {
    let words = text.split(|sign: char| !sign.is_ascii_alphanumeric());
    words
        .filter(|word| word.len() == 3)
        .filter_map(|word| word.parse().ok())
        .find(|code| (400..600).contains(code))
}

pub(super) fn usage(steps: &[Step]) -> Option<RunUsage> {
    let mut by_run: BTreeMap<usize, RunUsage> = BTreeMap::new();
    for step in steps {
        let What::Usage { tokens, cost, adds } = &step.what else { continue };
        let entry = by_run.entry(step.run).or_default();
        let before = if *adds { *entry } else { RunUsage::default() };
        *entry = before.and(&RunUsage { tokens: *tokens, cost: *cost });
    }
    let mut runs = by_run.into_values();
    let first = runs.next()?;
    Some(runs.fold(first, |sum, run| sum.and(&run)))
}

impl RunUsage {
    fn and(mut self, other: &Self) -> Self {
        self.tokens += other.tokens;
        self.cost = match (self.cost, other.cost) {
            (Some(one), Some(other)) => Some(one + other),
            (one, other) => one.or(other),
        };
        self
    }
}

/// What the records cannot show: with session files, the listing alone where no record has it.
fn not_visible(agent: &Agent, has_files: bool, has_listing: bool) -> Vec<NotVisible> {
    let hidden = agent.not_visible.iter().filter(|name| match name.as_str() {
        "skills_offered" => !has_listing,
        "refusals" => true,
        _ => !has_files,
    });
    hidden.map(|name| NotVisible(name.clone())).collect()
}
