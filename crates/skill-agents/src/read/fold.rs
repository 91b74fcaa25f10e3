//! From steps to calls, each with the reply that made it and whether it brought a skill's text to the model.

use super::steps::Step;
use crate::command::{shows_body, skill_of_path, skills_read};
use crate::event::{Style, What};
use crate::listing::{Offer, offers};
use crate::loads::How;
use crate::rule::text_in;
use crate::table::Agent;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// A call of the model.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) arguments: serde_json::Value,
    pub(super) run: usize,
    pub(super) turn: usize,
    pub(super) sub_turn: Option<usize>,
    /// The skills that it asks for.
    pub(super) targets: Vec<(String, How)>,
    /// It runs a program of the model, in which commands run.
    is_program: bool,
    /// Those whose text came back.
    pub(super) reached: BTreeSet<String>,
    conversation: Option<String>,
    is_open: bool,
    commands: Vec<RunCommand>,
}

#[derive(Debug, Clone, PartialEq)]
struct RunCommand {
    command: String,
    output: String,
    failed: bool,
}

/// What happened, by the steps.
#[derive(Debug, Clone, Default)]
pub(super) struct Folded {
    pub(super) calls: Vec<Call>,
    /// Skills that people called, each with its run and the number of calls before it.
    pub(super) persons: Vec<(usize, String, usize)>,
    pub(super) prompts: Vec<(usize, String)>,
    /// The first listing of the main conversation.
    pub(super) listing: Option<Vec<Offer>>,
    /// Skills that were named one by one.
    pub(super) offers: Vec<Offer>,
    pub(super) replies: usize,
    pub(super) version: Option<String>,
    pub(super) model: Option<String>,
    sub_replies: usize,
    run: usize,
    talks: BTreeMap<Option<String>, Talk>,
}

/// A conversation: the main one, or that of a sub-agent.
#[derive(Debug, Clone, Default)]
struct Talk {
    last_id: Option<String>,
    /// The model is replying, and the next text or call belongs to the same reply.
    is_replying: bool,
    /// Replies have ids, so nothing else begins one.
    has_ids: bool,
}

impl Folded {
    pub(super) fn of(agent: &Agent, steps: &[Step]) -> Self {
        let mut folded = Self::default();
        folded.extend(agent, steps);
        folded
    }

    pub(super) fn extend(&mut self, agent: &Agent, steps: &[Step]) {
        for step in steps {
            self.take(agent, step);
        }
    }

    fn take(&mut self, agent: &Agent, step: &Step) {
        if step.run != self.run {
            self.run = step.run;
            self.talks.values_mut().for_each(|talk| talk.is_replying = false);
        }
        match &step.what {
            What::Session { version, model, .. } => {
                let fill = |place: &mut Option<String>, text: &String| {
                    if place.is_none() && !text.is_empty() {
                        *place = Some(text.clone());
                    }
                };
                fill(&mut self.version, version);
                fill(&mut self.model, model);
            }
            What::Reply { id, model } => {
                if self.model.is_none() && !model.is_empty() {
                    self.model = Some(model.clone());
                }
                let talk = self.talks.entry(step.sub.clone()).or_default();
                talk.has_ids = true;
                if talk.last_id.as_ref() != Some(id) || id.is_empty() {
                    talk.last_id = Some(id.clone());
                    self.count(step);
                }
            }
            What::Text(_) => self.begin(step),
            What::Replied => {
                self.begin(step);
                self.talks.entry(step.sub.clone()).or_default().is_replying = false;
            }
            What::ReplyEnd => self.talks.entry(step.sub.clone()).or_default().is_replying = false,
            What::Summary if step.sub.is_none() => self.replies = self.replies.saturating_sub(1),
            What::Call { id, name, arguments } => {
                self.begin(step);
                self.call(agent, step, id, name, arguments);
            }
            What::Command { command, output, failed } => {
                let ran = RunCommand { command: command.clone(), output: output.clone(), failed: *failed };
                let mut calls = self.calls.iter_mut().rev();
                let open =
                    calls.find(|call| call.is_program && call.is_open && call.conversation == step.sub);
                if let Some(call) = open {
                    call.commands.push(ran);
                }
            }
            What::Result { id, text, failed } => {
                self.talks.entry(step.sub.clone()).or_default().is_replying = false;
                if let Some(call) = self.calls.iter_mut().rev().find(|call| &call.id == id) {
                    call.finish(text.as_deref(), *failed);
                }
            }
            What::Listing { style: Style::Empty, .. } if step.sub.is_none() && self.listing.is_none() => {
                self.listing = Some(Vec::new());
            }
            What::Listing { text, style } if step.sub.is_none() && self.listing.is_none() => {
                self.listing = Some(offers(text, *style)).filter(|offers| !offers.is_empty());
            }
            What::Offer { name, description, path } => {
                if !self.offers.iter().any(|offer| &offer.name == name) {
                    let (description, path) = (description.clone(), path.clone());
                    self.offers.push(Offer { name: name.clone(), description, path });
                }
            }
            What::Person { skill } if step.sub.is_none() => {
                self.persons.push((step.run, skill.clone(), self.calls.len()));
            }
            What::Prompt(text) if step.sub.is_none() => {
                self.talks.entry(None).or_default().is_replying = false;
                self.prompts.push((step.run, text.clone()));
            }
            What::Listing { .. }
            | What::Summary
            | What::Person { .. }
            | What::Prompt(_)
            | What::Failure { .. }
            | What::Answer(_)
            | What::UsedUp(_)
            | What::End
            | What::Usage { .. } => {}
        }
    }

    /// A text or a call begins a reply, unless one is under way or replies have ids.
    fn begin(&mut self, step: &Step) {
        let talk = self.talks.entry(step.sub.clone()).or_default();
        if !talk.has_ids && !talk.is_replying {
            talk.is_replying = true;
            self.count(step);
        }
    }

    fn count(&mut self, step: &Step) {
        match step.sub {
            Some(_) => self.sub_replies += 1,
            None => self.replies += 1,
        }
    }

    fn call(&mut self, agent: &Agent, step: &Step, id: &str, name: &str, arguments: &Value) {
        // Of one call there may be two records, the second with more in it.
        let is_same = |call: &Call| call.id == id && (!agent.ids_differ || call.run == step.run);
        if !id.is_empty() && self.calls.iter().any(is_same) {
            return;
        }
        self.calls.push(Call {
            id: id.to_owned(),
            name: name.to_owned(),
            arguments: arguments.clone(),
            run: step.run,
            turn: self.replies,
            sub_turn: step.sub.is_some().then_some(self.sub_replies),
            targets: targets(agent, name, arguments),
            is_program: agent.tools.program.iter().any(|tool| tool == name),
            reached: BTreeSet::new(),
            conversation: step.sub.clone(),
            is_open: true,
            commands: Vec::new(),
        });
    }
}

/// The skills that a call asks for.
fn targets(agent: &Agent, name: &str, arguments: &Value) -> Vec<(String, How)> {
    let argument = |key: &String| arguments.get(key).map(text_in).unwrap_or_default();
    if let Some(key) = agent.tools.skill.get(name) {
        let skill = argument(key).trim().trim_start_matches('/').to_owned();
        return if skill.is_empty() { Vec::new() } else { vec![(skill, How::Tool)] };
    }
    if let Some(key) = agent.tools.read.get(name) {
        let paths = argument(key);
        return paths.lines().filter_map(skill_of_path).map(|skill| (skill, How::File)).collect();
    }
    if let Some(key) = agent.tools.shell.get(name) {
        let directory = ["workdir", "cwd", "directory"].iter().find_map(|key| arguments.get(*key)?.as_str());
        return skills_read(&argument(key), directory).into_iter().map(|skill| (skill, How::Shell)).collect();
    }
    if agent.tools.program.iter().any(|tool| tool == name)
        && let Value::String(program) = arguments
    {
        return skills_read(program, None).into_iter().map(|skill| (skill, How::Program)).collect();
    }
    Vec::new()
}

impl Call {
    fn finish(&mut self, text: Option<&str>, failed: bool) {
        if !std::mem::take(&mut self.is_open) {
            return;
        }
        // A program can name a skill by a path that it puts together.
        if self.is_program {
            for ran in &self.commands {
                for skill in skills_read(&ran.command, None) {
                    if !self.targets.iter().any(|(known, _)| *known == skill) {
                        self.targets.push((skill, How::Program));
                    }
                }
            }
        }
        let targets = self.targets.clone();
        for (skill, how) in targets {
            let has_reached = match how {
                How::Tool | How::Person => !failed,
                How::File => !failed && text.is_none_or(|text| text.trim().is_empty() || shows_body(text)),
                How::Shell => !failed && text.is_none_or(|text| shows_body(printed(text))),
                How::Program => !failed && self.has_printed(&skill, text.unwrap_or_default()),
            };
            if has_reached {
                self.reached.insert(skill);
            }
        }
    }

    /// True if a program's output has what a command that read the skill printed.
    fn has_printed(&self, skill: &str, text: &str) -> bool {
        let reads: Vec<&RunCommand> = self
            .commands
            .iter()
            .filter(|ran| skills_read(&ran.command, None).iter().any(|name| name == skill))
            .collect();
        if reads.is_empty() {
            return self.commands.is_empty() && shows_body(printed(text));
        }
        reads.iter().any(|ran| {
            let has_body = !ran.failed && shows_body(&ran.output);
            let body = ran.output.lines().rev().filter(|line| line.trim().len() >= 8).take(40);
            has_body && body.into_iter().any(|line| text.contains(line.trim()))
        })
    }
}

/// What a command printed, without the lines that Codex writes before it.
fn printed(text: &str) -> &str {
    match (text.split_once("\nOutput:\n"), text.starts_with("Chunk ID") || text.starts_with("Script ")) {
        (Some((_, printed)), true) => printed,
        (Some((head, printed)), false) if head.len() < 400 && head.contains("exited with code") => printed,
        _ => text,
    }
}
