//! Skills of a bank: what they say, in which tier, in which versions, and what is known of their worth.

pub(crate) mod written;

use serde::{Deserialize, Serialize};
use skill_core::canonical::{canonical_json, hex_sha256};
use skill_core::{ItemId, SkillPartId, Usage, estimate_tokens};
use std::fmt;

/// Where a skill belongs, which decides the tasks that it is shown to.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Tier {
    /// Shown to tasks of all types.
    General,
    /// Shown to tasks of this type.
    TaskType(String),
    /// Mistakes to avoid, shown to tasks of all types.
    Mistakes,
}

impl Tier {
    /// The tier of a type of task.
    pub fn of_type(task_type: impl Into<String>) -> Self {
        Self::TaskType(task_type.into())
    }

    /// The type of task that the tier is limited to.
    pub fn task_type(&self) -> Option<&str> {
        match self {
            Self::TaskType(task_type) => Some(task_type),
            Self::General | Self::Mistakes => None,
        }
    }

    /// How the ids of new skills of this tier begin: `gen`, `err`, or the first three letters of the type.
    pub fn id_prefix(&self) -> String {
        match self {
            Self::General => "gen".to_owned(),
            Self::Mistakes => "err".to_owned(),
            Self::TaskType(task_type) => {
                let letters: String =
                    task_type.chars().filter(char::is_ascii_alphanumeric).take(3).collect::<String>();
                if letters.is_empty() { "task".to_owned() } else { letters.to_ascii_lowercase() }
            }
        }
    }
}

impl fmt::Display for Tier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::General => f.write_str("general"),
            Self::TaskType(task_type) => f.write_str(task_type),
            Self::Mistakes => f.write_str("mistakes"),
        }
    }
}

/// What a skill says.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Content {
    /// Something to do.
    Principle {
        /// A short name.
        title: String,
        /// What to do.
        principle: String,
        /// When to do it; empty where it is not said.
        #[serde(default)]
        when_to_apply: String,
    },
    /// Something to avoid.
    Mistake {
        /// What goes wrong.
        description: String,
        /// Why it happens; empty where it is not said.
        #[serde(default)]
        why_it_happens: String,
        /// What to do instead.
        #[serde(default)]
        how_to_avoid: String,
    },
    /// An attempt at a task as it was recorded, of which no teacher has made a skill.
    Episode {
        /// The task, which is never shown its own episode.
        item: ItemId,
        /// The goal of the task.
        goal: String,
        /// `success` or `failure`.
        outcome: String,
        /// The steps, in lines.
        steps: String,
    },
}

impl Content {
    /// Something to do: a short name, what to do, and when; the last is empty where it is not said.
    pub fn principle(
        title: impl Into<String>,
        principle: impl Into<String>,
        when_to_apply: impl Into<String>,
    ) -> Self {
        Self::Principle {
            title: title.into(),
            principle: principle.into(),
            when_to_apply: when_to_apply.into(),
        }
    }

    /// The title of a principle, the description of a mistake, the goal of an episode.
    pub fn title(&self) -> &str {
        match self {
            Self::Principle { title, .. } => title,
            Self::Mistake { description, .. } => description,
            Self::Episode { goal, .. } => goal,
        }
    }

    /// The texts in the order of their fields.
    pub fn texts(&self) -> [&str; 3] {
        match self {
            Self::Principle { title, principle, when_to_apply } => [title, principle, when_to_apply],
            Self::Mistake { description, why_it_happens, how_to_avoid } => {
                [description, why_it_happens, how_to_avoid]
            }
            Self::Episode { goal, outcome, steps, .. } => [goal, outcome, steps],
        }
    }

    /// True for an episode as it was recorded, which is not a skill.
    pub fn is_episode(&self) -> bool {
        matches!(self, Self::Episode { .. })
    }

    /// Estimated tokens of its texts.
    pub fn tokens(&self) -> u64 {
        self.texts().into_iter().map(estimate_tokens).sum()
    }

    /// The SHA-256 of the content as canonical JSON, in 64 hexadecimal digits.
    pub fn sha256(&self) -> String {
        let value = serde_json::to_value(self).expect("a skill serializes");
        hex_sha256(canonical_json(&value).as_bytes())
    }
}

/// Names one version of a skill: `gen_003`, or `gen_003@2` from the second version on.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SkillRef {
    /// The skill.
    pub skill: SkillPartId,
    /// The number of its version, from 1.
    pub version: u32,
}

impl SkillRef {
    /// A version of a skill.
    pub fn new(skill: SkillPartId, version: u32) -> Self {
        Self { skill, version }
    }

    /// The id under which rollouts record that this version was shown.
    pub fn part_id(&self) -> SkillPartId {
        SkillPartId::new(self.to_string())
    }

    /// The version that [`part_id`](Self::part_id) names.
    pub fn of_part(part: &SkillPartId) -> Self {
        let named = part.as_str().rsplit_once('@').and_then(|(skill, version)| {
            let version = version.parse().ok().filter(|version| *version > 1)?;
            Some(Self::new(SkillPartId::new(skill), version))
        });
        named.unwrap_or_else(|| Self::new(part.clone(), 1))
    }
}

impl fmt::Display for SkillRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            0 | 1 => write!(f, "{}", self.skill),
            version => write!(f, "{}@{version}", self.skill),
        }
    }
}

impl Serialize for SkillRef {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SkillRef {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::of_part(&SkillPartId::deserialize(deserializer)?))
    }
}

skill_core::named_enum! {
    /// What becomes of a version.
    pub enum State {
        /// Proposed, and not measured yet or without a decision.
        Candidate = "candidate",
        /// Being measured.
        Trial = "trial",
        /// Shown to agents.
        Active = "active",
        /// Shown to nobody; it can be restored.
        Retired = "retired",
    }
}

skill_core::named_enum! {
    /// Who a skill, or a change of it, comes from.
    pub enum SkillProvenance {
        /// A teacher that read trajectories.
        Distilled = "distilled",
        /// A teacher that read failures of a weak type.
        Evolved = "evolved",
        /// A rollout, as it was recorded.
        Recorded = "recorded",
        /// A file of another system.
        Imported = "imported",
        /// A person.
        Person = "person",
    }
}

/// What a version was made from.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct Evidence {
    /// The tasks whose trajectories the teacher read; no trial of this skill may use them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub items: Vec<ItemId>,
    /// The trajectories among them, by their ids.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub trajectories: Vec<String>,
    /// The SHA-256 of the teacher's prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prompt_sha256: Option<String>,
    /// The teacher, as `provider/model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub teacher: Option<String>,
    /// How many calls the teacher was asked in for the reply that this skill is a part of.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// The tokens of these calls.
    #[serde(skip_serializing_if = "is_nothing", deserialize_with = "written::usage")]
    pub usage: Usage,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands the field by reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

fn is_nothing(usage: &Usage) -> bool {
    *usage == Usage::default()
}

/// What a skill is worth, measured on rollouts with and without it.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Utility {
    /// The difference of the success rates with and without the skill, stratified by task, in `-1..=1`; that of mean
    /// scores where the trial compared them.
    pub difference: f64,
    /// The interval of the difference at 95 %.
    pub interval: [f64; 2],
    /// Successes and rollouts with the skill.
    pub with: [u64; 2],
    /// Successes and rollouts without it.
    pub without: [u64; 2],
    /// Tasks in which some rollouts succeeded and some failed, or scored differently: only these tell anything.
    pub informative_groups: u64,
}

/// One version of a skill.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Version {
    /// Its number, from 1.
    pub number: u32,
    /// What it says.
    pub content: Content,
    /// What became of it.
    pub state: State,
    /// Who it comes from.
    pub source: SkillProvenance,
    /// The versions that it was made from, of this skill or of others.
    pub parents: Vec<SkillRef>,
    /// What it was made from.
    pub evidence: Evidence,
    /// The round in which it was proposed.
    pub round: u32,
    /// Its worth by the last measurement; `None` if it was never measured.
    pub utility: Option<Utility>,
}

/// A skill with all of its versions.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Skill {
    /// Its id, which no other skill of the bank ever has.
    pub id: SkillPartId,
    /// Its tier.
    pub tier: Tier,
    /// A person keeps it as it is: no process retires or revises it.
    pub is_pinned: bool,
    /// Its versions, by number.
    pub versions: Vec<Version>,
}

impl Skill {
    /// The version that agents are shown.
    pub fn active(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.state == State::Active)
    }

    /// The newest version.
    pub fn latest(&self) -> Option<&Version> {
        self.versions.last()
    }

    /// The version that represents the skill: the active one, else the newest.
    pub fn current(&self) -> Option<&Version> {
        self.active().or_else(|| self.latest())
    }

    /// A version by its number.
    pub fn version(&self, number: u32) -> Option<&Version> {
        self.versions.iter().find(|version| version.number == number)
    }

    /// What became of the skill: active if one of its versions is, else the state of the newest one.
    pub fn state(&self) -> State {
        match self.active() {
            Some(_) => State::Active,
            None => self.latest().map_or(State::Candidate, |version| version.state),
        }
    }

    pub(crate) fn version_mut(&mut self, number: u32) -> Option<&mut Version> {
        self.versions.iter_mut().find(|version| version.number == number)
    }
}

/// A skill as retrieval and agents see it: one version, with what its rank depends on.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ViewedSkill {
    /// The version that is shown.
    pub id: SkillRef,
    /// Its tier.
    pub tier: Tier,
    /// What it says.
    pub content: Content,
    /// Its worth; `None` if it was never measured.
    pub utility: Option<Utility>,
}

impl ViewedSkill {
    /// The lower bound of the skill's worth, -1 for one that was never measured.
    pub fn lower_bound(&self) -> f64 {
        self.utility.map_or(-1.0, |utility| utility.interval[0])
    }
}
