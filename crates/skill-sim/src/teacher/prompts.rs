//! The teacher's side of a prompt: which call it is, and what it holds.

use crate::conventions::{Stance, glossary, statements};
use crate::habits::habits_of_line;
use crate::played::{Lessons, Played, Step};
use crate::prompts::Trajectory;
use crate::search::SearchHabit;
use crate::shop::ShopHabit;
use skill_envs::alfworld::HouseholdHabit;
use std::collections::BTreeSet;

/// What a household's first observation says before its task.
const TASK_MARK: &str = "Your task is to: ";
/// The limit on entries where the prompt names none.
const DEFAULT_LIMIT: usize = 3;

/// A call of distillation or evolution.
#[derive(Debug, PartialEq)]
pub(super) enum Asked {
    /// Write skills, or mistakes to avoid.
    Skills {
        /// For which tasks.
        scope: Scope,
        /// The most entries.
        limit: usize,
        /// What agents did.
        episodes: Vec<EpisodeText>,
    },
    /// Make one list of several.
    Merge {
        /// The most entries.
        limit: usize,
        /// The entries of all lists, in order.
        proposals: Vec<SkillText>,
    },
    /// Change the skills of weak types.
    Changes {
        /// The weak types, the weakest first.
        weak: Vec<String>,
        /// The most changes.
        limit: usize,
        /// The skills that agents are shown.
        skills: Vec<ExistingSkill>,
        /// What agents did.
        episodes: Vec<EpisodeText>,
    },
}

/// The tasks before which a skill is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// All tasks.
    General,
    /// Those of one type.
    TaskType,
    /// All tasks, as a mistake to avoid.
    Mistakes,
}

/// A skill or a mistake as a prompt shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SkillText {
    /// Its three fields, in their order.
    pub(super) fields: [String; 3],
    /// True if it is a mistake to avoid.
    pub(super) is_mistake: bool,
}

impl SkillText {
    /// As agents are shown it.
    pub(super) fn shown(&self) -> String {
        let [first, second, third] = &self.fields;
        if self.is_mistake {
            format!("- **Don't**: {first}\n  **Instead**: {third}")
        } else {
            format!("- **{first}**: {second}")
        }
    }

    fn read(text: &str) -> Self {
        const PRINCIPLE: [&str; 3] = ["Title: ", "Principle: ", "When to apply: "];
        const MISTAKE: [&str; 3] = ["Mistake: ", "Why it happens: ", "How to avoid it: "];
        let is_mistake = text.starts_with("Mistake: ");
        let labels = if is_mistake { MISTAKE } else { PRINCIPLE };
        let lines = labelled(text, &labels);
        let field = |label: &str| {
            let found = lines.iter().find(|(own, _)| *own == label);
            found.map_or_else(String::new, |(_, text)| text.trim().to_owned())
        };
        Self { fields: labels.map(field), is_mistake }
    }
}

/// A skill of the bank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExistingSkill {
    pub(super) id: String,
    /// `general` or a type of task.
    pub(super) tier: String,
    /// True if it cannot be changed.
    pub(super) is_fixed: bool,
    pub(super) text: SkillText,
}

/// What an agent did on one task.
#[derive(Debug, PartialEq)]
pub(super) struct EpisodeText {
    pub(super) task_type: String,
    pub(super) is_success: bool,
    /// Its moves, where the task is played in a world.
    pub(super) played: Played,
    /// Its answer, where the task is a question.
    pub(super) answered: Trajectory,
}

/// The kind of tasks that an episode is from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum World {
    /// Chores.
    Household,
    /// Purchases.
    Shop,
    /// Questions with a search tool.
    Search,
    /// Questions with a reference answer.
    Answers,
    /// Another one.
    Unknown,
}

impl World {
    /// All worlds, in the order in which an episode is matched.
    const ALL: [Self; Self::Unknown as usize + 1] =
        [Self::Household, Self::Shop, Self::Search, Self::Answers, Self::Unknown];

    /// True if an episode may be from it.
    fn has(self, episode: &EpisodeText) -> bool {
        match self {
            Self::Household => HouseholdHabit::is_in(&episode.played),
            Self::Shop => ShopHabit::is_in(&episode.played),
            Self::Search => SearchHabit::is_in(&episode.played),
            Self::Answers => !episode.answered.references.is_empty(),
            Self::Unknown => true,
        }
    }

    /// Rules that sound sensible and do harm there.
    pub(super) fn harmful(self) -> &'static [&'static str] {
        match self {
            Self::Household => HouseholdHabit::HARMFUL,
            Self::Shop => ShopHabit::HARMFUL,
            Self::Search => SearchHabit::HARMFUL,
            Self::Answers => crate::flaws::HARMFUL,
            Self::Unknown => &[],
        }
    }

    /// The world of these episodes.
    pub(super) fn of(episodes: &[EpisodeText]) -> Self {
        episodes.first().map_or(Self::Unknown, EpisodeText::world)
    }

    /// The world that most of these skills speak of.
    pub(super) fn of_skills(skills: &[SkillText]) -> Self {
        let n_skills =
            |world: &Self| skills.iter().filter(|skill| !world.said_in(&skill.shown()).is_empty()).count();
        Self::ALL.into_iter().rev().max_by_key(n_skills).unwrap_or(Self::Unknown)
    }

    /// What a text says in this world: names of habits or forms of answers, each with `+` where it asks for one and with
    /// `-` where it speaks against one, and codes.
    pub(super) fn said_in(self, text: &str) -> BTreeSet<String> {
        fn signed(name: &str, is_wanted: bool) -> String {
            format!("{name}{}", if is_wanted { '+' } else { '-' })
        }
        fn habits<L: Lessons>(line: &str) -> Vec<String> {
            let said = habits_of_line::<L>(line).into_iter();
            said.map(|(habit, is_wanted)| signed(habit.name(), is_wanted)).collect()
        }
        let forms = |line: &str| {
            let said = statements(line).into_iter();
            let said =
                said.map(|said| signed(&format!("{:?}", said.convention), said.stance == Stance::Wanted));
            said.chain(glossary(line).into_iter().map(|(word, code)| format!("{word}={code}")))
                .collect::<Vec<_>>()
        };
        let lines = text.lines();
        match self {
            Self::Household => lines.flat_map(habits::<HouseholdHabit>).collect(),
            Self::Shop => lines.flat_map(habits::<ShopHabit>).collect(),
            Self::Search => lines.flat_map(habits::<SearchHabit>).collect(),
            Self::Answers => lines.flat_map(forms).collect(),
            Self::Unknown => BTreeSet::new(),
        }
    }
}

impl EpisodeText {
    /// The world that it is from.
    pub(super) fn world(&self) -> World {
        World::ALL.into_iter().find(|world| world.has(self)).unwrap_or(World::Unknown)
    }

    fn read(attributes: &str, body: &str) -> Self {
        const HEAD: [&str; 9] = [
            "Task type: ",
            "Task: ",
            "Data source: ",
            "Reference answer: ",
            "Agent's answer: ",
            "Reason of the failure: ",
            "Plan that worked: ",
            "Mistake: ",
            "Summary: ",
        ];
        const STEPS: [&str; 5] = ["  Saw: ", "  Thought: ", "  Did: ", "  Reward: ", "At the end: "];
        let mut head = Vec::new();
        let mut steps: Option<Vec<&str>> = None;
        let mut is_cut = false;
        for line in body.lines() {
            let is_left_out = line.starts_with('[') && line.ends_with(" earlier steps left out]");
            if steps.is_none() && (is_left_out || is_step(line)) {
                is_cut = is_left_out;
                steps = Some(Vec::new());
            }
            match &mut steps {
                Some(lines) => lines.push(line),
                None => head.push(line),
            }
        }
        let head = labelled(&head.join("\n"), &HEAD);
        let field = |label: &str| {
            let found = head.iter().find(|(own, _)| *own == label);
            found.map_or("", |(_, text)| text.trim())
        };
        let told = labelled(&steps.unwrap_or_default().join("\n"), &STEPS);
        let references = Some(field("Reference answer: ")).filter(|text| !text.is_empty());
        let seen = told.iter().filter(|(label, _)| *label == "  Saw: ");
        let conversation: String = seen.map(|(_, text)| format!("[user] {text}\n")).collect();
        Self {
            task_type: field("Task type: ").to_owned(),
            is_success: attribute(attributes, "outcome") == Some("success"),
            played: played(&told, is_cut, field("Task: ")),
            answered: Trajectory {
                question: field("Task: ").to_owned(),
                references: references.iter().flat_map(|text| text.split(" | ")).map(str::to_owned).collect(),
                answer: field("Agent's answer: ").to_owned(),
                conversation,
            },
        }
    }
}

/// The moves of an episode; where its beginning is missing, the goal stands in for the first observation.
fn played(told: &[(&str, String)], is_cut: bool, goal: &str) -> Played {
    let mut played = Played::default();
    for (label, text) in told {
        let text = text.trim().to_owned();
        match (*label, played.steps.last_mut()) {
            ("  Did: ", _) => played.steps.push(Step { action: text, seen: String::new() }),
            ("  Saw: " | "At the end: ", Some(step)) => step.seen = text,
            ("  Saw: ", None) if !is_cut => played.opening = text,
            _ => {}
        }
    }
    let is_household = played.steps.iter().any(|step| step.did("go to "));
    if played.opening.is_empty() && is_household && !goal.contains(TASK_MARK) {
        played.opening = format!("{TASK_MARK}{goal}");
    } else if played.opening.is_empty() {
        goal.clone_into(&mut played.opening);
    }
    played
}

fn is_step(line: &str) -> bool {
    line.strip_prefix("Step ").is_some_and(|number| number.parse::<usize>().is_ok())
}

impl Asked {
    /// Reads a user message; `None` if it is none of the calls that the teacher understands.
    pub(super) fn read(message: &str) -> Option<Self> {
        let message = message.trim_start();
        let limit = limit(message).unwrap_or(DEFAULT_LIMIT);
        let scopes = [
            ("Types of tasks:", Scope::General),
            ("Type of the tasks:", Scope::TaskType),
            ("Failed episodes (", Scope::Mistakes),
        ];
        if let Some((_, scope)) = scopes.iter().find(|(start, _)| message.starts_with(start)) {
            return Some(Self::Skills { scope: *scope, limit, episodes: episodes(message) });
        }
        if message.starts_with("Proposals (") {
            let blocks = blocks(message, "proposal").into_iter();
            return Some(Self::Merge {
                limit,
                proposals: blocks.map(|(_, body)| SkillText::read(body)).collect(),
            });
        }
        let (_, rest) = message.strip_prefix("Weak types:").map(|rest| ("", rest))?;
        let weak = rest.lines().skip(1).map_while(|line| line.strip_prefix("- "));
        let weak =
            weak.map(|line| line.rsplit_once(": ").map_or(line, |(name, _)| name).to_owned()).collect();
        let skills = blocks(message, "skill").into_iter().map(|(attributes, body)| ExistingSkill {
            id: attribute(attributes, "id").unwrap_or_default().to_owned(),
            tier: attribute(attributes, "tier").unwrap_or_default().to_owned(),
            is_fixed: attribute(attributes, "fixed").is_some(),
            text: SkillText::read(body),
        });
        Some(Self::Changes { weak, limit, skills: skills.collect(), episodes: episodes(message) })
    }
}

fn episodes(message: &str) -> Vec<EpisodeText> {
    let blocks = blocks(message, "episode").into_iter();
    blocks.map(|(attributes, body)| EpisodeText::read(attributes, body)).collect()
}

/// The attributes and the inside of every block of this tag; prompts escape tags inside of blocks.
fn blocks<'t>(text: &'t str, tag: &str) -> Vec<(&'t str, &'t str)> {
    let (open, close) = (format!("<{tag} "), format!("\n</{tag}>"));
    let block = |part: &'t str| {
        let (attributes, rest) = part.split_once(">\n")?;
        Some((attributes, rest.split(&close).next().unwrap_or(rest)))
    };
    text.split(&open).skip(1).filter_map(block).collect()
}

fn attribute<'t>(attributes: &'t str, name: &str) -> Option<&'t str> {
    let (before, rest) = attributes.split_once(&format!("{name}=\""))?;
    (before.is_empty() || before.ends_with(' ')).then(|| rest.split('"').next().unwrap_or(rest))
}

/// The texts behind labels at the beginnings of lines, in order; other lines belong to the text before them.
fn labelled<'l>(text: &str, labels: &[&'l str]) -> Vec<(&'l str, String)> {
    let mut found: Vec<(&str, String)> = Vec::new();
    for line in text.lines().filter(|line| !is_step(line)) {
        match labels.iter().find_map(|label| Some((*label, line.strip_prefix(*label)?))) {
            Some((label, rest)) => found.push((label, rest.to_owned())),
            None => {
                if let Some((_, text)) = found.last_mut() {
                    text.push('\n');
                    text.push_str(line);
                }
            }
        }
    }
    found
}

/// The largest number of the last line, as in `Write 8 to 12 general skills.`.
fn limit(message: &str) -> Option<usize> {
    let line = message.trim_end().lines().next_back()?;
    line.split(' ').filter_map(|word| word.parse().ok()).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    const EPISODE: &str = "<episode number=\"1\" id=\"g-1\" outcome=\"failure\" score=\"0.00\">\nTask type: heat\n\
        Task: put a hot mug\nReason of the failure: out of turns\nStep 1\n  Saw: A room.\n\nYour task is to: put a hot \
        mug\n  Thought: Hm.\n  Did: go to shelf 1\nStep 2\n  Saw: A mug.\nStep by step.\n  Did: look\nAt the end: \
        Nothing.\n</episode>";

    #[test]
    fn episodes_are_read_as_moves() {
        let message = format!("Failed episodes (1):\n\n{EPISODE}\n\nWrite 8 to 12 mistakes to avoid.\n");
        let Some(Asked::Skills { scope: Scope::Mistakes, limit: 12, episodes }) = Asked::read(&message)
        else {
            panic!("a request for mistakes");
        };
        let step = |action: &str, seen: &str| Step { action: action.to_owned(), seen: seen.to_owned() };
        let opening = "A room.\n\nYour task is to: put a hot mug".to_owned();
        let steps = vec![step("go to shelf 1", "A mug.\nStep by step."), step("look", "Nothing.")];
        assert_eq!(episodes[0].played, Played { opening, steps });
        assert_eq!((episodes[0].task_type.as_str(), episodes[0].is_success), ("heat", false));
        assert_eq!(episodes[0].world(), World::Household);
    }

    #[test]
    fn an_episode_without_its_beginning_keeps_its_goal() {
        let cut = EPISODE.replace("Step 1\n", "[4 earlier steps left out]\nStep 5\n");
        let Some(Asked::Skills { episodes, .. }) = Asked::read(&format!("Types of tasks:\n- heat\n\n{cut}"))
        else {
            panic!("a request for general skills");
        };
        insta::assert_snapshot!(episodes[0].played.opening, @"Your task is to: put a hot mug");
        assert_eq!(episodes[0].played.steps.len(), 2);
    }

    #[test]
    fn skills_and_proposals_are_read() {
        let message = "Weak types:\n- heat: 1 of 9 attempts succeeded\n- cool: 2 of 9 attempts succeeded\n\n<skill \
            id=\"hea_001\" tier=\"heat\" fixed=\"yes\">\nTitle: T\nPrinciple: P\nmore\n</skill>\n\nPropose at most 2 \
            changes.";
        let Some(Asked::Changes { weak, limit: 2, skills, .. }) = Asked::read(message) else {
            panic!("changes")
        };
        assert_eq!(weak, ["heat", "cool"]);
        assert_eq!(
            (skills[0].id.as_str(), skills[0].tier.as_str(), skills[0].is_fixed),
            ("hea_001", "heat", true)
        );
        assert_eq!(skills[0].text.shown(), "- **T**: P\nmore");
        let message = "Proposals (1), for mistakes:\n\n<proposal number=\"1\">\nMistake: D\nWhy it happens: W\nHow to \
            avoid it: A\n</proposal>\n\nWrite 8 to 9 entries.";
        let Some(Asked::Merge { limit: 9, proposals }) = Asked::read(message) else { panic!("a merge") };
        insta::assert_snapshot!(proposals[0].shown(), @r"
        - **Don't**: D
          **Instead**: A
        ");
    }

    #[test]
    fn other_messages_are_none_of_them() {
        for message in ["What is the capital of Belgium?", ""] {
            assert_eq!(Asked::read(message), None, "{message}");
        }
    }
}
