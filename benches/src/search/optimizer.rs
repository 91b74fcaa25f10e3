//! The optimizer of these worlds: what it proposes follows from what its prompt shows, and from dice of its own.
//!
//! It understands the prompts of skillrl, of the Python package skillrl 1.0 and of GEPA, by a few of their headings. It
//! errs as models do: it reads a rule wrongly that one task alone shows, takes a rule of one kind of task for one of
//! all, proposes habits that harm, and repeats what the skill says already.

use crate::search::statement::{ANY_KIND, Mark, Place, Shown, Statement};
use crate::search::world::World;
use serde_json::{Value, json};
use skill_core::random::Dice;
use std::collections::{BTreeMap, BTreeSet};

/// How often a failure despite a rule makes the optimizer say the rule again.
const RESTATES: f64 = 0.3;
/// How often what earlier steps tried in vain is not proposed again.
const HEEDS_MEMORY: f64 = 0.8;
/// The same for an edit that was tried together with others: it may be right.
const HEEDS_BUNDLES: f64 = 0.3;
/// How often a rule that was seen for one kind of task alone is written for all.
const TOO_GENERAL: f64 = 0.4;
/// How often a habit that is seen to spoil a task is taken out.
const SEES_HARM: f64 = 0.7;
/// The most rules of a reply.
const MOST_RULES: usize = 6;
/// What a background says where the kind of a task counts.
pub const KINDS_COUNT: &str = "hint-kinds-count";

/// What a prompt of an analyst shows.
#[derive(Debug, Default)]
struct Sight {
    /// The skill's statements with their lines.
    said: Vec<(Statement, String)>,
    /// What earlier steps tried in vain, with how often that is heeded.
    in_vain: BTreeMap<Statement, f64>,
    wanted: BTreeMap<(String, Place), String>,
    answered: BTreeMap<(String, Place), String>,
    spoiled: BTreeSet<String>,
    /// Whether it is said that the kind of a task counts.
    knows_of_kinds: bool,
}

/// An edit that the optimizer proposes.
#[derive(Debug, Clone)]
struct Proposal {
    op: &'static str,
    target: String,
    content: String,
    support: usize,
}

/// Answers a prompt; `throw` names the call, so that each has dice of its own.
pub fn answer(world: &World, prompt: &str, throw: &str) -> String {
    let dice = Dice::new(world.seed, &["optimizer", world.family.as_str(), throw]);
    if prompt.contains("Your task is to write a new instruction") {
        return new_instruction(world, prompt, dice);
    }
    if let Some(patches) = patches_in(prompt) {
        return merged(&patches);
    }
    if prompt.lines().any(|line| line.starts_with("[0] ")) {
        return ranked(prompt);
    }
    let sight = Sight::of(prompt);
    let edits = propose(world, &sight, dice);
    let edits = edits.into_iter().take(budget_in(prompt)).map(|edit| edit.json());
    let edits: Vec<Value> = edits.collect();
    let patch = json!({"reasoning": "what the tasks show", "edits": edits});
    if prompt.contains("<pair ") {
        let rules: Vec<&str> =
            edits.iter().filter_map(|edit| edit.get("content").and_then(Value::as_str)).collect();
        let (guidance, notes) = (rules.join("\n"), "- Short rules are kept.");
        return json!({"reasoning": "the pairs", "slow_update_content": guidance, "meta_skill_content": notes})
            .to_string();
    }
    if prompt.starts_with("## Current Skill") {
        return patch.to_string();
    }
    json!({"failure_summary": [], "success_patterns": [], "patch": patch}).to_string()
}

impl Proposal {
    fn json(&self) -> Value {
        let Self { op, target, content, support } = self;
        json!({"op": op, "target": target, "content": content, "support_count": support})
    }
}

impl Sight {
    fn of(prompt: &str) -> Self {
        let (before, memory, after) = without_memory(prompt);
        let mut sight = Self { knows_of_kinds: prompt.contains(KINDS_COUNT), ..Self::default() };
        for line in memory.lines().filter(|line| line.starts_with("- Tried")) {
            let heeded = if line.starts_with("- Tried with") { HEEDS_BUNDLES } else { HEEDS_MEMORY };
            for statement in Statement::all_in(line) {
                let known = sight.in_vain.entry(statement).or_insert(heeded);
                *known = known.max(heeded);
            }
        }
        for line in before.lines().chain(after.lines()) {
            let said = Statement::all_in(line).into_iter().map(|said| (said, line.trim().to_owned()));
            sight.said.extend(said);
        }
        for Mark { item, shown } in Mark::all_in(before).into_iter().chain(Mark::all_in(after)) {
            match shown {
                Shown::Wanted(place, value) => {
                    sight.wanted.insert((item, place), value);
                }
                Shown::Answered(place, value) => {
                    sight.answered.insert((item, place), value);
                }
                Shown::Spoiled(name) => {
                    sight.spoiled.insert(name);
                }
            }
        }
        sight
    }

    /// Whether what was tried in vain is left alone this time.
    fn heeds(&self, statement: &Statement, label: &str, dice: Dice) -> bool {
        self.in_vain.get(statement).is_some_and(|heeded| dice.chance(label, *heeded))
    }

    fn says(&self, statement: &Statement) -> bool {
        self.said.iter().any(|(said, _)| said == statement)
    }

    /// The line that says something else of a place.
    fn contradicts(&self, place: &Place, right: &str) -> Option<&str> {
        let is_wrong = |said: &Statement| match said {
            Statement::Rule { kind, field, value } => {
                (*kind == place.kind) && *field == place.field && value != right
            }
            Statement::Harm(_) | Statement::Idle(_) => false,
        };
        self.said.iter().find(|(said, _)| is_wrong(said)).map(|(_, line)| line.as_str())
    }

    /// What failed: each place with its right value and the number of tasks that show it.
    fn missed(&self) -> BTreeMap<(Place, String), usize> {
        let mut missed = BTreeMap::new();
        for ((item, place), value) in &self.wanted {
            let answer = self.answered.get(&(item.clone(), place.clone()));
            if answer.is_some_and(|answer| answer != value) {
                *missed.entry((place.clone(), value.clone())).or_default() += 1;
            }
        }
        missed
    }

    /// Whether tasks of other kinds show other values of a field.
    fn shows_that_kinds_count(&self, field: &str) -> bool {
        let of_field = self.wanted.iter().filter(|((_, place), _)| place.field == field);
        let values: BTreeSet<&String> = of_field.map(|(_, value)| value).collect();
        values.len() > 1
    }
}

/// The edits of a reply, the best supported first.
fn propose(world: &World, sight: &Sight, dice: Dice) -> Vec<Proposal> {
    let numbers = world.numbers;
    let mut edits: Vec<Proposal> = sight
        .said
        .iter()
        .filter(|(said, _)| matches!(said, Statement::Harm(name) if sight.spoiled.contains(name)))
        .filter(|(said, _)| dice.chance(&format!("sees {said}"), SEES_HARM))
        .map(|(_, line)| Proposal { op: "delete", target: line.clone(), content: String::new(), support: 2 })
        .collect();
    let missed = sight.missed();
    let has_failed = !missed.is_empty();
    let mut causes: Vec<((Place, String), usize)> = missed.into_iter().collect();
    // What is seen more often comes first; among equals chance decides.
    causes.sort_by_key(|((place, _), n)| {
        let tie = (dice.unit(&format!("tie {} {}", place.kind, place.field)) * 1000.0) as usize;
        (usize::MAX - n, tie)
    });
    let mut n_rules = 1;
    while n_rules < MOST_RULES && dice.chance(&format!("more {n_rules}"), numbers.more_rules) {
        n_rules += 1;
    }
    for ((place, value), n_seen) in causes {
        if n_rules == 0 {
            break;
        }
        let name = format!("{}:{}", place.kind, place.field);
        let stated = [place.kind.as_str(), ANY_KIND].map(|kind| Statement::rule(kind, &place.field, &value));
        let is_contradicted = sight.contradicts(&place, &value).is_some();
        if !is_contradicted && stated.iter().any(|rule| sight.says(rule)) {
            if dice.chance(&format!("restates {name}"), RESTATES) {
                edits.push(idle(dice, &name));
            }
            continue;
        }
        let right = statement(world, sight, &place, &value, n_seen, dice);
        if sight.heeds(&right, &format!("heeds {name}"), dice) {
            continue;
        }
        n_rules -= 1;
        edits.push(match sight.contradicts(&place, &value) {
            Some(line) => {
                Proposal { op: "replace", target: line.to_owned(), content: right.line(), support: n_seen }
            }
            None => Proposal { op: "append", target: String::new(), content: right.line(), support: n_seen },
        });
    }
    let harm_rate = if has_failed { numbers.harm } else { numbers.harm / 2.0 };
    let harm = world.harm(dice);
    let is_known = sight.says(&harm) || sight.heeds(&harm, "heeds", dice);
    if dice.chance("harms", harm_rate) && !is_known {
        edits.push(Proposal { op: "append", target: String::new(), content: harm.line(), support: 1 });
    }
    edits
}

/// The rule that the optimizer takes the right one to be.
fn statement(
    world: &World,
    sight: &Sight,
    Place { kind, field }: &Place,
    value: &str,
    n_seen: usize,
    dice: Dice,
) -> Statement {
    let misread = world.numbers.misread.powi(i32::try_from(n_seen).unwrap_or(i32::MAX));
    let value = if dice.chance(&format!("misreads {kind} {field}"), misread) { "w0" } else { value };
    let sees_kinds = sight.knows_of_kinds || sight.shows_that_kinds_count(field);
    let is_blunt = !sees_kinds && dice.chance(&format!("blunt {kind} {field}"), TOO_GENERAL);
    Statement::rule(if is_blunt { ANY_KIND } else { kind }, field, value)
}

fn idle(dice: Dice, name: &str) -> Proposal {
    let number = (dice.unit(&format!("idle {name}")) * 1000.0) as usize;
    let content = Statement::Idle(format!("n{number}")).line();
    Proposal { op: "append", target: String::new(), content, support: 1 }
}

/// The prompt before its memory, the memory, and what comes after it.
fn without_memory(prompt: &str) -> (&str, &str, &str) {
    let split = prompt.split_once("\n<memory>\n").and_then(|(before, rest)| {
        rest.split_once("\n</memory>").map(|(memory, after)| (before, memory, after))
    });
    split.unwrap_or((prompt, "", ""))
}

/// `At most 4 edits`, in any case.
fn budget_in(prompt: &str) -> usize {
    let lower = prompt.to_lowercase();
    let number = lower.split("at most ").skip(1).find_map(|rest| {
        let (number, rest) = rest.split_once(' ')?;
        rest.starts_with("edit").then(|| number.parse().ok()).flatten()
    });
    number.unwrap_or(usize::MAX)
}

/// The edits of all patches that a prompt asks to merge.
fn patches_in(prompt: &str) -> Option<Vec<Value>> {
    let lists = prompt.match_indices("\n[").filter_map(|(at, _)| {
        let rest = prompt.get(at + 1..)?;
        serde_json::Deserializer::from_str(rest).into_iter::<Vec<Value>>().next()?.ok()
    });
    let of_patch = |patch: &Value| patch.get("edits").and_then(Value::as_array).cloned();
    lists.map(|list| list.iter().map(of_patch).collect::<Option<Vec<_>>>()).find_map(|edits| {
        edits.filter(|edits| !edits.is_empty()).map(|edits| edits.into_iter().flatten().collect())
    })
}

/// One patch of all edits: what says the same is one edit, and of what contradicts each other the better supported
/// stays.
fn merged(edits: &[Value]) -> String {
    let text = |edit: &Value, key: &str| edit.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let support = |edit: &Value| edit.get("support_count").and_then(Value::as_u64).unwrap_or(1);
    let mut kept: Vec<Value> = Vec::new();
    for edit in edits {
        let content = text(edit, "content");
        let same = kept.iter_mut().find(|kept| {
            text(kept, "content") == content
                && text(kept, "op") == text(edit, "op")
                && (!content.is_empty() || text(kept, "target") == text(edit, "target"))
        });
        if let Some(kept) = same {
            let sum = support(kept) + support(edit);
            if let Some(count) = kept.get_mut("support_count") {
                *count = json!(sum);
            }
            continue;
        }
        let place = |text: &str| match Statement::all_in(text).into_iter().next() {
            Some(Statement::Rule { kind, field, .. }) => Some((kind, field)),
            Some(Statement::Harm(_) | Statement::Idle(_)) | None => None,
        };
        let own = place(&content);
        let rival = kept.iter().position(|kept| own.is_some() && place(&text(kept, "content")) == own);
        match rival.and_then(|at| kept.get_mut(at)) {
            Some(rival) if support(rival) >= support(edit) => {}
            Some(rival) => *rival = edit.clone(),
            None => kept.push(edit.clone()),
        }
    }
    kept.sort_by_key(|edit| std::cmp::Reverse(support(edit)));
    json!({"reasoning": "merged", "edits": kept, "no_change": kept.is_empty()}).to_string()
}

/// The numbers of the edits, the best supported first.
fn ranked(prompt: &str) -> String {
    let mut rows: Vec<(u64, usize)> = prompt
        .lines()
        .filter_map(|line| line.strip_prefix('[')?.split_once("] "))
        .filter_map(|(number, edit)| Some((support_in(edit), number.parse().ok()?)))
        .collect();
    rows.sort_by_key(|(support, number)| (u64::MAX - support, *number));
    let indices: Vec<usize> = rows.into_iter().map(|(_, number)| number).collect();
    json!({"reasoning": "by support", "selected_indices": indices}).to_string()
}

fn support_in(edit: &str) -> u64 {
    let after = ["\"support_count\":", "support="].iter().find_map(|key| edit.split_once(key));
    let digits =
        after.map(|(_, rest)| rest.trim_start().chars().take_while(char::is_ascii_digit).collect::<String>());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(1)
}

/// What GEPA asks for: the whole new text.
fn new_instruction(world: &World, prompt: &str, dice: Dice) -> String {
    let mut parts = prompt.splitn(3, "```");
    let skill = parts.nth(1).unwrap_or_default().trim();
    let mut lines: Vec<String> = skill.lines().map(str::to_owned).collect();
    for Proposal { op, target, content, .. } in propose(world, &Sight::of(prompt), dice) {
        let at = lines.iter().position(|line| line.trim() == target && !target.is_empty());
        match (op, at) {
            ("delete", Some(at)) => {
                lines.remove(at);
            }
            ("replace", Some(at)) => {
                if let Some(line) = lines.get_mut(at) {
                    *line = content;
                }
            }
            ("delete", None) => {}
            _ => lines.push(content),
        }
    }
    format!("```\n{}\n```", lines.join("\n"))
}
