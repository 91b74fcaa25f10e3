//! Questions and passages that are made up: towns, their mayors and where these were born, so that most questions take
//! two searches.

use super::question::Question;
use crate::retrieval::Passage;
use skill_core::random::Dice;

const N_TOWNS: usize = 90;

const FIRST: [&str; 12] =
    ["Ada", "Bruno", "Clara", "Dario", "Elsa", "Felix", "Greta", "Hugo", "Irma", "Jonas", "Karla", "Linus"];
const LAST: [&str; 10] = [
    "Abendroth",
    "Birkholm",
    "Cordes",
    "Dahlgren",
    "Ekwall",
    "Fontane",
    "Gerlach",
    "Holmqvist",
    "Ivers",
    "Jessen",
];
const STEMS: [&str; 10] =
    ["Alder", "Brem", "Corn", "Dorn", "Elster", "Falken", "Grau", "Hasel", "Ilm", "Jever"];
const ENDINGS: [&str; 9] = ["au", "bach", "burg", "dorf", "feld", "haven", "stedt", "wald", "wik"];
const RIVERS: [&str; 8] = ["Ahne", "Bille", "Chora", "Dille", "Esse", "Fuhse", "Gose", "Hunte"];
const TRADES: [&str; 8] = ["glass", "salt", "paper", "cloth", "clocks", "rope", "bricks", "honey"];

/// A small country.
#[derive(Debug, Clone, Copy)]
pub struct MadeUp {
    /// Decides all facts.
    pub seed: u64,
}

impl Default for MadeUp {
    fn default() -> Self {
        Self { seed: 42 }
    }
}

/// A town, with the person who runs it.
struct Town {
    name: String,
    mayor: String,
    birthplace: usize,
    year: u64,
    river: &'static str,
    trade: &'static str,
}

impl MadeUp {
    /// Three questions about each town, with the passages that answer them.
    pub fn questions(self) -> Vec<Question> {
        let towns: Vec<Town> = (0..N_TOWNS).map(|number| self.town(number)).collect();
        let mut questions = Vec::new();
        for (number, town) in towns.iter().enumerate() {
            let Some(birthplace) = towns.get(town.birthplace) else { continue };
            let Some(beyond) = towns.get(birthplace.birthplace) else { continue };
            // All that a question may lead to comes with it.
            let passages = [town.passages(birthplace), birthplace.passages(beyond)].concat();
            let asked = [
                (
                    "single",
                    format!("Which river flows through {}?", town.name),
                    town.river,
                    vec![town.name.clone()],
                ),
                (
                    "bridge",
                    format!("In which town was the mayor of {} born?", town.name),
                    birthplace.name.as_str(),
                    vec![town.name.clone(), town.mayor.clone()],
                ),
                (
                    "bridge",
                    format!("What is made in the town where the mayor of {} was born?", town.name),
                    birthplace.trade,
                    vec![town.name.clone(), town.mayor.clone(), birthplace.name.clone()],
                ),
            ];
            for (kind, (task_type, question, answer, support)) in asked.into_iter().enumerate() {
                questions.push(Question {
                    id: format!("made-up-{number}-{kind}"),
                    question,
                    answers: vec![answer.to_owned()],
                    task_type: task_type.to_owned(),
                    support,
                    passages: passages.clone(),
                });
            }
        }
        questions
    }

    fn town(self, number: usize) -> Town {
        let dice = Dice::new(self.seed, &["made-up town", &number.to_string()]);
        let below = |what: &str, n: usize| (dice.unit(what) * n as f64) as usize;
        let (stem, ending) = (at(&STEMS, number), at(&ENDINGS, number / STEMS.len()));
        let (first, last) = (at(&FIRST, number), at(&LAST, number / FIRST.len()));
        Town {
            name: format!("{stem}{ending}"),
            mayor: format!("{first} {last}"),
            birthplace: (number + 1 + below("birthplace", N_TOWNS - 1)) % N_TOWNS,
            year: 1900 + below("year", 80) as u64,
            river: at(&RIVERS, below("river", RIVERS.len())),
            trade: at(&TRADES, below("trade", TRADES.len())),
        }
    }
}

/// The name of this number, of names that are used again and again.
fn at(names: &[&'static str], number: usize) -> &'static str {
    names.iter().copied().cycle().nth(number % names.len().max(1)).unwrap_or_default()
}

impl Town {
    fn passages(&self, birthplace: &Self) -> Vec<Passage> {
        let Self { name, mayor, year, river, trade, .. } = self;
        let made =
            |title: &str, text: String| Passage { title: title.to_owned(), text, ..Passage::default() };
        vec![
            made(
                name,
                format!(
                    "{name} is a town on the river {river}. It is known for its {trade}, which is made there to this day. \
                     The mayor of {name} is {mayor}."
                ),
            ),
            made(
                mayor,
                format!(
                    "{mayor} was born in {year} in {}, and has been mayor of {name} for many years.",
                    birthplace.name
                ),
            ),
        ]
    }
}
