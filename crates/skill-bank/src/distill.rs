//! Distillation: a teacher turns episodes into proposals of skills.
//!
//! The [`DistillPlan`] decides before the first call which episodes each call reads. Chunks of a tier are asked at the
//! same time, then merged. If neither a reply nor its repair can be read, that call proposes nothing and a note says so;
//! if this happens to every call, [`distill`] fails. It returns all proposals or an error, never a part of them;
//! [`apply`] puts them into a bank.
//!
//! # Invariants
//!
//! - Every episode that a plan promises to a tier reaches one of its calls, and a distillation gives all of its
//!   proposals or an error. Held by `no_plan_misses_an_episode`,
//!   `a_dead_teacher_is_an_error_and_nothing_is_proposed`.
//! - A skill that a teacher proposes passes the linter before it is a proposal, and its id comes from the bank.
//!   Held by `a_skill_with_the_goal_of_a_task_is_refused`.

mod plan;
mod prompts;
mod proposal;
mod raw;
mod reply;
mod similar;
mod teacher;

pub use plan::{DistillPlan, PlannedCall};
pub use prompts::{PromptLimits, TeacherPrompt, TeacherPrompts};
pub use proposal::{Admit, Applied, Change, LeftOut, LeftOutReason, Proposal, apply, normalised};
pub use raw::raw_episodes;
pub use teacher::Teacher;

pub(crate) use prompts::content_text;
pub(crate) use proposal::changeable;
pub(crate) use reply::{content, entries, name_of};
pub(crate) use similar::neighbours;
pub(crate) use teacher::{Asked, Read};

use crate::episode::TrainEpisode;
use crate::lint::{Forbidden, lint_skill};
use crate::retrieve::whole_text;
use crate::skill::{Content, Evidence, SkillProvenance, Tier};
use plan::merge_groups;
use proposal::joined;
use serde_json::Value;
use skill_core::{ItemId, Usage};
use skill_llm::{CallCtx, LlmError, PromptError};
use std::collections::{BTreeMap, BTreeSet};
use teacher::ordered;
use thiserror::Error;

/// Sizes and limits of a distillation.
#[derive(Debug, Clone, PartialEq)]
pub struct DistillSettings {
    /// The most episodes of one call.
    pub episodes_per_call: usize,
    /// The most tokens of the episodes of one call, about.
    pub max_prompt_tokens: u64,
    /// The most tokens of one episode, about: of a longer one the last steps are shown.
    pub max_episode_tokens: u64,
    /// The most episodes that are used, chosen evenly over types and outcomes; `None` uses all.
    pub max_episodes: Option<usize>,
    /// The fewest and the most general skills that are requested.
    pub general_skills: [usize; 2],
    /// The same for the skills of each type.
    pub task_skills: [usize; 2],
    /// The same for mistakes.
    pub mistakes: [usize; 2],
    /// The most characters of a skill; a longer one is refused.
    pub max_skill_chars: usize,
    /// How many lists one call merges, at least 2.
    pub merge_width: usize,
    /// From this cosine on two skills of a tier say the same, where an embedding model is given.
    pub duplicate_cosine: f64,
}

impl Default for DistillSettings {
    fn default() -> Self {
        Self {
            episodes_per_call: 20,
            max_prompt_tokens: 24_000,
            max_episode_tokens: 1_500,
            max_episodes: None,
            general_skills: [8, 12],
            task_skills: [4, 6],
            mistakes: [8, 12],
            max_skill_chars: 800,
            merge_width: 10,
            duplicate_cosine: 0.85,
        }
    }
}

impl DistillSettings {
    fn limits(&self, tier: &Tier) -> PromptLimits {
        let [min_skills, max_skills] = match tier {
            Tier::General => self.general_skills,
            Tier::TaskType(_) => self.task_skills,
            Tier::Mistakes => self.mistakes,
        };
        let (max_chars, max_episode_tokens) = (self.max_skill_chars, self.max_episode_tokens);
        PromptLimits { min_skills, max_skills, max_chars, max_episode_tokens }
    }
}

/// Why a distillation or a round of evolution proposes nothing.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum DistillError {
    /// There is nothing to read.
    #[error("there are no episodes to distil or to show")]
    NoEpisodes,
    /// The plan was made from other episodes.
    #[error("the plan does not fit the episodes: it was made from others")]
    OtherEpisodes,
    /// The replies and their repairs hold no list of skills; this is the first of them.
    #[error("{place}: the teacher's reply cannot be used, and neither can its repair: {problem}")]
    BrokenReply {
        /// The call.
        place: String,
        /// What is wrong.
        problem: String,
        /// The beginning of the last reply.
        reply: String,
    },
    /// A model cannot be reached, or refuses.
    #[error("{place}: the model cannot answer")]
    Model {
        /// The call.
        place: String,
        /// Its error.
        source: LlmError,
    },
    /// A replaced prompt cannot be rendered.
    #[error(transparent)]
    Prompt(#[from] PromptError),
}

/// What a distillation came to.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Distillation {
    /// The skills that are proposed: general ones, those of each type, mistakes. A tier may have none, which a note says.
    pub proposals: Vec<Proposal>,
    /// What the teacher wrote and is not proposed, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// What was wrong with replies, one sentence each, with their calls.
    pub notes: Vec<String>,
    /// How many calls were made, repairs included.
    pub calls: u64,
    /// Their tokens.
    pub usage: Usage,
}

/// Distils episodes into proposals.
///
/// `plan` was made from the same episodes and settings. Every proposal passes the linter with `forbidden`. Calls are
/// made at places inside of `call`, such as `distill / general / chunk 1`.
///
/// # Errors
///
/// See [`DistillError`]; nothing is proposed then.
pub async fn distill(
    episodes: &[TrainEpisode],
    plan: &DistillPlan,
    settings: &DistillSettings,
    teacher: &Teacher<'_>,
    forbidden: &Forbidden,
    call: &CallCtx,
) -> Result<Distillation, DistillError> {
    if plan.calls.is_empty() {
        return Err(DistillError::NoEpisodes);
    }
    if !plan.calls.iter().all(|planned| planned.is_of(episodes)) {
        return Err(DistillError::OtherEpisodes);
    }
    let call = call.child("distill");
    let job = Job { episodes, settings, teacher, forbidden, call: &call };
    let mut totals = Totals::default();
    let inputs: Vec<&PlannedCall> = plan.calls.iter().collect();
    let chunks = ordered(teacher.workers, inputs, async |planned| readable(job.chunk(planned).await)).await?;
    // One unreadable reply costs its own skills; when every reply is unreadable, the teacher itself is at fault.
    if chunks.iter().all(Result::is_err) {
        return Err(chunks.into_iter().find_map(Result::err).unwrap_or(DistillError::NoEpisodes));
    }
    let mut tiers: BTreeMap<&Tier, Vec<Vec<Draft>>> = BTreeMap::new();
    for (planned, output) in plan.calls.iter().zip(chunks) {
        tiers.entry(&planned.tier).or_default().push(totals.count_readable(output));
    }
    let mut level = 1;
    while tiers.values().any(|lists| lists.len() > 1) {
        tiers = job.merge_level(tiers, level, &mut totals).await?;
        level += 1;
    }
    let mut proposals = Vec::new();
    for (tier, lists) in tiers {
        let drafts: Vec<Draft> = lists.into_iter().flatten().collect();
        let drafts = job.without_duplicates(tier, drafts, &mut totals).await?;
        if drafts.is_empty() {
            let n_left_out = totals.left_out.iter().filter(|left_out| left_out.tier == *tier).count();
            totals.notes.push(format!(
                "the teacher proposed nothing usable for the tier `{tier}`; {n_left_out} of its skills were left out"
            ));
        }
        proposals.extend(drafts.into_iter().map(|Draft { content, evidence }| Proposal {
            change: Change::Add { tier: tier.clone(), content },
            source: SkillProvenance::Distilled,
            evidence,
        }));
    }
    let Totals { left_out, notes, calls, usage } = totals;
    Ok(Distillation { proposals, left_out, notes, calls, usage })
}

/// A skill that is not proposed yet.
#[derive(Debug, Clone)]
struct Draft {
    content: Content,
    evidence: Evidence,
}

/// What one call came to.
struct CallOutput {
    drafts: Vec<Draft>,
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
    asked: Asked,
}

#[derive(Default)]
struct Totals {
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
    calls: u64,
    usage: Usage,
}

impl Totals {
    /// Like [`count`](Self::count), but an unreadable reply becomes a note and no drafts.
    fn count_readable(&mut self, output: Result<CallOutput, DistillError>) -> Vec<Draft> {
        match output {
            Ok(output) => self.count(output),
            Err(broken) => {
                self.notes.push(broken.to_string());
                Vec::new()
            }
        }
    }

    fn count(&mut self, output: CallOutput) -> Vec<Draft> {
        self.left_out.extend(output.left_out);
        self.notes.extend(output.notes);
        self.calls = self.calls.saturating_add(output.asked.calls);
        self.usage += output.asked.usage;
        output.drafts
    }
}

/// Separates an unreadable reply, which costs one call, from errors that end the distillation.
fn readable<T>(outcome: Result<T, DistillError>) -> Result<Result<T, DistillError>, DistillError> {
    match outcome {
        Err(broken @ DistillError::BrokenReply { .. }) => Ok(Err(broken)),
        outcome => outcome.map(Ok),
    }
}

/// What all calls of a distillation share.
struct Job<'a> {
    episodes: &'a [TrainEpisode],
    settings: &'a DistillSettings,
    teacher: &'a Teacher<'a>,
    forbidden: &'a Forbidden,
    call: &'a CallCtx,
}

impl Job<'_> {
    async fn chunk(&self, planned: &PlannedCall) -> Result<CallOutput, DistillError> {
        let read: Vec<&TrainEpisode> =
            planned.places.iter().filter_map(|place| self.episodes.get(*place)).collect();
        let tier = &planned.tier;
        let messages = self.teacher.prompts.distill(tier, &read, self.settings.limits(tier))?;
        let call = self.call.child(tier).child(format_args!("chunk {}", planned.chunk));
        let items: BTreeSet<&ItemId> = read.iter().map(|episode| &episode.item).collect();
        let evidence = Evidence {
            items: items.into_iter().cloned().collect(),
            trajectories: read.iter().map(|episode| episode.id.clone()).collect(),
            ..Evidence::default()
        };
        self.ask(tier, messages, &call, |_| evidence.clone()).await
    }

    /// One level of merges: each group of lists of a tier becomes one list.
    ///
    /// If a merge yields no readable reply or no usable skill even after the repair, its group keeps its drafts: they
    /// passed the linter.
    async fn merge_level<'t>(
        &self,
        tiers: BTreeMap<&'t Tier, Vec<Vec<Draft>>>,
        level: usize,
        totals: &mut Totals,
    ) -> Result<BTreeMap<&'t Tier, Vec<Vec<Draft>>>, DistillError> {
        let mut groups: Vec<(&Tier, String, Vec<Draft>, bool)> = Vec::new();
        for (tier, lists) in tiers {
            let sizes = merge_groups(lists.len(), self.settings.merge_width);
            let mut lists = lists.into_iter();
            for (size, number) in sizes.into_iter().zip(1..) {
                let drafts: Vec<Draft> = lists.by_ref().take(size).flatten().collect();
                let drafts = distinct(tier, drafts, &mut totals.left_out);
                let needs_merge = size > 1 && drafts.len() > 1;
                groups.push((tier, format!("merge {level}.{number}"), drafts, needs_merge));
            }
        }
        let inputs: Vec<usize> = (0..groups.len()).collect();
        let outputs = ordered(self.teacher.workers, inputs, |at| {
            let group = groups.get(at);
            async move {
                match group {
                    Some((tier, place, drafts, true)) => {
                        readable(self.merge(tier, place, drafts).await).map(Some)
                    }
                    Some(_) | None => Ok(None),
                }
            }
        })
        .await?;
        let mut merged: BTreeMap<&Tier, Vec<Vec<Draft>>> = BTreeMap::new();
        for ((tier, place, drafts, _), output) in groups.into_iter().zip(outputs) {
            let list = output.map(|output| totals.count_readable(output));
            let list = match list {
                Some(list) if list.is_empty() => {
                    let place = self.call.child(tier).child(place).place;
                    let n_drafts = drafts.len();
                    totals.notes.push(format!(
                        "{place}: no merged skill can be used; its {n_drafts} inputs are kept"
                    ));
                    drafts
                }
                Some(list) => list,
                None => drafts,
            };
            merged.entry(tier).or_default().push(list);
        }
        Ok(merged)
    }

    async fn merge(&self, tier: &Tier, place: &str, drafts: &[Draft]) -> Result<CallOutput, DistillError> {
        let contents: Vec<&Content> = drafts.iter().map(|draft| &draft.content).collect();
        let messages = self.teacher.prompts.merge(tier, &contents, self.settings.limits(tier))?;
        let call = self.call.child(tier).child(place);
        self.ask(tier, messages, &call, |entry| {
            let from = entry.get("from").and_then(Value::as_array).into_iter().flatten();
            let named: Vec<&Draft> = from
                .filter_map(Value::as_u64)
                .filter_map(|number| drafts.get(usize::try_from(number).ok()?.checked_sub(1)?))
                .collect();
            // A skill that does not say what it was made from may have been made from all.
            let sources = if named.is_empty() { drafts.iter().collect() } else { named };
            joined(sources.into_iter().map(|draft| &draft.evidence))
        })
        .await
    }

    async fn ask(
        &self,
        tier: &Tier,
        messages: Vec<skill_llm::Message>,
        call: &CallCtx,
        evidence_of: impl Fn(&Value) -> Evidence,
    ) -> Result<CallOutput, DistillError> {
        let limit = self.settings.limits(tier).max_skills;
        let (list, asked) = self.teacher.ask(messages, call, &|reply| self.read(tier, reply, limit)).await?;
        let with_call = |mut evidence: Evidence| {
            evidence.prompt_sha256 = Some(asked.prompt_sha256.clone());
            evidence.teacher = Some(asked.teacher.clone());
            evidence.calls = evidence.calls.saturating_add(asked.calls);
            evidence.usage += asked.usage;
            evidence
        };
        let drafts = list
            .skills
            .into_iter()
            .map(|(content, entry)| Draft { content, evidence: with_call(evidence_of(&entry)) });
        let notes = asked.repaired.iter().chain(&list.notes);
        let notes = notes.map(|note| format!("{}: {note}", call.place)).collect();
        Ok(CallOutput { drafts: drafts.collect(), left_out: list.left_out, notes, asked })
    }

    /// Reads the reply of a chunk or a merge.
    fn read(&self, tier: &Tier, reply: &str, limit: usize) -> Read<ReadList> {
        let Some(found) = entries(reply) else {
            let problem =
                if reply.trim().is_empty() { "it is empty" } else { "it contains no list of objects" };
            return Read::Broken(problem.to_owned());
        };
        let mut list = ReadList { notes: found.notes, ..ReadList::default() };
        for entry in found.values {
            let name = name_of(&entry);
            let content = match content(tier, &entry) {
                Ok(content) => content,
                Err(reason) => {
                    list.left_out.push(LeftOut::new(tier, name, reason));
                    continue;
                }
            };
            let findings = lint_skill(&content, self.forbidden, self.settings.max_skill_chars);
            if !findings.is_empty() {
                list.left_out.push(LeftOut::new(tier, name, LeftOutReason::Refused { findings }));
            } else if list.skills.len() >= limit {
                list.left_out.push(LeftOut::new(tier, name, LeftOutReason::TooMany { limit }));
            } else {
                list.skills.push((content, entry));
            }
        }
        if list.skills.is_empty() {
            let reasons: Vec<String> = list.left_out.iter().map(ToString::to_string).collect();
            let problem = match reasons.as_slice() {
                [] => "its list is empty".to_owned(),
                reasons => format!("none of its entries can be used: {}", reasons.join("; ")),
            };
            return Read::Unusable(list, problem);
        }
        Read::Usable(list)
    }

    /// The drafts of a tier without those that repeat an earlier one, by title and then by similarity.
    async fn without_duplicates(
        &self,
        tier: &Tier,
        drafts: Vec<Draft>,
        totals: &mut Totals,
    ) -> Result<Vec<Draft>, DistillError> {
        let drafts = distinct(tier, drafts, &mut totals.left_out);
        let Some(model) = self.teacher.embedding else { return Ok(drafts) };
        let texts: Vec<String> = drafts.iter().map(|draft| whole_text(&draft.content)).collect();
        let call = self.call.child(tier).child("similarity");
        let threshold = self.settings.duplicate_cosine;
        let neighbours = neighbours(model, &texts, threshold, &call).await?;
        let mut kept: Vec<Draft> = Vec::new();
        let mut kept_places = BTreeSet::new();
        for (place, draft) in drafts.iter().enumerate() {
            let earlier = neighbours.iter().find(|(other, own)| *own == place && kept_places.contains(other));
            match earlier.and_then(|(other, _)| drafts.get(*other)) {
                Some(other) => {
                    let of = other.content.title().to_owned();
                    let reason = LeftOutReason::Duplicate { of };
                    totals.left_out.push(LeftOut::new(tier, draft.content.title(), reason));
                }
                None => {
                    kept_places.insert(place);
                    kept.push(draft.clone());
                }
            }
        }
        Ok(kept)
    }
}

/// The skills of a reply.
#[derive(Default)]
struct ReadList {
    skills: Vec<(Content, Value)>,
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
}

/// The drafts whose title no earlier one has.
fn distinct(tier: &Tier, drafts: Vec<Draft>, left_out: &mut Vec<LeftOut>) -> Vec<Draft> {
    let mut titles = BTreeSet::new();
    let mut kept = Vec::new();
    for draft in drafts {
        let title = draft.content.title();
        if titles.insert(normalised(title)) {
            kept.push(draft);
        } else {
            let reason = LeftOutReason::Duplicate { of: title.to_owned() };
            left_out.push(LeftOut::new(tier, title, reason));
        }
    }
    kept
}
