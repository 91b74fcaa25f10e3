//! The simulated teacher: it reads the prompts of skill banks and answers by rules.
//!
//! # Invariants
//!
//! - The teacher knows the prompts of `skill-bank` by their text alone; only tests depend on that crate. Held by
//!   `the_teacher_does_without_the_bank`.

mod changes;
mod prompts;
mod topic;

use crate::{PROVIDER, reply_to};
use async_trait::async_trait;
use prompts::{Asked, EpisodeText, Scope, SkillText, World};
use serde_json::{Value, json};
use skill_core::Role;
use skill_core::random::Dice;
use skill_llm::{CallCtx, ChatModel, ChatReply, ChatRequest, LlmError, ModelId};
use std::collections::BTreeSet;
use topic::{Counted, Topic, count};

/// The rate of [`SimulatedTeacher::with_flaw_rate`] where nothing else is said.
const DEFAULT_FLAW_RATE: f64 = 0.3;
/// From so many types on that a lesson was seen in, it is one for all tasks.
const MIN_TYPES_OF_GENERAL: usize = 2;

/// Advice that changes nothing, with its title.
const PLATITUDES: &[[&str; 2]] = &[
    ["Stay focused", "Think carefully, and keep the goal in mind."],
    ["Plan ahead", "Make a plan first, and follow it to its end."],
    ["Work with care", "Work calmly and with care: haste helps nobody."],
    ["Learn from setbacks", "Treat a setback as a hint that another approach may help."],
];
/// Advice that is so general that nobody can act on it, with its title.
const OVER_GENERAL: &[[&str; 2]] = &[
    ["Consider everything", "Consider everything that could matter, in whatever task."],
    ["Prepare well", "Prepare whatever you work with as the task may need it."],
    ["Finish the job", "Make sure that the job is done in full before you stop."],
    ["Respect the requirements", "Respect whatever is required, in any task."],
];
/// Titles of advice that does harm.
const HARMFUL_TITLES: &[&str] =
    &["Save turns", "Work quickly", "Keep it simple", "Avoid needless effort", "Trust your instinct"];
/// Reasons for mistakes.
const REASONS: &[&str] = &[
    "The agent acts on what it notices first.",
    "The agent takes the task for done too early.",
    "The agent has no rule for this situation.",
];

/// Every text that it may write into a skill for households.
#[cfg(feature = "weights")]
pub(crate) fn household_texts() -> Vec<String> {
    use skill_envs::alfworld::HouseholdHabit;
    let mut texts: Vec<String> = Vec::new();
    for topic in HouseholdHabit::ALL.iter().copied().map(Topic::Household) {
        texts.extend(topic.titles().into_iter().chain(topic.rules()));
        texts.extend([topic.occasion(), topic.slip()]);
    }
    let advice = PLATITUDES.iter().chain(OVER_GENERAL).flatten();
    let harmful = <HouseholdHabit as crate::played::Lessons>::HARMFUL;
    let fixed = advice.chain(harmful).chain(HARMFUL_TITLES).chain(REASONS);
    texts.extend(fixed.map(|text| (*text).to_owned()));
    // In a text that is shown, a word follows a mark or a blank.
    texts.iter().flat_map(|text| [text.clone(), format!(" {text}")]).collect()
}

/// A teacher that works by rules: it diagnoses each episode and writes skills against what went wrong.
///
/// It understands the built-in prompts of skill banks (general skills, skills of a type, mistakes, merging, changes
/// for weak types) and answers each in JSON. It teaches habits for households and shops, which it finds in the actions of
/// episodes, and forms of answers, which it finds by comparing answers with references; for other tasks it writes
/// platitudes. Lessons of failures and habits behind successes are ordered by the number of episodes that show them; a
/// general skill needs episodes of two types.
///
/// It is sometimes bad, as real models are, and writes a harmful, useless or too general skill in the place of a good
/// one; [`SimulatedTeacher::with_flaw_rate`] sets how often.
#[derive(Debug, Clone)]
pub struct SimulatedTeacher {
    id: ModelId,
    seed: u64,
    flaw_rate: f64,
}

impl SimulatedTeacher {
    /// A teacher; the seed decides on phrasings and flaws.
    pub fn new(seed: u64) -> Self {
        Self { id: ModelId::new(PROVIDER, "simulated-teacher"), seed, flaw_rate: DEFAULT_FLAW_RATE }
    }

    /// The same teacher with this rate of flaws, from 0 (never bad) to 1; 0.3 by default.
    ///
    /// It is the probability that a skill is bad, a third each harmful, useless and too general; and that a merge keeps
    /// what most proposals contradict, or that a change overlooks a harmful skill.
    #[must_use]
    pub fn with_flaw_rate(mut self, flaw_rate: f64) -> Self {
        self.flaw_rate = if flaw_rate.is_finite() { flaw_rate.clamp(0.0, 1.0) } else { DEFAULT_FLAW_RATE };
        self
    }

    fn answer(&self, message: &str) -> String {
        let pen = Pen { dice: Dice::new(self.seed, &[message]), flaw_rate: self.flaw_rate };
        let reply = match Asked::read(message) {
            Some(Asked::Skills { scope, limit, episodes }) => pen.skills(scope, limit, &episodes),
            Some(Asked::Merge { limit, proposals }) => pen.merge(limit, &proposals),
            Some(Asked::Changes { weak, limit, skills, episodes }) => {
                pen.changes(&weak, limit, &skills, &episodes)
            }
            None => return "I do not understand what I am asked to do here.".to_owned(),
        };
        serde_json::to_string_pretty(&reply).expect("a reply serializes")
    }
}

#[async_trait]
impl ChatModel for SimulatedTeacher {
    fn id(&self) -> &ModelId {
        &self.id
    }

    fn parameters(&self) -> Value {
        json!({ "seed": self.seed, "flaw_rate": self.flaw_rate })
    }

    async fn chat(&self, request: &ChatRequest, call: &CallCtx) -> Result<ChatReply, LlmError> {
        if call.cancel.is_cancelled() {
            return Err(LlmError::Cancelled);
        }
        request.sampling.refuse_logprobs(&self.id)?;
        // Later messages are complaints about a reply, and change nothing in what is right.
        let asked = request.messages.iter().find(|message| message.role == Role::User);
        let asked = asked.map(skill_llm::Message::text).unwrap_or_default();
        Ok(reply_to(request, self.answer(&asked)))
    }
}

/// Writes one reply.
#[derive(Debug, Clone, Copy)]
struct Pen {
    dice: Dice,
    flaw_rate: f64,
}

/// A way for a skill to be bad.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    Harmful,
    Useless,
    OverGeneral,
}

impl Pen {
    fn skills(self, scope: Scope, limit: usize, episodes: &[EpisodeText]) -> Value {
        let n_types = episodes.iter().map(|episode| &episode.task_type).collect::<BTreeSet<_>>().len();
        let is_for_all = |counted: &Counted<'_>| {
            scope != Scope::General || counted.task_types.len() >= MIN_TYPES_OF_GENERAL.min(n_types)
        };
        let (is_mistake, world) = (scope == Scope::Mistakes, World::of(episodes));
        let mut titles = BTreeSet::new();
        let mut entries = Vec::new();
        for Counted { topic, .. } in count(episodes).into_iter().filter(is_for_all).take(limit) {
            let name = topic.name();
            let skill = match self.flaw(name) {
                Some(flaw) => self.flawed(flaw, name, world, is_mistake, &titles),
                None => self.taught(&topic, is_mistake, &titles),
            };
            entries.extend(skill.map(|skill| {
                titles.insert(skill.title().to_lowercase());
                skill.entry()
            }));
        }
        if entries.is_empty() {
            let flaw = self.flaw("nothing to say").unwrap_or(Flaw::Useless);
            let skill = self.flawed(flaw, "nothing to say", world, is_mistake, &titles);
            entries.extend(skill.map(|skill| skill.entry()));
        }
        if is_mistake { json!({ "mistakes": entries }) } else { json!({ "skills": entries }) }
    }

    /// One of each group of proposals that give the same advice, those with most proposals first.
    fn merge(self, limit: usize, proposals: &[SkillText]) -> Value {
        let is_mistake = proposals.first().is_some_and(|proposal| proposal.is_mistake);
        let world = World::of_skills(proposals);
        let mut groups: Vec<Group<'_>> = Vec::new();
        for (number, proposal) in (1_usize..).zip(proposals) {
            let said = said_by(proposal, world);
            match groups.iter_mut().find(|group| group.said == said) {
                Some(group) => group.numbers.push(number),
                None => groups.push(Group { proposal, said, numbers: vec![number] }),
            }
        }
        groups.sort_by_key(|group| std::cmp::Reverse(group.numbers.len()));
        let is_outvoted = |group: &Group<'_>| {
            let contrary = groups.iter().find(|other| group.said.contradicts(&other.said));
            contrary.is_some_and(|other| other.numbers.len() >= group.numbers.len() && !group.said.is_for())
        };
        let is_kept = |group: &&Group<'_>| {
            let label = format!("keep {}", group.proposal.title());
            !is_outvoted(group) || self.dice.chance(&label, self.flaw_rate)
        };
        let entries = groups.iter().filter(is_kept).take(limit).map(|group| {
            let mut entry = group.proposal.entry();
            if let Some(fields) = entry.as_object_mut() {
                fields.insert("from".to_owned(), json!(group.numbers));
            }
            entry
        });
        let entries: Vec<Value> = entries.collect();
        if is_mistake { json!({ "mistakes": entries }) } else { json!({ "skills": entries }) }
    }

    fn flaw(self, label: &str) -> Option<Flaw> {
        if !self.dice.chance(&format!("flawed {label}"), self.flaw_rate) {
            return None;
        }
        let flaws = [Flaw::Harmful, Flaw::Useless, Flaw::OverGeneral];
        self.dice.pick(&format!("flaw {label}"), &flaws).copied()
    }

    /// A skill on a topic; `None` if all its titles are in use.
    fn taught(self, topic: &Topic, is_mistake: bool, in_use: &BTreeSet<String>) -> Option<SkillText> {
        let label = topic.name();
        let rule = self.dice.pick(&format!("rule {label}"), &topic.rules()).cloned()?;
        if is_mistake {
            let reason = self.dice.pick(&format!("reason {label}"), REASONS).copied()?.to_owned();
            let slip = capitalised(&topic.slip());
            let is_new = !in_use.contains(&slip.to_lowercase());
            return is_new.then_some(SkillText { fields: [slip, reason, rule], is_mistake });
        }
        let mut titles = topic.titles();
        titles.retain(|title| !in_use.contains(&title.to_lowercase()));
        let title = self.dice.pick(&format!("title {label}"), &titles).cloned()?;
        Some(SkillText { fields: [title, rule, capitalised(&topic.occasion())], is_mistake })
    }

    /// A bad skill; `None` if all its titles are in use.
    fn flawed(
        self,
        flaw: Flaw,
        label: &str,
        world: World,
        is_mistake: bool,
        in_use: &BTreeSet<String>,
    ) -> Option<SkillText> {
        let is_new = |title: &str| !in_use.contains(&title.to_lowercase());
        let label = format!("bad {label}");
        let (title, rule) = match flaw {
            Flaw::Harmful if !world.harmful().is_empty() => {
                let titles: Vec<&str> =
                    HARMFUL_TITLES.iter().copied().filter(|title| is_new(title)).collect();
                (*self.dice.pick(&label, &titles)?, *self.dice.pick(&label, world.harmful())?)
            }
            Flaw::Harmful | Flaw::Useless | Flaw::OverGeneral => {
                let all = if flaw == Flaw::OverGeneral { OVER_GENERAL } else { PLATITUDES };
                let new: Vec<[&str; 2]> = all.iter().copied().filter(|[title, _]| is_new(title)).collect();
                let [title, rule] = *self.dice.pick(&label, &new)?;
                (title, rule)
            }
        };
        let fields = if is_mistake {
            [
                format!("The agent neglects this: {}", title.to_lowercase()),
                REASONS.first()?.to_string(),
                rule.to_owned(),
            ]
        } else {
            [title.to_owned(), rule.to_owned(), "At any time".to_owned()]
        };
        Some(SkillText { fields, is_mistake })
    }
}

impl SkillText {
    /// Its title, or what a mistake is.
    fn title(&self) -> &str {
        let [title, ..] = &self.fields;
        title
    }

    /// As a reply holds it.
    fn entry(&self) -> Value {
        let [first, second, third] = &self.fields;
        if self.is_mistake {
            json!({ "description": first, "why_it_happens": second, "how_to_avoid": third })
        } else {
            json!({ "title": first, "principle": second, "when_to_apply": third })
        }
    }
}

/// Proposals that give the same advice.
struct Group<'p> {
    proposal: &'p SkillText,
    said: Said,
    /// Their numbers.
    numbers: Vec<usize>,
}

/// What a skill says, so that two wordings of the same can be told from two skills.
#[derive(Debug, PartialEq, Eq)]
enum Said {
    /// About habits and forms of answers, each with `+` or `-` behind it, and codes.
    Things(BTreeSet<String>),
    /// Nothing that can be told; the text in lower case.
    Text(String),
}

impl Said {
    fn contradicts(&self, other: &Self) -> bool {
        let (Self::Things(own), Self::Things(others)) = (self, other) else { return false };
        let contrary = |thing: &String| match (thing.strip_suffix('+'), thing.strip_suffix('-')) {
            (Some(thing), _) => others.contains(&format!("{thing}-")),
            (None, Some(thing)) => others.contains(&format!("{thing}+")),
            (None, None) => false,
        };
        own.iter().any(contrary)
    }

    fn is_for(&self) -> bool {
        matches!(self, Self::Things(things) if things.iter().any(|thing| thing.ends_with('+')))
    }
}

fn said_by(skill: &SkillText, world: World) -> Said {
    let text = skill.shown();
    let things = world.said_in(&text);
    if things.is_empty() { Said::Text(text.to_lowercase()) } else { Said::Things(things) }
}

fn capitalised(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}

#[cfg(test)]
mod tests;
