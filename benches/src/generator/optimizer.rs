//! The optimizer: what it proposes follows from what its prompt shows, and from its faults.

pub use super::prompt::leaks;

use super::environment::{Environment, N_EFFECTS};
use super::patches;
use super::prompt::{Form, Prompt};
use super::stream::Stream;
use super::text::Line;
use serde_json::{Value, json};
use skill_core::random::Dice;
use std::collections::{BTreeMap, BTreeSet};

/// Idle habits that it may propose.
const N_IDLE: usize = 5_000;
/// Misread values, none of which is right.
const N_MISREAD: usize = 3;
/// How often a rule that failed although the skill has it is said again in other words.
const RESTATES: f64 = 0.3;
/// How often it writes something where it sees no cause at all.
const GUESSES: f64 = 0.5;
/// How often a reader of solved tasks proposes a habit without effect.
const PRAISES: f64 = 0.4;
/// How often an edit in a diffuse environment is of the kind that helps most.
const GOOD_IN_DIFFUSE: f64 = 0.25;
/// An anchor that is in no skill.
const MISSED_ANCHOR: &str = "- (as the skill says)";

/// What an edit does.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Op {
    Add(Line),
    Delete(Line),
    Replace(Line, Line),
}

/// An edit of a reply.
#[derive(Debug, Clone)]
struct Edit {
    op: Op,
    support: usize,
    /// The tasks that the optimizer says it is for.
    named: Vec<String>,
}

impl Edit {
    fn line(&self) -> &Line {
        match &self.op {
            Op::Add(line) | Op::Delete(line) | Op::Replace(_, line) => line,
        }
    }
}

/// The reply to a request; equal requests differ by their number.
pub fn reply(environment: &Environment, user: &str, number: u32) -> String {
    if let Some(reply) = patches::reply(user) {
        return reply;
    }
    let prompt = Prompt::read(environment, user);
    let mut said: Vec<String> = prompt.lines().iter().map(ToString::to_string).collect();
    said.sort();
    let failures: Vec<&str> = prompt.failures().map(|(id, _)| id.as_str()).collect();
    let (failures, said) = (failures.join(" "), said.concat());
    let dice = if environment.parameters.is_optimizer_fixed {
        Dice::new(environment.seed, &["fixed optimizer", &failures, &said])
    } else {
        Dice::new(environment.seed, &["optimizer", user, &number.to_string()])
    };
    let mut stream = Stream::new(dice);
    let edits = Analyst { environment, prompt: &prompt, stream: &mut stream }.edits();
    match prompt.form {
        Form::Text => new_text(environment, &prompt, &edits),
        Form::Edits => as_json(environment, &prompt, &edits, &mut stream),
    }
}

/// A reader of failures.
struct Analyst<'a> {
    environment: &'a Environment,
    prompt: &'a Prompt,
    stream: &'a mut Stream,
}

/// What made tasks fail: a field in a kind of tasks.
struct Cause {
    field: usize,
    kind: usize,
    tasks: Vec<String>,
}

impl Analyst<'_> {
    fn edits(mut self) -> Vec<Edit> {
        let most = self.environment.parameters.most_edits.min(self.prompt.most);
        let mut edits = if self.prompt.failures().next().is_none() {
            self.of_solved_tasks()
        } else if self.environment.parameters.diffuse > 0.0 {
            self.diffuse()
        } else {
            self.of_failures()
        };
        edits.truncate(most);
        edits
    }

    fn failed_ids(&self) -> Vec<String> {
        self.prompt.failures().map(|(id, _)| id.clone()).collect()
    }

    /// Some of the failures, as an edit names them that is for none of them.
    fn any_names(&mut self) -> Vec<String> {
        let ids = self.failed_ids();
        ids.into_iter().filter(|_| self.stream.chance(0.5)).collect()
    }

    fn n_edits(&mut self) -> usize {
        let parameters = &self.environment.parameters;
        let mut n = 1;
        while n < parameters.most_edits.min(self.prompt.most) && self.stream.chance(parameters.more_edits) {
            n += 1;
        }
        n
    }

    fn harm(&mut self) -> Line {
        Line::Harm(self.stream.below(self.environment.parameters.n_harms))
    }

    fn idle(&mut self) -> Line {
        Line::Idle(N_EFFECTS + self.stream.below(N_IDLE))
    }

    /// True if it leaves alone what failed before.
    fn heeds(&mut self, line: &Line) -> bool {
        let blame = self.prompt.memory.get(line).copied().unwrap_or_default();
        self.stream.chance(blame * self.environment.parameters.heeds)
    }

    /// Readers of solved tasks propose habits.
    fn of_solved_tasks(&mut self) -> Vec<Edit> {
        let line = if self.stream.chance(0.5 * self.environment.parameters.harmful) {
            self.harm()
        } else if self.stream.chance(PRAISES) {
            self.idle()
        } else {
            return Vec::new();
        };
        if self.prompt.says(&line) { Vec::new() } else { vec![add(line, 1, Vec::new())] }
    }

    fn diffuse(&mut self) -> Vec<Edit> {
        let parameters = &self.environment.parameters;
        let (harmful, answers) = (parameters.harmful, parameters.answers);
        let ids = self.failed_ids();
        let mut edits: Vec<Edit> = Vec::new();
        for _ in 0..self.n_edits() {
            let throw = self.stream.unit();
            let line = if throw < harmful {
                self.harm()
            } else if throw < harmful + answers {
                Line::Answer(ids.get(self.stream.below(ids.len())).cloned().unwrap_or_default())
            } else if throw < harmful + answers + GOOD_IN_DIFFUSE {
                let field = self.stream.below(self.environment.parameters.weights.len());
                Line::Rule { field, kind: None, value: "v0".to_owned() }
            } else {
                Line::Idle(self.stream.below(N_EFFECTS))
            };
            if !self.prompt.says(&line) && edits.iter().all(|edit| *edit.line() != line) {
                edits.push(add(line, 1, ids.clone()));
            }
        }
        edits
    }

    fn of_failures(&mut self) -> Vec<Edit> {
        let mut edits = self.harms_seen();
        let (mut causes, n_puzzling) = self.causes();
        let n_failures = self.prompt.failures().count();
        let parameters = &self.environment.parameters;
        let has_solved = self.prompt.shown.values().any(|shown| !shown.has_failed());
        let helped = if has_solved { parameters.solved_helps } else { 0.0 };
        let worse = 1.0 + n_failures.saturating_sub(4) as f64 * parameters.dilution;
        let rates = Rates {
            harmful: parameters.harmful * (1.0 - 0.5 * helped) * worse,
            idle: parameters.idle * worse,
            answers: parameters.answers,
            repeats: parameters.repeats,
            misread: parameters.misread,
            too_general: parameters.too_general * (1.0 - helped),
            worse,
        };
        let (companion, kinds_of) = (parameters.companion, kinds_of(&causes));
        let mut done: BTreeSet<usize> = BTreeSet::new();
        causes.reverse();
        for _ in 0..self.n_edits() {
            if let Some(edit) = self.bad_edit(&rates) {
                edits.extend(edit);
                continue;
            }
            while let Some(cause) = causes.pop() {
                if done.contains(&cause.field) && !self.is_typed(cause.field) {
                    continue;
                }
                let field = cause.field;
                match self.rule(cause, &rates, &kinds_of) {
                    Proposed::Rule(edit) => {
                        done.insert(field);
                        edits.push(edit);
                        break;
                    }
                    Proposed::Restated(edit) => edits.extend(edit),
                    Proposed::Nothing => {}
                }
            }
        }
        if n_puzzling == n_failures && edits.is_empty() && self.stream.chance(GUESSES) {
            let idle = self.idle();
            edits.push(add(idle, 1, Vec::new()));
        }
        if self.stream.chance(companion) {
            let harm = self.harm();
            if !self.prompt.says(&harm) && !self.heeds(&harm) {
                edits.push(add(harm, 1, Vec::new()));
            }
        }
        edits
    }

    /// Deletions of harmful lines, the more probable the more tasks they are seen to spoil.
    fn harms_seen(&mut self) -> Vec<Edit> {
        let mut edits = Vec::new();
        for line in self.prompt.lines() {
            let Line::Harm(harm) = line else { continue };
            let spoiled = self.prompt.failures().filter(|(_, shown)| shown.harms.contains(&harm));
            let named: Vec<String> = spoiled.map(|(id, _)| id.clone()).collect();
            let unseen = 0.5_f64.powi(i32::try_from(named.len()).unwrap_or(i32::MAX));
            if self.stream.chance(1.0 - unseen) {
                edits.push(Edit { op: Op::Delete(line), support: named.len(), named });
            }
        }
        edits
    }

    /// Causes with the tasks that show them, the commonest first, and failures without a visible one.
    fn causes(&mut self) -> (Vec<Cause>, usize) {
        let mut causes: BTreeMap<(usize, usize), Vec<String>> = BTreeMap::new();
        let mut n_puzzling = 0;
        for (id, shown) in self.prompt.failures() {
            let seen = self.causes_of(id, &shown.wrong);
            n_puzzling += usize::from(seen.is_empty());
            for cause in seen {
                causes.entry(cause).or_default().push(id.clone());
            }
        }
        let of_field = |field: usize| -> usize {
            causes.iter().filter(|((other, _), _)| *other == field).map(|(_, tasks)| tasks.len()).sum()
        };
        let mut ranked: Vec<(usize, f64, Cause)> = Vec::new();
        for ((field, kind), tasks) in &causes {
            let n = if self.is_typed(*field) { tasks.len() } else { of_field(*field) };
            let cause = Cause { field: *field, kind: *kind, tasks: tasks.clone() };
            ranked.push((n, self.stream.unit(), cause));
        }
        ranked.sort_by(|(n, tie, _), (other_n, other_tie, _)| other_n.cmp(n).then(tie.total_cmp(other_tie)));
        (ranked.into_iter().map(|(_, _, cause)| cause).collect(), n_puzzling)
    }

    /// Which rules a failed task seems to lack.
    fn causes_of(&mut self, id: &str, wrong: &[usize]) -> Vec<(usize, usize)> {
        let Some(task) = self.environment.task(id) else { return Vec::new() };
        let skill = self.prompt.lines();
        let mut seen = Vec::new();
        for at in wrong {
            let Some(field) = task.needs.get(*at).copied() else { continue };
            if self.stream.chance(self.environment.parameters.insight) {
                let known = self.environment.known(&skill, task, field);
                // A rule that is there and does not work: what it needs is the cause.
                let is_known = known.as_deref() == Some(self.environment.value(field, task.kind));
                let needed = self.environment.prerequisites.get(field).copied().flatten();
                seen.push((needed.filter(|_| is_known).unwrap_or(field), task.kind));
            }
            if self.environment.parameters.first_only {
                break;
            }
        }
        seen
    }

    fn is_typed(&self, field: usize) -> bool {
        self.environment.is_typed.get(field).copied().unwrap_or_default()
    }

    /// An edit that helps no other task; the inner `None` is one that the skill or the memory prevents.
    fn bad_edit(&mut self, rates: &Rates) -> Option<Option<Edit>> {
        let throw = self.stream.unit();
        let support = 1 + self.stream.below(2);
        if throw < rates.harmful {
            let harm = self.harm();
            let named = self.any_names();
            let is_new = !self.prompt.says(&harm) && !self.heeds(&harm);
            return Some(is_new.then(|| add(harm, support, named)));
        }
        if throw < rates.harmful + rates.idle {
            let named = self.any_names();
            return Some(Some(add(self.idle(), support, named)));
        }
        if throw < rates.harmful + rates.idle + rates.answers {
            let ids = self.failed_ids();
            let id = ids.get(self.stream.below(ids.len())).cloned()?;
            return Some(Some(add(Line::Answer(id.clone()), 1, vec![id])));
        }
        if self.stream.chance(rates.repeats)
            && let Some((line, _)) = self.prompt.skill.first()
        {
            let named = self.any_names();
            return Some(Some(add(line.clone(), support, named)));
        }
        None
    }

    /// The rule that the optimizer takes to be missing.
    fn rule(&mut self, cause: Cause, rates: &Rates, kinds_of: &BTreeMap<usize, usize>) -> Proposed {
        let Cause { field, kind, tasks } = cause;
        let parameters = &self.environment.parameters;
        let is_typed = self.is_typed(field);
        let n_kinds = kinds_of.get(&field).copied().unwrap_or_default();
        let misread = rates.misread.powi(i32::try_from(tasks.len()).unwrap_or(i32::MAX)) * rates.worse;
        let value = if self.stream.chance(misread) {
            format!("w{}", self.stream.below(N_MISREAD))
        } else {
            self.environment.value(field, kind).to_owned()
        };
        let of_kind = if parameters.n_kinds == 1 {
            None
        } else if is_typed {
            (n_kinds > 1 || !self.stream.chance(rates.too_general)).then_some(kind)
        } else {
            (n_kinds == 1 && self.stream.chance(parameters.too_narrow)).then_some(kind)
        };
        let support = tasks.len();
        let named = if self.stream.chance(parameters.names_right) { tasks } else { self.any_names() };
        let rule = Line::Rule { field, kind: of_kind, value };
        if self.prompt.says(&rule) {
            let restates = self.stream.chance(RESTATES);
            return Proposed::Restated(restates.then(|| add(self.idle(), support, named)));
        }
        if self.heeds(&rule) {
            return Proposed::Nothing;
        }
        let rival = self.prompt.skill.iter().map(|(line, _)| line).find(|line| {
            matches!(line, Line::Rule { field: said, kind: of, .. } if *said == field && *of == of_kind)
        });
        let op = match rival {
            Some(rival) => Op::Replace(rival.clone(), rule),
            None => Op::Add(rule),
        };
        Proposed::Rule(Edit { op, support, named })
    }
}

/// How often a reply errs, with what its prompt shows.
struct Rates {
    harmful: f64,
    idle: f64,
    answers: f64,
    repeats: f64,
    misread: f64,
    too_general: f64,
    worse: f64,
}

/// What comes of a cause.
enum Proposed {
    Rule(Edit),
    Restated(Option<Edit>),
    Nothing,
}

fn kinds_of(causes: &[Cause]) -> BTreeMap<usize, usize> {
    let mut kinds = BTreeMap::new();
    for cause in causes {
        *kinds.entry(cause.field).or_default() += 1;
    }
    kinds
}

fn add(line: Line, support: usize, named: Vec<String>) -> Edit {
    Edit { op: Op::Add(line), support, named }
}

/// A line of a skill as the optimizer writes it.
fn text_of(environment: &Environment, line: &Line) -> String {
    let answer = match line {
        Line::Answer(id) => environment.task(id).map(|task| environment.reference(task)),
        Line::Rule { .. } | Line::Harm(_) | Line::Idle(_) => None,
    };
    line.text(&answer.unwrap_or_default())
}

/// The whole text, in which every edit finds its place.
fn new_text(environment: &Environment, prompt: &Prompt, edits: &[Edit]) -> String {
    let mut lines: Vec<String> = prompt.text.lines().map(str::to_owned).collect();
    for Edit { op, .. } in edits {
        let at =
            |lines: &[String], said: &Line| lines.iter().position(|line| Line::all_in(line).contains(said));
        match op {
            Op::Add(line) if at(&lines, line).is_none() => lines.push(text_of(environment, line)),
            Op::Add(_) => {}
            Op::Delete(line) => {
                if let Some(at) = at(&lines, line) {
                    lines.remove(at);
                }
            }
            Op::Replace(old, new) => match at(&lines, old).and_then(|at| lines.get_mut(at)) {
                Some(line) => *line = text_of(environment, new),
                None => lines.push(text_of(environment, new)),
            },
        }
    }
    format!("```\n{}\n```", lines.join("\n"))
}

/// Edits as skillrl and SkillOpt read them.
fn as_json(environment: &Environment, prompt: &Prompt, edits: &[Edit], stream: &mut Stream) -> String {
    let mut anchor = |line: &Line| -> String {
        let said = prompt.skill.iter().find(|(said, _)| said == line).map(|(_, text)| text.as_str());
        let is_missed = stream.chance(environment.parameters.anchor_misses);
        said.filter(|_| !is_missed).unwrap_or(MISSED_ANCHOR).to_owned()
    };
    let json = |edit: &Edit| -> Value {
        let (op, target, content) = match &edit.op {
            Op::Add(line) => ("append", String::new(), text_of(environment, line)),
            Op::Delete(line) => ("delete", anchor(line), String::new()),
            Op::Replace(old, new) => ("replace", anchor(old), text_of(environment, new)),
        };
        json!({
            "op": op, "target": target, "content": content,
            "support_count": edit.support, "for": edit.named,
        })
    };
    let edits: Vec<Value> = edits.iter().map(json).collect();
    let patch = json!({"reasoning": "what the tasks show", "edits": edits});
    json!({"failure_summary": [], "success_patterns": [], "patch": patch}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generator::{Variant, target};

    /// An environment whose optimizer errs in nothing.
    fn perfect(seed: u64) -> Environment {
        let mut environment = Environment::sample(seed, Variant::Base, 0);
        let parameters = &mut environment.parameters;
        let rates = [
            &mut parameters.harmful,
            &mut parameters.idle,
            &mut parameters.answers,
            &mut parameters.companion,
            &mut parameters.misread,
            &mut parameters.too_general,
            &mut parameters.repeats,
            &mut parameters.anchor_misses,
            &mut parameters.noise,
            &mut parameters.luck,
        ];
        rates.into_iter().for_each(|rate| *rate = 0.0);
        (parameters.insight, parameters.more_edits, parameters.names_right) = (1.0, 1.0, 1.0);
        parameters.is_graded = false;
        environment
    }

    /// Failures of the first training tasks under this skill, as each system shows them.
    fn prompts(environment: &Environment, skill: &str) -> [String; 3] {
        let [(_, train), ..] = environment.splits();
        let rows: Vec<[String; 4]> = train
            .iter()
            .map(|task| {
                let question = environment.question(task);
                let answer = target::answer(environment, skill, &question, 0);
                [task.id.clone(), question, environment.reference(task), answer]
            })
            .filter(|[_, _, reference, answer]| reference != answer)
            .take(4)
            .collect();
        let block = |[id, question, reference, answer]: &[String; 4]| {
            format!(
                "<trajectory index=\"1\" id=\"{id}\">\nQuestion: {question}\nReference answer: {reference}\nAgent's answer: {answer}\n</trajectory>\n"
            )
        };
        let blocks: String = rows.iter().map(block).collect();
        [
            format!(
                "# Current skill\n\n<skill>\n{skill}\n</skill>\n\n# Edit budget\n\nAt most 4 edits.\n\n# Failed trajectories (4)\n\n{blocks}"
            ),
            format!(
                "## Current Skill\n{skill}\n\n## Edit Budget\nProduce at most L=4 edits.\n\n## Failed Trajectories (4 total)\n{blocks}"
            ),
            format!(
                "I provided:\n```\n{skill}\n```\n\n```\n{blocks}\n```\n\nYour task is to write a new instruction for the assistant."
            ),
        ]
    }

    #[test]
    fn every_system_is_told_the_same_rules() {
        for seed in 0..20 {
            let environment = perfect(seed);
            let skill = environment.initial_skill();
            let lines = prompts(&environment, &skill).map(|prompt| {
                let said: BTreeSet<Line> =
                    Line::all_in(&reply(&environment, &prompt, 0)).into_iter().collect();
                let old: BTreeSet<Line> = Line::all_in(&skill).into_iter().collect();
                said.difference(&old).map(|line| matches!(line, Line::Rule { .. })).collect::<Vec<_>>()
            });
            assert!(lines.iter().flatten().all(|is_rule| *is_rule), "{seed}");
            assert!(lines.iter().all(|lines| (1..=4).contains(&lines.len())), "{seed}: {lines:?}");
        }
    }

    #[test]
    fn rules_of_a_faultless_optimizer_help() {
        let mut gains = Vec::new();
        for seed in 0..8 {
            let environment = perfect(seed);
            let mut skill = environment.initial_skill();
            let before = environment.expected(&skill);
            for number in 0..20 {
                let [.., prompt] = prompts(&environment, &skill);
                let reply = reply(&environment, &prompt, number);
                skill = reply.trim_matches('`').trim().to_owned() + "\n";
            }
            gains.push(environment.expected(&skill) - before);
        }
        let mean = gains.iter().sum::<f64>() / gains.len() as f64;
        assert!(mean > 0.3, "{gains:?}");
    }

    #[test]
    fn edits_name_their_tasks_and_nothing_is_shown_of_other_splits() {
        let environment = perfect(3);
        let [prompt, ..] = prompts(&environment, &environment.initial_skill());
        let reply: Value = serde_json::from_str(&reply(&environment, &prompt, 0)).unwrap();
        let edits = reply["patch"]["edits"].as_array().unwrap();
        assert!(edits.iter().all(|edit| !edit["for"].as_array().unwrap().is_empty()), "{edits:?}");
        assert_eq!(leaks(&environment, &prompt), 0);
        assert_eq!(leaks(&environment, "Answer: v001/f00=v3"), 1);
    }
}
