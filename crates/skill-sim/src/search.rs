//! Questions with a search tool: the habits of who answers them, what agents do wrong, and the rules that repair it.

use crate::agent::{Move, Player, Situation};
use crate::habits::{ConductReader, Habit, Pattern, Sense};
use crate::played::{Lessons, Played};
use skill_core::random::Dice;
use skill_envs::search_agent::INSTRUCTIONS;

/// How often the agent has a habit in an episode of which the skill says nothing.
const BY_NATURE: f64 = 0.2;
/// How often it loses the thread, whatever the skill says.
const SLIP_RATE: f64 = 0.04;
/// Searches of an episode at most.
const MAX_SEARCHES: usize = 4;
/// How an answer in a sentence begins.
const SENTENCE: &str = "The answer to the question is ";

/// What an agent with a search tool may make a habit of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum SearchHabit {
    /// To search again for what a passage names, until the question itself is answered.
    FollowNames,
    /// To answer with the bare name.
    BareAnswer,
}

impl Habit for SearchHabit {
    const ALL: &'static [Self] = &[Self::FollowNames, Self::BareAnswer];

    fn patterns(self) -> &'static [Pattern] {
        match self {
            Self::FollowNames => &[Pattern {
                deeds: &["search again", "search for", "follow", "another search", "second search"],
                about: &[&["name", "passage", "person", "found"]],
                sense: Sense::For,
            }],
            Self::BareAnswer => &[
                Pattern {
                    deeds: &["bare", "only the", "nothing else", "just the", "no sentence", "shortest"],
                    about: &[&["answer"]],
                    sense: Sense::For,
                },
                Pattern {
                    deeds: &["sentence", "explain", "explanation"],
                    about: &[&["answer"]],
                    sense: Sense::Contrary,
                },
            ],
        }
    }
}

impl Lessons for SearchHabit {
    const HARMFUL: &'static [&'static str] = &[
        "Explain the answer in a full sentence, so that it can be checked.",
        "Write the answer as a sentence that repeats the question.",
    ];

    fn name(self) -> &'static str {
        match self {
            Self::FollowNames => "stopped after one search",
            Self::BareAnswer => "answer in a sentence",
        }
    }

    fn description(self) -> &'static str {
        match self {
            Self::FollowNames => {
                "A passage named what to look for next, and the agent answered without searching for it."
            }
            Self::BareAnswer => "The answer was a sentence around the right words.",
        }
    }

    fn phrasings(self) -> &'static [&'static str] {
        match self {
            Self::FollowNames => &[
                "If a passage only names the next person or place, search for that name before you answer.",
                "Search again for each name that was found, until a passage answers the question itself.",
            ],
            Self::BareAnswer => &[
                "Answer with the bare name and nothing else.",
                "Give the shortest answer: the name, and nothing else.",
            ],
        }
    }

    fn is_in(played: &Played) -> bool {
        played.opening.contains("Question: ")
            && played.steps.iter().any(|step| step.did("search[") || step.did("answer["))
    }

    fn diagnose(played: &Played) -> Vec<Self> {
        let Some(last) = played.steps.last() else { return Vec::new() };
        let n_searches = played.steps.iter().filter(|step| step.did("search[")).count();
        let mut lacking = Vec::new();
        if n_searches < n_hops(&played.opening) {
            lacking.push(Self::FollowNames);
        }
        if last.action.contains(SENTENCE) {
            lacking.push(Self::BareAnswer);
        }
        lacking
    }

    fn practised(played: &Played) -> Vec<Self> {
        let n_searches = played.steps.iter().filter(|step| step.did("search[")).count();
        let is_bare =
            played.steps.last().is_some_and(|last| last.did("answer[") && !last.action.contains(SENTENCE));
        let follows = (n_searches > 1).then_some(Self::FollowNames);
        follows.into_iter().chain(is_bare.then_some(Self::BareAnswer)).collect()
    }
}

/// How many searches a made-up question takes.
fn n_hops(question: &str) -> usize {
    match (question.contains("in the town where the mayor of"), question.contains("the mayor of")) {
        (true, _) => 3,
        (false, true) => 2,
        (false, false) => 1,
    }
}

/// The text between two others, of the last place where both are.
fn between<'a>(text: &'a str, before: &str, after: &[char]) -> Option<&'a str> {
    let (_, rest) = text.rsplit_once(before)?;
    rest.split(after).next().map(str::trim).filter(|found| !found.is_empty())
}

/// What the agent has found out so far.
struct Search<'a> {
    question: &'a str,
    /// All that was seen, and the last search.
    seen: String,
    n_searches: usize,
}

impl<'a> Search<'a> {
    fn of(situation: &'a Situation) -> Self {
        let question = situation.opening().trim().trim_start_matches("Question: ");
        let seen = situation.past.iter().skip(1).map(|turn| turn.observation.as_str());
        let now = (!situation.past.is_empty()).then_some(situation.observation.as_str());
        let actions = situation.past.iter().filter_map(|turn| turn.action.as_deref());
        Self {
            question,
            seen: seen.chain(now).collect::<Vec<_>>().join("\n"),
            n_searches: actions.filter(|action| action.starts_with("search[")).count(),
        }
    }

    /// The town that the question begins with.
    fn town(&self) -> Option<&str> {
        between(self.question, "the mayor of ", &[' ', '?'])
            .or_else(|| between(self.question, "through ", &['?']))
    }

    /// A fact about a subject of the made-up country.
    fn fact(&self, before: &str, subject: &str, after: &[char]) -> Option<&str> {
        between(&self.seen, &before.replace("{}", subject), after)
    }

    /// What to search for next, or the answer; `None` if nothing more can be found out.
    fn next(&self) -> Result<Option<&str>, &str> {
        let Some(town) = self.town() else { return Ok(None) };
        if n_hops(self.question) == 1 {
            return match self.fact("{} is a town on the river ", town, &['.']) {
                Some(river) => Err(river),
                None => Ok(Some(town)),
            };
        }
        let Some(mayor) = self.fact("The mayor of {} is ", town, &['.']) else { return Ok(Some(town)) };
        let born = self.seen.split_once(&format!("{mayor} was born in ")).map(|(_, rest)| rest);
        let Some(birthplace) = born.and_then(|rest| rest.split(" in ").nth(1)?.split(',').next()) else {
            return Ok(Some(mayor));
        };
        if n_hops(self.question) == 2 {
            return Err(birthplace);
        }
        let of_town = self.seen.split_once(&format!("{birthplace} is a town on ")).map(|(_, rest)| rest);
        match of_town
            .and_then(|rest| between(rest.split(", which is made").next()?, "known for its ", &['.']))
        {
            Some(trade) => Err(trade),
            None => Ok(Some(birthplace)),
        }
    }
}

/// An agent for a [`crate::SimulatedAgent`] that answers questions with a search tool as well as its skill makes it.
#[derive(Debug, Default)]
pub struct SimulatedSearcher {
    skills: ConductReader<SearchHabit>,
}

impl Player for SimulatedSearcher {
    fn name(&self) -> &'static str {
        "simulated-searcher"
    }

    fn instructions(&self) -> Vec<&'static str> {
        vec![INSTRUCTIONS]
    }

    fn decide(&self, situation: &Situation, dice: Dice) -> Move {
        let conduct = self.skills.read(&situation.skill);
        let has =
            |habit: SearchHabit| conduct.says(habit).unwrap_or_else(|| dice.chance(habit.name(), BY_NATURE));
        let search = Search::of(situation);
        let may_search =
            search.n_searches == 0 || has(SearchHabit::FollowNames) && search.n_searches < MAX_SEARCHES;
        let answer = match search.next() {
            Ok(Some(name)) if may_search => {
                return moved(format!("I need a passage about {name}."), format!("search[{name}]"));
            }
            Ok(None) if search.n_searches == 0 => {
                return moved("I look the question up.".to_owned(), format!("search[{}]", search.question));
            }
            Err(answer) if !dice.chance("slip", SLIP_RATE) => answer.to_owned(),
            // What it knows of last.
            Ok(Some(name)) => name.to_owned(),
            Ok(None) | Err(_) => between(&search.seen, "(Title: ", &[')']).unwrap_or("unknown").to_owned(),
        };
        let answer = if has(SearchHabit::BareAnswer) { answer } else { format!("{SENTENCE}{answer}") };
        moved("I know enough.".to_owned(), format!("answer[{answer}]"))
    }
}

/// An agent that knows the supporting facts: it looks up each document that is needed, then gives the right answer.
///
/// Its episodes are demonstrations that cost no model calls.
#[derive(Debug, Default)]
pub struct SearchExpert;

impl Player for SearchExpert {
    fn name(&self) -> &'static str {
        "search-expert"
    }

    fn instructions(&self) -> Vec<&'static str> {
        vec![INSTRUCTIONS]
    }

    fn decide(&self, situation: &Situation, _: Dice) -> Move {
        let known = situation.solution.get(situation.past.len()).or(situation.solution.last());
        let action = known.cloned().unwrap_or_else(|| "answer[unknown]".to_owned());
        let thought = match action.starts_with("search[") {
            true => "The question needs this document.",
            false => "The passages answer the question.",
        };
        moved(thought.to_owned(), action)
    }
}

fn moved(thought: String, action: String) -> Move {
    Move { thought, action }
}
