//! A view of a bank prepared for selections, and how a selection is made.
//!
//! A selection ranks the skills of each section, keeps the best ones, and fills the token budget by rank: of each rank
//! first the skill of the task's type, then the general one, then the mistake. The first skill that does not fit ends
//! it, so no skill is shown in place of one that ranks higher.

use super::selection::{LeftOutSkill, Selection, ShownSkill, Warning, WhyLeftOut};
use super::similarity::embedding_text;
use super::{Compat, Retrieval, RetrievalMode, RetrievalSettings, top_k_over};
use crate::render::{ALL_TYPES_HEADING, NOTHING_RELEVANT, Section, episodes_heading, heading, line};
use crate::skill::{Content, Tier, ViewedSkill};
use crate::task_type::{Detected, TypeDetector};
use crate::view::BankView;
use skill_core::ItemId;
use skill_core::tokens::estimate_tokens;
use std::collections::BTreeMap;

/// How the ids begin that the paper's code gives skills made from failures.
const DYNAMIC_PREFIX: &str = "dyn_";

/// A view with everything computed that does not depend on the task.
#[derive(Debug, Clone)]
pub struct PreparedBank {
    settings: RetrievalSettings,
    detector: TypeDetector,
    view: BankView,
    /// One for each skill of the view.
    entries: Vec<Entry>,
    /// The places of the skills of each tier: by utility, then in the order of the bank.
    tiers: BTreeMap<Tier, Vec<usize>>,
    n_task_skills: usize,
}

/// A skill as it would be shown.
#[derive(Debug, Clone)]
struct Entry {
    text: String,
    is_cut: bool,
    /// The tokens of the text and of what separates it from the next one; at least as many as it adds to a text.
    tokens: u64,
    lower_bound: f64,
}

/// A section of a selection under way.
struct Ranked {
    section: Section,
    heading: String,
    /// The places of its skills, by rank.
    places: Vec<usize>,
    /// The most that may be shown.
    top_k: usize,
    /// How many of these are among the most of all sections together.
    n_of_total: usize,
    n_shown: usize,
}

impl Ranked {
    fn new(section: Section, heading: String, places: Vec<usize>, top_k: usize) -> Self {
        Self { section, heading, places, top_k, n_of_total: usize::MAX, n_shown: 0 }
    }

    /// How many skills may be shown.
    fn n_allowed(&self) -> usize {
        self.places.len().min(self.top_k).min(self.n_of_total)
    }
}

impl PreparedBank {
    pub(super) fn new(retrieval: &Retrieval, view: BankView) -> Self {
        let settings = retrieval.settings().clone();
        let entry = |skill: &ViewedSkill| {
            let line = line(&skill.content, Section::of(&skill.tier), settings.max_skill_chars);
            let tokens = estimate_tokens(&line.text) + estimate_tokens("\n");
            Entry { text: line.text, is_cut: line.is_cut, tokens, lower_bound: skill.lower_bound() }
        };
        let entries: Vec<Entry> = view.skills().iter().map(entry).collect();
        let mut tiers: BTreeMap<Tier, Vec<usize>> = BTreeMap::new();
        for (place, skill) in view.skills().iter().enumerate() {
            tiers.entry(skill.tier.clone()).or_default().push(place);
        }
        if settings.compat == Compat::None {
            let bound = |place: &usize| entries.get(*place).map_or(-1.0, |entry| entry.lower_bound);
            for places in tiers.values_mut() {
                places.sort_by(|one, other| bound(other).total_cmp(&bound(one)));
            }
        }
        let of_types = tiers.iter().filter(|(tier, _)| tier.task_type().is_some());
        let n_task_skills = of_types.map(|(_, places)| places.len()).sum();
        let detector = retrieval.types().detector(view.task_types());
        Self { settings, detector, view, entries, tiers, n_task_skills }
    }

    /// The view.
    pub fn view(&self) -> &BankView {
        &self.view
    }

    /// The type of a task, by the environment's name for it and the goal; both may be empty.
    pub fn detect(&self, environment_type: &str, goal: &str) -> Detected {
        self.detector.detect(environment_type, goal)
    }

    /// The texts of the skills for an embedding model, in the order of the bank; `None` for a skill without one.
    pub(crate) fn embedding_texts(&self) -> impl Iterator<Item = Option<String>> {
        self.view.skills().iter().map(|skill| embedding_text(&skill.content))
    }

    /// What a task of this type is shown.
    ///
    /// `similarities` are the cosines of the skills with the goal, in the order of the bank, as
    /// [`SkillVectors::similarities`](super::SkillVectors::similarities) gives them. Embedding mode without them ranks
    /// as template mode does, and says so.
    pub fn select(&self, task_type: Detected, similarities: Option<&[Option<f32>]>) -> Selection {
        self.select_for(None, task_type, similarities)
    }

    /// The same for this task, which is not shown its own episodes.
    pub fn select_for(
        &self,
        item: Option<&ItemId>,
        task_type: Detected,
        similarities: Option<&[Option<f32>]>,
    ) -> Selection {
        let wanted = self.settings.mode == RetrievalMode::Embedding;
        let similarities = similarities.filter(|_| wanted);
        let mode = if similarities.is_some() { RetrievalMode::Embedding } else { RetrievalMode::Template };
        let similarities = similarities.unwrap_or_default();
        let mut selecting = Selecting { bank: self, item, similarities, left_out: Vec::new() };
        let mut sections = match self.settings.compat {
            Compat::None => selecting.sections(task_type.task_type.as_deref()),
            Compat::Paper => selecting.sections_of_the_paper(task_type.task_type.as_deref()),
        };
        if let Some(total) = self.settings.total {
            selecting.keep_total(&mut sections, total);
        }
        self.fill(&mut sections);
        let mut shown = Vec::new();
        let mut text = String::new();
        for section in &sections {
            for (place, rank) in section.places.iter().zip(1..) {
                if rank <= section.n_shown {
                    let begins = if text.is_empty() { "" } else { "\n\n" };
                    match rank {
                        1 => text.extend([begins, &section.heading, "\n"]),
                        _ => text.push('\n'),
                    }
                    text.push_str(self.entries.get(*place).map_or("", |entry| entry.text.as_str()));
                    shown.extend(selecting.shown(*place, section.section, rank));
                } else {
                    let why = match rank {
                        rank if rank > section.top_k => WhyLeftOut::OverTopK,
                        rank if rank > section.n_of_total => WhyLeftOut::OverTotal,
                        _ => WhyLeftOut::OverBudget,
                    };
                    selecting.leave_out(*place, section.section, rank, why);
                }
            }
        }
        if text.is_empty() {
            NOTHING_RELEVANT.clone_into(&mut text);
        }
        let Selecting { mut left_out, .. } = selecting;
        left_out.sort_by_key(|left_out| (left_out.section, left_out.rank));
        let of_type = |task_type: &str| self.tiers.get(&Tier::of_type(task_type)).map_or(0, Vec::len);
        let n_considered = match (self.settings.compat, mode) {
            (Compat::Paper, RetrievalMode::Embedding) => self.n_task_skills,
            _ => task_type.task_type.as_deref().map_or(0, of_type),
        };
        Selection {
            mode,
            n_other_types: self.n_task_skills.saturating_sub(n_considered),
            n_unmeasured: shown.iter().filter(|shown| shown.lower_bound.is_none()).count(),
            warnings: self.warnings(&task_type, wanted && mode == RetrievalMode::Template),
            tokens: estimate_tokens(&text),
            task_type,
            shown,
            left_out,
            text,
        }
    }

    fn warnings(&self, task_type: &Detected, lacks_goal: bool) -> Vec<Warning> {
        let of_type = match &task_type.task_type {
            Some(name) if self.tiers.get(&Tier::of_type(name)).is_none_or(Vec::is_empty) => {
                Some(Warning::EmptyTaskTier { task_type: name.clone() })
            }
            None if self.n_task_skills > 0 => Some(Warning::UnknownType),
            Some(_) | None => None,
        };
        of_type.into_iter().chain(lacks_goal.then_some(Warning::NoGoal)).collect()
    }

    /// Says how many skills of each section are shown.
    fn fill(&self, sections: &mut [Ranked]) {
        let Some(budget) = self.settings.token_budget else {
            for section in sections {
                section.n_shown = section.n_allowed();
            }
            return;
        };
        let mut left = budget;
        let n_ranks = sections.iter().map(Ranked::n_allowed).max();
        for rank in 0..n_ranks.unwrap_or(0) {
            for of in [Section::TaskType, Section::General, Section::Mistakes] {
                let section = sections.iter_mut().find(|section| section.section == of);
                let Some(section) = section.filter(|section| rank < section.n_allowed()) else { continue };
                let Some(entry) = section.places.get(rank).and_then(|place| self.entries.get(*place)) else {
                    continue;
                };
                let opening =
                    if rank == 0 { estimate_tokens(&section.heading) + estimate_tokens("\n\n\n") } else { 0 };
                match left.checked_sub(opening + entry.tokens) {
                    Some(rest) => left = rest,
                    None => return,
                }
                section.n_shown = rank + 1;
            }
        }
    }
}

/// A selection under way.
struct Selecting<'a> {
    bank: &'a PreparedBank,
    item: Option<&'a ItemId>,
    /// Empty where there are none.
    similarities: &'a [Option<f32>],
    left_out: Vec<LeftOutSkill>,
}

impl Selecting<'_> {
    fn sections(&mut self, task_type: Option<&str>) -> Vec<Ranked> {
        let settings = &self.bank.settings;
        let task_top_k = settings.task_top_k.unwrap_or(usize::MAX);
        let mut sections = vec![
            self.section(&Tier::General, Section::General, settings.top_k),
            self.section(&Tier::Mistakes, Section::Mistakes, settings.mistakes_top_k),
        ];
        if let Some(task_type) = task_type {
            let section = self.section(&Tier::of_type(task_type), Section::TaskType, task_top_k);
            sections.insert(1, section);
        }
        sections
    }

    /// The skills of a tier by rank: by utility, then by similarity, then in the order of the bank.
    fn section(&mut self, tier: &Tier, section: Section, top_k: usize) -> Ranked {
        let mut places = self.usable(tier, section);
        if !self.similarities.is_empty() && section != Section::Mistakes {
            if let Some(threshold) = &self.bank.settings.threshold {
                let passes = |place: &usize| {
                    self.similarity(*place).is_some_and(|cosine| f64::from(cosine) > threshold.value)
                };
                let (passing, below): (Vec<usize>, Vec<usize>) = places.into_iter().partition(passes);
                for place in below {
                    self.leave_out(place, section, 0, WhyLeftOut::BelowThreshold);
                }
                places = passing;
            }
            let key = |place: usize| {
                (self.entry(place).map_or(-1.0, |entry| entry.lower_bound), self.similarity(place))
            };
            places.sort_by(|one, other| {
                let ((bound, cosine), (other_bound, other_cosine)) = (key(*one), key(*other));
                let cosines = other_cosine.unwrap_or(f32::MIN).total_cmp(&cosine.unwrap_or(f32::MIN));
                other_bound.total_cmp(&bound).then(cosines)
            });
        }
        let task_type = tier.task_type().unwrap_or_default();
        let skill = |place: &usize| self.bank.view.skills().get(*place);
        let is_of_episodes = places.iter().filter_map(skill).any(|skill| skill.content.is_episode());
        let heading = if is_of_episodes { episodes_heading(task_type) } else { heading(section, task_type) };
        Ranked::new(section, heading, places, top_k)
    }

    /// Keeps the best of the general skills and of those of the type together; in its section each keeps its place
    /// among the others that are kept. Of equal ones that of the higher rank is better, and of these that of the type.
    fn keep_total(&self, sections: &mut [Ranked], total: usize) {
        let mut all: Vec<(usize, usize, usize)> = Vec::new();
        for (at, section) in sections.iter().enumerate().filter(|(_, of)| of.section != Section::Mistakes) {
            let places = section.places.iter().take(section.top_k).enumerate();
            all.extend(places.map(|(rank, place)| (at, rank, *place)));
        }
        let is_of_type = |at: usize| sections.get(at).is_some_and(|of| of.section == Section::TaskType);
        all.sort_by(|(at, rank, place), (other_at, other_rank, other)| {
            let bound = |place: &usize| self.entry(*place).map_or(-1.0, |entry| entry.lower_bound);
            let cosine = |place: &usize| self.similarity(*place).unwrap_or(f32::MIN);
            let by_similarity = match self.similarities.is_empty() {
                true => std::cmp::Ordering::Equal,
                false => cosine(other).total_cmp(&cosine(place)),
            };
            let by_utility = bound(other).total_cmp(&bound(place));
            let by_type = is_of_type(*other_at).cmp(&is_of_type(*at));
            by_similarity.then(by_utility).then(rank.cmp(other_rank)).then(by_type)
        });
        for (at, section) in sections.iter_mut().enumerate() {
            if section.section == Section::Mistakes {
                continue;
            }
            let kept = |place: &usize| all.iter().take(total).any(|(of, _, kept)| *of == at && kept == place);
            let (mut first, rest): (Vec<usize>, Vec<usize>) = section.places.iter().copied().partition(kept);
            section.n_of_total = first.len();
            first.extend(rest);
            section.places = first;
        }
    }

    /// The skills of a tier that have a text; the others are left out.
    fn usable(&mut self, tier: &Tier, section: Section) -> Vec<usize> {
        let places = self.bank.tiers.get(tier).map(Vec::as_slice).unwrap_or_default();
        let has_text = |place: &usize| self.entry(*place).is_some_and(|entry| !entry.text.is_empty());
        let (usable, empty): (Vec<usize>, Vec<usize>) = places.iter().copied().partition(has_text);
        for place in empty {
            self.leave_out(place, section, 0, WhyLeftOut::Empty);
        }
        let (own, usable): (Vec<usize>, Vec<usize>) =
            usable.into_iter().partition(|place| self.is_of_this_task(*place));
        for place in own {
            self.leave_out(place, section, 0, WhyLeftOut::SameTask);
        }
        usable
    }

    fn is_of_this_task(&self, place: usize) -> bool {
        let Some(skill) = self.bank.view.skills().get(place) else { return false };
        match &skill.content {
            Content::Episode { item, .. } => self.item == Some(item),
            Content::Principle { .. } | Content::Mistake { .. } => false,
        }
    }

    /// The rules of the paper's code, see [`Compat::Paper`].
    fn sections_of_the_paper(&mut self, task_type: Option<&str>) -> Vec<Ranked> {
        let settings = &self.bank.settings;
        let by_similarity = !self.similarities.is_empty();
        let mut general = self.section(&Tier::General, Section::General, settings.top_k);
        let most = settings.task_top_k.unwrap_or(usize::MAX);
        let mut task = Ranked::new(Section::TaskType, ALL_TYPES_HEADING.to_owned(), Vec::new(), most);
        if by_similarity {
            let delta = settings.threshold.as_ref().map_or(f64::NEG_INFINITY, |threshold| threshold.value);
            let ranked = |places: Vec<usize>| {
                top_k_over(self.similarities, places.into_iter().rev(), delta, usize::MAX)
            };
            let skills = self.bank.view.skills().iter().enumerate();
            let of_types = skills.filter(|(_, skill)| skill.tier.task_type().is_some());
            task.places = ranked(of_types.map(|(place, _)| place).collect());
            task.top_k = settings.task_top_k.unwrap_or(settings.top_k);
            let in_order = self.bank.tiers.get(&Tier::General).cloned().unwrap_or_default();
            general.places = ranked(in_order);
        } else {
            let is_dynamic = |place: &usize| {
                let skill = self.bank.view.skills().get(*place);
                skill.is_some_and(|skill| skill.id.skill.as_str().starts_with(DYNAMIC_PREFIX))
            };
            let (mut dynamic, fixed): (Vec<usize>, Vec<usize>) =
                general.places.into_iter().partition(is_dynamic);
            general.top_k = settings.top_k.max(dynamic.len());
            dynamic.extend(fixed);
            general.places = dynamic;
            if let Some(task_type) = task_type {
                task = self.section(&Tier::of_type(task_type), Section::TaskType, task.top_k);
            }
        }
        vec![general, task, self.section(&Tier::Mistakes, Section::Mistakes, settings.mistakes_top_k)]
    }

    fn entry(&self, place: usize) -> Option<&Entry> {
        self.bank.entries.get(place)
    }

    fn similarity(&self, place: usize) -> Option<f32> {
        self.similarities.get(place).copied().flatten()
    }

    fn shown(&self, place: usize, section: Section, rank: usize) -> Option<ShownSkill> {
        let skill = self.bank.view.skills().get(place)?;
        Some(ShownSkill {
            id: skill.id.clone(),
            section,
            rank,
            lower_bound: skill.utility.map(|_| skill.lower_bound()),
            similarity: self.similarity(place),
            is_cut: self.entry(place).is_some_and(|entry| entry.is_cut),
        })
    }

    fn leave_out(&mut self, place: usize, section: Section, rank: usize, why: WhyLeftOut) {
        let Some(skill) = self.bank.view.skills().get(place) else { return };
        self.left_out.push(LeftOutSkill {
            id: skill.id.clone(),
            section,
            rank,
            lower_bound: skill.utility.map(|_| skill.lower_bound()),
            similarity: self.similarity(place),
            why,
        });
    }
}
