//! Evolution: a teacher reads failures of weak types and proposes changes of their skills.
//!
//! It can be repeated: ids come from the bank, the teacher sees what earlier rounds brought, and a skill that is nearly
//! there already becomes a revision of it.
//!
//! # Invariants
//!
//! - Evolution reads failures of weak types alone, proposes for the tiers of these types, and gives strictly new
//!   ids in every round. Held by `failures_of_weak_types_are_shown_in_turns_by_type_and_kind`,
//!   `rounds_give_strictly_new_ids_and_see_what_earlier_rounds_brought`.

mod select;

pub use select::{EvolvePlan, Pooled, ShownFailure, TypeRate};

use crate::bank::Bank;
use crate::distill::{
    Asked, Change, DistillError, LeftOut, LeftOutReason, PromptLimits, Proposal, Read, Teacher, changeable,
    content, content_text, entries, name_of, neighbours, normalised,
};
use crate::episode::{TrainEpisode, escape};
use crate::lint::{Forbidden, lint_skill};
use crate::retrieve::whole_text;
use crate::skill::{Content, Evidence, Skill, SkillProvenance, State, Tier, Version};
use serde_json::Value;
use skill_core::{ItemId, SkillPartId, Usage, estimate_tokens};
use skill_llm::CallCtx;
use std::collections::BTreeSet;

/// Sizes and limits of evolution.
#[derive(Debug, Clone, PartialEq)]
pub struct EvolveSettings {
    /// A type is weak if the upper bound of its success rate is below this.
    pub threshold: f64,
    /// The fewest rollouts of a type from which it can be weak.
    pub min_rollouts: usize,
    /// The confidence level of the interval of a rate.
    pub confidence: f64,
    /// The most changes of a round.
    pub max_new_skills: usize,
    /// The most failures that are shown if the weakest type's rate is below `deep_below`.
    pub max_analysis_deep: usize,
    /// The most failures that are shown otherwise.
    pub max_analysis_shallow: usize,
    /// The rate from which on fewer failures are shown.
    pub deep_below: f64,
    /// The most tokens of the episodes, about.
    pub max_prompt_tokens: u64,
    /// The most tokens of one episode, about: of a longer one the last steps are shown.
    pub max_episode_tokens: u64,
    /// The most tokens of the existing skills that are shown, about.
    pub max_skills_tokens: u64,
    /// The most characters of a skill; a longer one is refused.
    pub max_skill_chars: usize,
    /// From this cosine on a new skill is a revision of its neighbour, where an embedding model is given.
    pub duplicate_cosine: f64,
}

impl Default for EvolveSettings {
    fn default() -> Self {
        Self {
            threshold: 0.4,
            min_rollouts: 8,
            confidence: 0.95,
            max_new_skills: 3,
            max_analysis_deep: 10,
            max_analysis_shallow: 5,
            deep_below: 0.2,
            max_prompt_tokens: 16_000,
            max_episode_tokens: 1_500,
            max_skills_tokens: 4_000,
            max_skill_chars: 800,
            duplicate_cosine: 0.85,
        }
    }
}

/// What a round of evolution came to.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Evolution {
    /// The changes that are proposed.
    pub proposals: Vec<Proposal>,
    /// What the teacher wrote and is not proposed, each with the reason.
    pub left_out: Vec<LeftOut>,
    /// What was wrong with the reply, and what became of it otherwise, one sentence each.
    pub notes: Vec<String>,
    /// How many calls were made; 0 where no type is weak.
    pub calls: u64,
    /// Their tokens.
    pub usage: Usage,
}

/// Asks for changes of the skills of weak types.
///
/// `plan` was made from the same episodes and settings; without a weak type nothing is asked. A new skill belongs to the
/// tier of a weak type. One whose title a skill of these tiers or of the general one has, or that is as similar as the
/// settings say, becomes a revision of that skill. The call is made at the place `evolve` inside of `call`.
///
/// # Errors
///
/// See [`DistillError`]; nothing is proposed then. A teacher that proposes nothing is not an error.
pub async fn evolve(
    episodes: &[TrainEpisode],
    plan: &EvolvePlan,
    bank: &Bank,
    settings: &EvolveSettings,
    teacher: &Teacher<'_>,
    forbidden: &Forbidden,
    call: &CallCtx,
) -> Result<Evolution, DistillError> {
    if !plan.is_needed() {
        return Ok(Evolution::default());
    }
    let round = Round::new(plan, bank, settings, forbidden);
    let shown: Vec<&TrainEpisode> = plan.places().filter_map(|place| episodes.get(place)).collect();
    let limits = PromptLimits {
        min_skills: 0,
        max_skills: settings.max_new_skills,
        max_chars: settings.max_skill_chars,
        max_episode_tokens: settings.max_episode_tokens,
    };
    let (skills, mut notes) = round.skills_text();
    let messages = teacher.prompts.evolve(&round.rates_text(), &skills, &shown, limits)?;
    let call = call.child("evolve");
    let (read, asked) = teacher.ask(messages, &call, &|reply| round.read(reply)).await?;
    let Changes { changes, mut left_out, notes: own_notes } = read;
    notes.extend(asked.repaired.clone());
    notes.extend(own_notes);
    let changes = round.by_similarity(changes, teacher, &call, &mut left_out).await?;
    let evidence = evidence_of(&shown, &asked);
    let proposals = changes.into_iter().map(|change| Proposal {
        change,
        source: SkillProvenance::Evolved,
        evidence: evidence.clone(),
    });
    let Asked { calls, usage, .. } = asked;
    Ok(Evolution { proposals: proposals.collect(), left_out, notes, calls, usage })
}

fn evidence_of(shown: &[&TrainEpisode], asked: &Asked) -> Evidence {
    let items: BTreeSet<&ItemId> = shown.iter().map(|episode| &episode.item).collect();
    Evidence {
        items: items.into_iter().cloned().collect(),
        trajectories: shown.iter().map(|episode| episode.id.clone()).collect(),
        prompt_sha256: Some(asked.prompt_sha256.clone()),
        teacher: Some(asked.teacher.clone()),
        calls: asked.calls,
        usage: asked.usage,
    }
}

/// The changes in a reply.
#[derive(Default)]
struct Changes {
    changes: Vec<Change>,
    left_out: Vec<LeftOut>,
    notes: Vec<String>,
}

/// What a reply is judged by.
struct Round<'a> {
    plan: &'a EvolvePlan,
    bank: &'a Bank,
    settings: &'a EvolveSettings,
    forbidden: &'a Forbidden,
    /// The tiers of the weak types, the weakest first, then the general one.
    tiers: Vec<Tier>,
}

impl<'a> Round<'a> {
    fn new(
        plan: &'a EvolvePlan,
        bank: &'a Bank,
        settings: &'a EvolveSettings,
        forbidden: &'a Forbidden,
    ) -> Self {
        let tiers = plan.weak.iter().map(Tier::of_type).chain([Tier::General]).collect();
        Self { plan, bank, settings, forbidden, tiers }
    }

    /// The skills of the round's tiers that are in use, tier by tier, the most useful first.
    fn skills(&self) -> Vec<(&'a Skill, &'a Version)> {
        let mut found: Vec<(usize, f64, &Skill, &Version)> = Vec::new();
        for skill in self.bank.skills() {
            let Some(rank) = self.tiers.iter().position(|tier| *tier == skill.tier) else { continue };
            let newest = || skill.latest().filter(|version| version.state != State::Retired);
            let Some(version) = skill.active().or_else(newest) else { continue };
            let bound = version.utility.map_or(-1.0, |utility| utility.interval[0]);
            found.push((rank, bound, skill, version));
        }
        found.sort_by(|left, right| left.0.cmp(&right.0).then_with(|| right.1.total_cmp(&left.1)));
        found.into_iter().map(|(_, _, skill, version)| (skill, version)).collect()
    }

    /// The existing skills as the teacher reads them, and a note where there was no room for all.
    fn skills_text(&self) -> (String, Vec<String>) {
        let (mut blocks, mut left) = (Vec::new(), self.settings.max_skills_tokens);
        let skills = self.skills();
        for (skill, version) in &skills {
            let fixed = if skill.is_pinned { " fixed=\"yes\"" } else { "" };
            let (id, tier) = (&skill.id, escape(&skill.tier.to_string()));
            let text = content_text(&version.content);
            let block = format!("<skill id=\"{id}\" tier=\"{tier}\"{fixed}>\n{text}\n</skill>");
            let cost = estimate_tokens(&block);
            if cost > left {
                break;
            }
            left -= cost;
            blocks.push(block);
        }
        let n_over = skills.len() - blocks.len();
        let note = (n_over > 0).then(|| format!("{n_over} of {} skills were not shown", skills.len()));
        (blocks.join("\n"), note.into_iter().collect())
    }

    fn rates_text(&self) -> String {
        let rates = self.plan.weak.iter().filter_map(|task_type| {
            let rate = self.plan.rates.iter().find(|rate| rate.task_type == *task_type)?;
            let name = escape(task_type);
            let Pooled { successes, rollouts } = rate.pooled;
            Some(format!("- {name}: {successes} of {rollouts} attempts succeeded"))
        });
        rates.collect::<Vec<_>>().join("\n")
    }

    fn read(&self, reply: &str) -> Read<Changes> {
        let Some(found) = entries(reply) else {
            let problem =
                if reply.trim().is_empty() { "it is empty" } else { "it contains no list of objects" };
            return Read::Broken(problem.to_owned());
        };
        let mut read = Changes { notes: found.notes, ..Changes::default() };
        let limit = self.settings.max_new_skills;
        for entry in found.values {
            let outcome = self.change(&entry).and_then(|change| match self.repeats(&change, &read.changes) {
                Some(of) => Err(LeftOutReason::Duplicate { of }),
                None if read.changes.len() >= limit => Err(LeftOutReason::TooMany { limit }),
                None => Ok(change),
            });
            match outcome {
                Ok(change) => read.changes.push(change),
                Err(reason) => {
                    let tier = self.tier_of(&entry).unwrap_or(Tier::General);
                    read.left_out.push(LeftOut::new(&tier, name_of(&entry), reason));
                }
            }
        }
        let is_malformed = |left: &LeftOut| {
            matches!(
                left.reason,
                LeftOutReason::NotAnObject
                    | LeftOutReason::MissingField { .. }
                    | LeftOutReason::NotText { .. }
                    | LeftOutReason::UnknownOperation { .. }
                    | LeftOutReason::NoType
            )
        };
        if read.changes.is_empty() && read.left_out.iter().any(is_malformed) {
            let reasons: Vec<String> = read.left_out.iter().map(ToString::to_string).collect();
            let problem = format!("none of its changes can be used: {}", reasons.join("; "));
            return Read::Unusable(read, problem);
        }
        Read::Usable(read)
    }

    /// The change that an element of the reply proposes.
    fn change(&self, entry: &Value) -> Result<Change, LeftOutReason> {
        if !entry.is_object() {
            return Err(LeftOutReason::NotAnObject);
        }
        let op = entry.get("op").and_then(Value::as_str).unwrap_or("add").trim().to_lowercase();
        match op.as_str() {
            "add" => {
                let tier = self.tier_of(entry).ok_or(LeftOutReason::NoType)?;
                let content = self.checked(&tier, entry)?;
                match self.same_title(&content) {
                    Some(id) => self.revision(&id, content),
                    None => Ok(Change::Add { tier, content }),
                }
            }
            "revise" => {
                let id = id_in(entry)?;
                let (tier, _) = self.changeable(&id)?;
                let content = self.checked(&tier, entry)?;
                self.revision(&id, content)
            }
            "merge" => {
                let ids = entry.get("ids").and_then(Value::as_array).into_iter().flatten();
                let mut from: Vec<SkillPartId> = Vec::new();
                for id in ids.filter_map(Value::as_str).map(SkillPartId::new) {
                    if !from.contains(&id) {
                        from.push(id);
                    }
                }
                let mut tiers = BTreeSet::new();
                for id in &from {
                    tiers.insert(self.changeable(id)?.0);
                }
                let own = if tiers.len() == 1 { tiers.pop_first() } else { self.tier_of(entry) };
                let tier = own.ok_or(LeftOutReason::NoType)?;
                let content = self.checked(&tier, entry)?;
                match from.as_slice() {
                    [] => Err(LeftOutReason::MissingField { field: "ids" }),
                    [only] => self.revision(only, content),
                    _ => Ok(Change::Merge { from, tier, content }),
                }
            }
            "retire" => {
                let of = id_in(entry)?;
                self.changeable(&of)?;
                Ok(Change::Retire { of })
            }
            _ => Err(LeftOutReason::UnknownOperation { op }),
        }
    }

    /// The tier of a new skill: that of the weak type that the entry names, or of the only one.
    fn tier_of(&self, entry: &Value) -> Option<Tier> {
        let named = ["task_type", "category"].iter().find_map(|key| entry.get(*key)?.as_str());
        let found = named.and_then(|named| {
            self.plan.weak.iter().find(|task_type| normalised(task_type) == normalised(named))
        });
        match (found, self.plan.weak.as_slice()) {
            (Some(task_type), _) | (None, [task_type]) => Some(Tier::of_type(task_type.clone())),
            (None, _) => None,
        }
    }

    fn checked(&self, tier: &Tier, entry: &Value) -> Result<Content, LeftOutReason> {
        let content = content(tier, entry)?;
        let findings = lint_skill(&content, self.forbidden, self.settings.max_skill_chars);
        if findings.is_empty() { Ok(content) } else { Err(LeftOutReason::Refused { findings }) }
    }

    fn changeable(&self, id: &SkillPartId) -> Result<(Tier, &'a Content), LeftOutReason> {
        let (tier, current) = changeable(self.bank, id)?;
        if !self.tiers.contains(&tier) {
            return Err(LeftOutReason::OtherTier { id: id.to_string() });
        }
        let version = self.bank.version(&current);
        let version = version.ok_or_else(|| LeftOutReason::UnknownSkill { id: id.to_string() })?;
        Ok((tier, &version.content))
    }

    /// A revision, unless the skill says so already.
    fn revision(&self, id: &SkillPartId, content: Content) -> Result<Change, LeftOutReason> {
        let (_, current) = self.changeable(id)?;
        let same = current.texts().map(normalised) == content.texts().map(normalised);
        if same {
            return Err(LeftOutReason::Duplicate { of: id.to_string() });
        }
        Ok(Change::Revise { of: id.clone(), content })
    }

    fn same_title(&self, content: &Content) -> Option<SkillPartId> {
        let title = normalised(content.title());
        let mut skills = self.skills().into_iter();
        let same = skills.find(|(_, version)| normalised(version.content.title()) == title);
        same.map(|(skill, _)| skill.id.clone())
    }

    /// The title or the id that a change has in common with an earlier one of the reply.
    fn repeats(&self, change: &Change, earlier: &[Change]) -> Option<String> {
        let ids = |change: &Change| match change {
            Change::Add { .. } => Vec::new(),
            Change::Revise { of, .. } | Change::Retire { of } => vec![of.clone()],
            Change::Merge { from, .. } => from.clone(),
        };
        let own = ids(change);
        let shared = earlier.iter().flat_map(&ids).find(|id| own.contains(id));
        let title = change.content().map(|content| normalised(content.title()));
        let same = || {
            let mut contents = earlier.iter().filter_map(Change::content);
            let same = contents.find(|other| Some(normalised(other.title())) == title);
            same.map(|content| content.title().to_owned())
        };
        shared.map(|id| id.to_string()).or_else(same)
    }

    /// The changes with new skills that are nearly there already as revisions, and without those that repeat another.
    async fn by_similarity(
        &self,
        changes: Vec<Change>,
        teacher: &Teacher<'_>,
        call: &CallCtx,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<Vec<Change>, DistillError> {
        let Some(model) = teacher.embedding else { return Ok(changes) };
        if !changes.iter().any(|change| matches!(change, Change::Add { .. })) {
            return Ok(changes);
        }
        let existing = self.skills();
        let mut texts: Vec<String> =
            existing.iter().map(|(_, version)| whole_text(&version.content)).collect();
        let n_existing = texts.len();
        texts
            .extend(changes.iter().map(|change| change.content().map_or_else(|| "-".to_owned(), whole_text)));
        let threshold = self.settings.duplicate_cosine;
        let pairs = neighbours(model, &texts, threshold, &call.child("similarity")).await?;
        let mut kept: Vec<Change> = Vec::new();
        let mut kept_places = BTreeSet::new();
        for (at, change) in changes.iter().enumerate() {
            let place = n_existing + at;
            let Change::Add { tier, content } = change else {
                kept.push(change.clone());
                kept_places.insert(place);
                continue;
            };
            let nearest = pairs
                .iter()
                .find(|(other, own)| *own == place && (*other < n_existing || kept_places.contains(other)));
            let outcome = match nearest.map(|(other, _)| (existing.get(*other), other)) {
                None => Ok(change.clone()),
                Some((Some((skill, _)), _)) => self.revision(&skill.id, content.clone()),
                Some((None, other)) => {
                    let other = changes.get(other - n_existing).and_then(Change::content);
                    let of = other.map_or_else(String::new, |content| content.title().to_owned());
                    Err(LeftOutReason::Duplicate { of })
                }
            };
            let outcome = outcome.and_then(|change| match self.repeats(&change, &kept) {
                Some(of) => Err(LeftOutReason::Duplicate { of }),
                None => Ok(change),
            });
            match outcome {
                Ok(change) => {
                    kept.push(change);
                    kept_places.insert(place);
                }
                Err(reason) => left_out.push(LeftOut::new(tier, content.title(), reason)),
            }
        }
        Ok(kept)
    }
}

fn id_in(entry: &Value) -> Result<SkillPartId, LeftOutReason> {
    let id = ["id", "skill_id"].iter().find_map(|key| entry.get(*key)?.as_str());
    id.map(|id| SkillPartId::new(id.trim())).ok_or(LeftOutReason::MissingField { field: "id" })
}
