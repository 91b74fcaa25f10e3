//! What a teacher can teach, and in which words.

use super::prompts::{EpisodeText, World};
use crate::conventions::{Stance, glossary, statements};
use crate::diagnosis::{Finding, diagnose};
use crate::habits::Conduct;
use crate::lessons::{glossary_rules, phrasings};
use crate::played::Lessons;
use crate::search::SearchHabit;
use crate::shop::ShopHabit;
use skill_envs::alfworld::HouseholdHabit;

/// Something that a skill can teach.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Topic {
    /// A habit in a household.
    Household(HouseholdHabit),
    /// A habit in a shop.
    Shop(ShopHabit),
    /// A habit with a search tool.
    Search(SearchHabit),
    /// The form of an answer.
    Answer(Finding),
    /// The house codes for a field's words.
    Codes {
        /// The field.
        field: String,
        /// The words with their codes.
        pairs: Vec<(String, String)>,
    },
}

/// How a teacher writes of a habit, besides the rules of [`Lessons`].
trait Taught: Lessons {
    /// Names of a skill that asks for it.
    fn titles(self) -> &'static [&'static str];

    /// When it matters.
    fn occasion(self) -> &'static str;
}

impl Taught for HouseholdHabit {
    fn titles(self) -> &'static [&'static str] {
        match self {
            Self::OpenClosed => &["Open what is closed", "Open closed receptacles", "Open and look inside"],
            Self::SearchEverywhere => {
                &["Search every place once", "Visit each place in turn", "Search all places systematically"]
            }
            Self::Heat => &["Heat it first", "Use the microwave for hot things", "Heat before placing"],
            Self::Cool => &["Cool it first", "Use the fridge for cool things", "Cool before placing"],
            Self::Clean => &["Clean it first", "Wash before placing", "Rinse it in the sinkbasin"],
            Self::UseLamp => &["Turn on the lamp", "Use the desklamp", "Switch on the desklamp"],
            Self::FetchBoth => &["Fetch both objects", "Bring the second one too", "Find and place both"],
        }
    }

    fn occasion(self) -> &'static str {
        match self {
            Self::OpenClosed => "a receptacle at hand is closed",
            Self::SearchEverywhere => "the object is not in sight",
            Self::Heat => "the task asks for something hot",
            Self::Cool => "the task asks for something cool",
            Self::Clean => "the task asks for something clean",
            Self::UseLamp => "something is to be examined under a lamp",
            Self::FetchBoth => "the task asks for two objects of a kind",
        }
    }
}

impl Taught for ShopHabit {
    fn titles(self) -> &'static [&'static str] {
        match self {
            Self::SearchKeyWords => {
                &["Search with key words", "Search for words that matter", "Key words in every search"]
            }
            Self::CheckPrice => {
                &["Check the price limit", "Mind the budget", "Compare the price with the limit"]
            }
            Self::CompareNames => &[
                "Compare product names",
                "Take the result whose name fits best",
                "Compare names in the results",
            ],
            Self::ChooseOptions => {
                &["Choose every named option", "Click the options", "Select color and size options"]
            }
            Self::ReadFeatures => {
                &["Read the features", "Open the features first", "Check features and description"]
            }
            Self::TryOthers => &["Try another product", "Go on to the next result", "Look at other products"],
        }
    }

    fn occasion(self) -> &'static str {
        match self {
            Self::SearchKeyWords => "the search page is open",
            Self::CheckPrice => "the instruction names a limit",
            Self::CompareNames => "a list of results is shown",
            Self::ChooseOptions => "a product has choices that the instruction names",
            Self::ReadFeatures => "a product is open",
            Self::TryOthers => "the open product lacks something",
        }
    }
}

impl Taught for SearchHabit {
    fn titles(self) -> &'static [&'static str] {
        match self {
            Self::FollowNames => &[
                "Search for the next name",
                "Follow the names that are found",
                "Search again for found names",
            ],
            Self::BareAnswer => {
                &["Answer with the bare name", "Give the shortest answer", "Only the bare answer"]
            }
        }
    }

    fn occasion(self) -> &'static str {
        match self {
            Self::FollowNames => "a passage names a person or place that the question needs",
            Self::BareAnswer => "the passages answer the question",
        }
    }
}

impl Topic {
    /// What an episode shows to be worth teaching: what would have prevented the failure, or what a success did.
    pub(super) fn of(episode: &EpisodeText) -> Vec<Self> {
        fn habits<L: Lessons>(episode: &EpisodeText, topic: fn(L) -> Topic) -> Vec<Topic> {
            let read = if episode.is_success { L::practised } else { L::diagnose };
            read(&episode.played).into_iter().map(topic).collect()
        }
        match episode.world() {
            World::Household => habits(episode, Self::Household),
            World::Shop => habits(episode, Self::Shop),
            World::Search => habits(episode, Self::Search),
            World::Answers if !episode.is_success => {
                diagnose(&episode.answered).into_iter().map(Self::of_finding).collect()
            }
            World::Answers | World::Unknown => Vec::new(),
        }
    }

    fn of_finding(finding: Finding) -> Self {
        match finding {
            Finding::Word { word, code, field } => Self::Codes { field, pairs: vec![(word, code)] },
            finding => Self::Answer(finding),
        }
    }

    /// Takes in what another one adds, if both are about the same; true if they are.
    pub(super) fn join(&mut self, other: &Self) -> bool {
        if let (Self::Codes { field, pairs }, Self::Codes { field: other, pairs: more }) = (&mut *self, other)
            && field == other
        {
            pairs.extend(more.iter().cloned());
            pairs.sort();
            pairs.dedup_by(|later, earlier| later.0 == earlier.0);
            return true;
        }
        let are_places = matches!(
            (&*self, other),
            (Self::Answer(Finding::PlaceInWords(_)), Self::Answer(Finding::PlaceInWords(_)))
        );
        are_places || self == other
    }

    /// Names it among the dice.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Household(habit) => habit.name(),
            Self::Shop(habit) => habit.name(),
            Self::Search(habit) => habit.name(),
            Self::Answer(finding) => finding.name(),
            Self::Codes { .. } => "codes",
        }
    }

    /// Titles of a skill that teaches it.
    pub(super) fn titles(&self) -> Vec<String> {
        match self {
            Self::Household(habit) => owned(habit.titles()),
            Self::Shop(habit) => owned(habit.titles()),
            Self::Search(habit) => owned(habit.titles()),
            Self::Answer(_) | Self::Codes { .. } => {
                let noun = self.noun();
                vec![
                    format!("House form of {noun}"),
                    format!("How {noun} are written"),
                    format!("One form for {noun}"),
                ]
            }
        }
    }

    /// Rules that teach it; one is enough.
    pub(super) fn rules(&self) -> Vec<String> {
        match self {
            Self::Household(habit) => owned(habit.phrasings()),
            Self::Shop(habit) => owned(habit.phrasings()),
            Self::Search(habit) => owned(habit.phrasings()),
            Self::Answer(finding) => phrasings(finding),
            Self::Codes { field, pairs } => glossary_rules(field, pairs),
        }
    }

    /// When it matters.
    pub(super) fn occasion(&self) -> String {
        match self {
            Self::Household(habit) => habit.occasion().to_owned(),
            Self::Shop(habit) => habit.occasion().to_owned(),
            Self::Search(habit) => habit.occasion().to_owned(),
            Self::Answer(_) | Self::Codes { .. } => format!("the task is about {}", self.noun()),
        }
    }

    /// What goes wrong without it.
    pub(super) fn slip(&self) -> String {
        match self {
            Self::Household(habit) => habit.description().to_owned(),
            Self::Shop(habit) => habit.description().to_owned(),
            Self::Search(habit) => habit.description().to_owned(),
            Self::Answer(finding) => format!("the agent was marked wrong for this: {}", finding.name()),
            Self::Codes { field, .. } => format!("the agent copied the {field} from the record"),
        }
    }

    /// True if a text teaches it, false if the text speaks against it; `None` if it does neither.
    pub(super) fn is_taught_by(&self, text: &str) -> Option<bool> {
        match self {
            Self::Household(habit) => Conduct::read(text).says(*habit),
            Self::Shop(habit) => Conduct::read(text).says(*habit),
            Self::Search(habit) => Conduct::read(text).says(*habit),
            Self::Answer(finding) => {
                let convention = finding.convention()?;
                let mut said = text.lines().flat_map(statements).filter(|said| said.convention == convention);
                said.next_back().map(|said| said.stance == Stance::Wanted)
            }
            Self::Codes { pairs, .. } => {
                let known: Vec<(String, String)> = text.lines().flat_map(glossary).collect();
                pairs.iter().all(|pair| known.contains(pair)).then_some(true)
            }
        }
    }

    /// What an answer's form is about.
    fn noun(&self) -> String {
        let noun = match self {
            Self::Codes { field, .. } => return format!("entries for {field}"),
            Self::Household(_) | Self::Shop(_) | Self::Search(_) => "things",
            Self::Answer(finding) => match finding {
                Finding::Wordy => "answers",
                Finding::DateForm => "dates",
                Finding::ClockForm => "times of day",
                Finding::WrongUnit(unit) if unit.symbol() == "kg" => "weights",
                Finding::WrongUnit(unit) if unit.symbol() == "m" => "lengths",
                Finding::WrongUnit(_) => "amounts",
                Finding::NameOrder => "names of persons",
                Finding::MadeUp(_) => "missing entries",
                Finding::OverAbstained => "entries that exist",
                Finding::Word { .. } => "words",
                Finding::PlaceInWords(_) => "berths",
                Finding::ListForm => "lists",
                Finding::Casing => "terms",
                Finding::Punctuation => "ends of answers",
            },
        };
        noun.to_owned()
    }
}

fn owned(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// Adds topics to what was counted, each with its episode's type.
pub(super) fn count<'e>(episodes: impl IntoIterator<Item = &'e EpisodeText>) -> Vec<Counted<'e>> {
    let mut counted: Vec<Counted<'e>> = Vec::new();
    for episode in episodes {
        for topic in Topic::of(episode) {
            let at = match counted.iter_mut().position(|known| known.topic.join(&topic)) {
                Some(at) => at,
                None => {
                    counted.push(Counted { topic, n_episodes: 0, task_types: Vec::new() });
                    counted.len() - 1
                }
            };
            let Some(known) = counted.get_mut(at) else { continue };
            known.n_episodes += 1;
            if !known.task_types.contains(&episode.task_type.as_str()) {
                known.task_types.push(&episode.task_type);
            }
        }
    }
    // Stable, so of equals the one that was seen first stays first.
    counted.sort_by_key(|known| std::cmp::Reverse(known.n_episodes));
    counted
}

/// A topic with the episodes that speak for it.
#[derive(Debug, PartialEq)]
pub(super) struct Counted<'e> {
    pub(super) topic: Topic,
    pub(super) n_episodes: usize,
    /// The types of these episodes.
    pub(super) task_types: Vec<&'e str>,
}

#[cfg(test)]
mod tests {
    use super::super::prompts::SkillText;
    use super::*;
    use crate::habits::Habit;
    use crate::values::UNITS;

    fn topics() -> Vec<Topic> {
        let mut topics: Vec<Topic> = HouseholdHabit::ALL.iter().copied().map(Topic::Household).collect();
        topics.extend(<ShopHabit as Habit>::ALL.iter().copied().map(Topic::Shop));
        topics.extend(<SearchHabit as Habit>::ALL.iter().copied().map(Topic::Search));
        let units = UNITS.iter().map(Finding::WrongUnit).filter(|finding| finding.convention().is_some());
        let findings = [
            Finding::Wordy,
            Finding::DateForm,
            Finding::ClockForm,
            Finding::NameOrder,
            Finding::MadeUp("unknown".to_owned()),
            Finding::OverAbstained,
            Finding::PlaceInWords("W03".to_owned()),
            Finding::ListForm,
        ];
        topics.extend(findings.into_iter().chain(units).map(Topic::Answer));
        let pairs = vec![("under repair".to_owned(), "UR".to_owned())];
        topics.push(Topic::Codes { field: "state".to_owned(), pairs });
        topics
    }

    fn texts(topic: &Topic) -> Vec<String> {
        let mut texts = Vec::new();
        for rule in topic.rules() {
            for title in topic.titles() {
                let fields = [title, rule.clone(), topic.occasion()];
                texts.push(SkillText { fields, is_mistake: false }.shown());
            }
            let fields = [topic.slip(), String::new(), rule];
            texts.push(SkillText { fields, is_mistake: true }.shown());
        }
        texts
    }

    /// Whatever a teacher writes on a topic is read by the players as this topic, and as nothing else.
    #[test]
    fn every_wording_teaches_its_topic_alone() {
        let mut misread = Vec::new();
        for topic in topics() {
            for text in texts(&topic) {
                if topic.is_taught_by(&text) != Some(true) {
                    misread.push(format!("{topic:?} is not in: {text}"));
                }
                for other in topics().iter().filter(|other| is_distinct(&topic, other)) {
                    if let Some(said) = other.is_taught_by(&text) {
                        misread.push(format!("{topic:?} is read as {other:?} ({said}): {text}"));
                    }
                }
            }
        }
        assert!(misread.is_empty(), "{}", misread.join("\n"));
    }

    /// True for another topic of the same world that is about something else.
    fn is_distinct(topic: &Topic, other: &Topic) -> bool {
        match (topic, other) {
            (Topic::Household(own), Topic::Household(other)) => own != other,
            (Topic::Shop(own), Topic::Shop(other)) => own != other,
            (Topic::Search(own), Topic::Search(other)) => own != other,
            (Topic::Answer(own), Topic::Answer(other)) => own.convention() != other.convention(),
            (Topic::Codes { .. }, Topic::Answer(_)) | (Topic::Answer(_), Topic::Codes { .. }) => true,
            _ => false,
        }
    }
}
