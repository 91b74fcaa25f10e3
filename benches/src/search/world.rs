//! Families of worlds: what a task needs, what a skill can say about it, and how an optimizer errs.

use crate::search::statement::{ANY_KIND, Mark, Place, Shown, Statement};
use skill_core::named_enum;
use skill_core::random::Dice;
use std::collections::BTreeMap;

/// What an agent writes where no rule tells it the value.
const UNKNOWN: &str = "?";
/// How many harmful habits there are.
const N_HARMS: usize = 8;
/// Turns of a long procedure, and characters of each.
const PROCEDURE_TURNS: usize = 24;
const TURN_CHARS: usize = 1_500;

named_enum! {
    /// A family of worlds.
    pub enum Family {
        /// Each rule helps by itself, and they add up; a reply of the optimizer proposes one.
        Additive = "additive",
        /// A task needs two rules at once; one of them alone changes nothing.
        Joint = "joint",
        /// The right value depends on the kind of the task; a rule for all kinds breaks those that it is wrong for.
        Typed = "typed",
        /// Many facts of the domain, some common and most rare.
        Facts = "facts",
        /// Long trajectories in which only the first error is visible.
        Procedure = "procedure",
        /// As additive, but the agent keeps to a rule four times of five.
        Noisy = "noisy",
        /// As additive, but most replies of the optimizer hold something harmful.
        Harmful = "harmful",
    }
}

/// The numbers of a family.
#[derive(Debug, Clone, Copy)]
pub struct Numbers {
    n_fields: usize,
    kinds: &'static [&'static str],
    /// The least and the most fields of a task.
    needs: [usize; 2],
    /// How often the agent fails to keep to a rule that it has.
    pub noise: f64,
    /// How often a reply of the optimizer proposes a harmful habit too.
    pub harm: f64,
    /// How often a rule that one task alone shows is misread; of two tasks it is the square.
    pub misread: f64,
    /// The probability of one more rule in a reply.
    pub more_rules: f64,
}

impl Family {
    fn numbers(self) -> Numbers {
        let additive = Numbers {
            n_fields: 10,
            kinds: &[ANY_KIND],
            needs: [1, 3],
            noise: 0.05,
            harm: 0.15,
            misread: 0.25,
            more_rules: 0.0,
        };
        match self {
            Self::Additive => additive,
            Self::Joint => Numbers { n_fields: 12, needs: [2, 2], more_rules: 0.5, ..additive },
            Self::Typed => Numbers {
                n_fields: 4,
                kinds: &["A", "B", "C", "D"],
                needs: [1, 2],
                more_rules: 0.35,
                ..additive
            },
            Self::Facts => Numbers { n_fields: 30, needs: [1, 1], more_rules: 0.6, ..additive },
            Self::Procedure => Numbers { n_fields: 8, needs: [2, 3], more_rules: 0.35, ..additive },
            Self::Noisy => Numbers { noise: 0.2, more_rules: 0.35, ..additive },
            Self::Harmful => Numbers { harm: 0.6, more_rules: 0.35, ..additive },
        }
    }
}

/// How many tasks the three splits have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// Tasks that the optimizer sees.
    pub train: usize,
    /// Tasks that decisions are made on.
    pub val: usize,
    /// Tasks that nothing sees.
    pub test: usize,
}

/// A task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Task {
    /// Its name, unique over all splits.
    pub id: String,
    /// Its kind; [`ANY_KIND`] in worlds without kinds.
    pub kind: String,
    /// The fields that are due, in order.
    pub fields: Vec<String>,
}

impl Task {
    /// What the agent is asked.
    pub fn question(&self) -> String {
        format!("Task {} of kind {}: fill in {}.", self.id, self.kind, self.fields.join(", "))
    }
}

/// What an agent answers and what comes of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Attempt {
    /// The answer, as marks.
    pub answer: Vec<Mark>,
    /// Fields that are right, and fields that were due.
    pub n_right: usize,
    /// True if every field is right and no habit spoiled the task.
    pub is_solved: bool,
}

/// A world: hidden rules, and tasks that need them.
#[derive(Debug)]
pub struct World {
    /// Its family.
    pub family: Family,
    /// Its seed, which decides on everything.
    pub seed: u64,
    /// The numbers of its family.
    pub numbers: Numbers,
    splits: [Vec<Task>; 3],
    values: BTreeMap<Place, String>,
}

impl World {
    /// The world of a seed.
    pub fn new(family: Family, seed: u64, sizes: Sizes) -> Self {
        let numbers = family.numbers();
        let dice = Dice::new(seed, &["world", family.as_str()]);
        let mut values = BTreeMap::new();
        for kind in numbers.kinds {
            for field_idx in 0..numbers.n_fields {
                let place = Place { kind: (*kind).to_owned(), field: field(field_idx) };
                let value = format!("v{}", (dice.unit(&format!("value {kind} {field_idx}")) * 10.0) as usize);
                values.insert(place, value);
            }
        }
        let tasks = |prefix: &str, n: usize| -> Vec<Task> {
            (0..n).map(|idx| task(family, &numbers, format!("{prefix}{idx:03}"), dice)).collect()
        };
        let splits = [tasks("t", sizes.train), tasks("v", sizes.val), tasks("x", sizes.test)];
        Self { family, seed, numbers, splits, values }
    }

    /// The tasks of the training, selection and test split.
    pub fn splits(&self) -> &[Vec<Task>; 3] {
        &self.splits
    }

    /// The task of this name.
    pub fn task(&self, id: &str) -> Option<&Task> {
        self.splits.iter().flatten().find(|task| task.id == id)
    }

    /// The right value of a field.
    pub fn value(&self, place: &Place) -> &str {
        self.values.get(place).map_or(UNKNOWN, String::as_str)
    }

    /// What is wanted of a task.
    pub fn wanted(&self, task: &Task) -> Vec<Mark> {
        let places = task.fields.iter().map(|field| Place { kind: task.kind.clone(), field: field.clone() });
        places
            .map(|place| {
                let value = self.value(&place).to_owned();
                Mark { item: task.id.clone(), shown: Shown::Wanted(place, value) }
            })
            .collect()
    }

    /// What an agent with a skill that says this answers to a task; `throw` names the attempt, so that each has dice of
    /// its own.
    pub fn attempt(&self, task: &Task, said: &[Statement], throw: &str) -> Attempt {
        let dice = Dice::new(self.seed, &["attempt", &task.id, throw]);
        let mut answer = Vec::new();
        let mut n_right = 0;
        for field in &task.fields {
            let place = Place { kind: task.kind.clone(), field: field.clone() };
            let known = known_value(said, &place, dice);
            let is_kept = !dice.chance(&format!("lapse {field}"), self.numbers.noise);
            let value = known.filter(|_| is_kept).unwrap_or_else(|| UNKNOWN.to_owned());
            let is_right = value == self.value(&place);
            n_right += usize::from(is_right);
            answer.push(Mark { item: task.id.clone(), shown: Shown::Answered(place, value) });
            if self.family == Family::Procedure && !is_right {
                // What comes after the first error is not reached.
                break;
            }
        }
        let spoilers: Vec<&String> = said
            .iter()
            .filter_map(|statement| match statement {
                Statement::Harm(name) if self.spoils(name, task) => Some(name),
                Statement::Harm(_) | Statement::Rule { .. } | Statement::Idle(_) => None,
            })
            .collect();
        answer.extend(
            spoilers
                .iter()
                .map(|name| Mark { item: task.id.clone(), shown: Shown::Spoiled((*name).clone()) }),
        );
        let is_solved = spoilers.is_empty() && n_right == task.fields.len();
        Attempt { answer, n_right, is_solved }
    }

    /// The attempt that an answer is, as text.
    pub fn read(&self, task: &Task, answer: &str) -> Attempt {
        let marks = Mark::all_in(answer);
        let is_right = |mark: &&Mark| match &mark.shown {
            Shown::Answered(place, value) => value == self.value(place),
            Shown::Wanted(..) | Shown::Spoiled(_) => false,
        };
        let n_right = marks.iter().filter(is_right).count();
        let is_spoiled = marks.iter().any(|mark| matches!(mark.shown, Shown::Spoiled(_)));
        Attempt { is_solved: !is_spoiled && n_right == task.fields.len(), n_right, answer: marks }
    }

    /// The mean of `hard` of a skill over a split, over so many attempts at each task.
    pub fn measure(&self, split: usize, skill: &str, n_attempts: usize) -> f64 {
        let said = Statement::all_in(skill);
        let tasks = self.splits.get(split).map(Vec::as_slice).unwrap_or_default();
        let solved = tasks.iter().flat_map(|task| (0..n_attempts).map(move |attempt| (task, attempt)));
        let solved = solved
            .filter(|(task, attempt)| self.attempt(task, &said, &format!("measure {attempt}")).is_solved);
        solved.count() as f64 / (tasks.len() * n_attempts).max(1) as f64
    }

    /// A habit that the optimizer may take for a good one.
    pub fn harm(&self, dice: Dice) -> Statement {
        Statement::Harm(format!("h{}", (dice.unit("which harm") * N_HARMS as f64) as usize))
    }

    fn spoils(&self, name: &str, task: &Task) -> bool {
        Dice::new(self.seed, &["spoils", name, &task.id]).chance("spoils", 0.35)
    }

    /// The conversation of an attempt, where the family has long ones: role and text of each turn.
    pub fn turns(&self, task: &Task, attempt: &Attempt) -> Vec<(&'static str, String)> {
        if self.family != Family::Procedure {
            return Vec::new();
        }
        let marks = |marks: &[Mark]| marks.iter().map(Mark::to_string).collect::<Vec<_>>().join(" ");
        let wanted = self.wanted(task);
        // The error lies anywhere in the procedure, and nothing is said of it afterwards.
        let dice = Dice::new(self.seed, &["turns", &task.id]);
        let error_at = 2 + (dice.unit("error at") * (PROCEDURE_TURNS - 4) as f64) as usize;
        let first_wrong = attempt.n_right.min(task.fields.len().saturating_sub(1));
        (0..PROCEDURE_TURNS)
            .map(|turn| {
                let filler = "The form shows its next page. ".repeat(TURN_CHARS / 30);
                let news = if turn == error_at && !attempt.is_solved {
                    let shown = wanted.get(..=first_wrong).unwrap_or_default();
                    format!("Error: the form wants {}, and got {}. ", marks(shown), marks(&attempt.answer))
                } else {
                    String::new()
                };
                (if turn % 2 == 0 { "user" } else { "assistant" }, format!("{news}{filler}"))
            })
            .collect()
    }
}

/// What a skill says of a field: what it says of this kind counts before what it says of all; where it contradicts
/// itself the agent takes either.
fn known_value(said: &[Statement], place: &Place, dice: Dice) -> Option<String> {
    let of_kind = |wanted: &str| -> Vec<&String> {
        said.iter()
            .filter_map(|statement| match statement {
                Statement::Rule { kind, field, value } => {
                    (kind == wanted && *field == place.field).then_some(value)
                }
                Statement::Harm(_) | Statement::Idle(_) => None,
            })
            .collect()
    };
    let mut values = of_kind(&place.kind);
    if values.is_empty() {
        values = of_kind(ANY_KIND);
    }
    values.sort();
    values.dedup();
    let chosen = (dice.unit(&format!("either {}", place.field)) * values.len() as f64) as usize;
    values.get(chosen).map(|value| (*value).clone())
}

fn task(family: Family, numbers: &Numbers, id: String, dice: Dice) -> Task {
    let dice = Dice::new((dice.unit("tasks") * 1e9) as u64, &[&id]);
    let pick = |label: &str, n: usize| ((dice.unit(label) * n as f64) as usize).min(n.saturating_sub(1));
    let kind = numbers.kinds.get(pick("kind", numbers.kinds.len())).copied().unwrap_or(ANY_KIND);
    let [least, most] = numbers.needs;
    let n_needs = least + pick("needs", most - least + 1);
    let mut fields: Vec<usize> = Vec::new();
    let mut throw = 0;
    while fields.len() < n_needs {
        throw += 1;
        let chosen = match family {
            // Pairs that belong together.
            Family::Joint => match fields.first() {
                Some(first) => first ^ 1,
                None => pick("pair", numbers.n_fields),
            },
            // The common facts first: the square of a uniform number is small more often than not.
            Family::Facts => {
                let unit = dice.unit(&format!("field {throw}"));
                (unit * unit * numbers.n_fields as f64) as usize
            }
            Family::Additive | Family::Typed | Family::Procedure | Family::Noisy | Family::Harmful => {
                pick(&format!("field {throw}"), numbers.n_fields)
            }
        };
        if !fields.contains(&chosen) {
            fields.push(chosen);
        }
    }
    Task { id, kind: kind.to_owned(), fields: fields.into_iter().map(field).collect() }
}

fn field(field_idx: usize) -> String {
    format!("f{field_idx:02}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: Sizes = Sizes { train: 40, val: 40, test: 100 };

    fn whole_skill(world: &World) -> String {
        let rules = world.values.iter();
        rules.map(|(place, value)| Statement::rule(&place.kind, &place.field, value).line() + "\n").collect()
    }

    #[test]
    fn a_skill_with_every_rule_solves_what_noise_leaves_and_an_empty_one_nothing() {
        for family in Family::ALL {
            let world = World::new(family, 7, SIZES);
            let whole = world.measure(2, &whole_skill(&world), 3);
            assert!(whole > 0.6, "{}: {whole}", family.as_str());
            assert_eq!(world.measure(2, "", 3), 0.0, "{}", family.as_str());
        }
    }

    #[test]
    fn one_rule_of_a_pair_changes_nothing_and_both_do() {
        let world = World::new(Family::Joint, 3, SIZES);
        let rule = |field: &str| {
            let place = Place { kind: ANY_KIND.to_owned(), field: field.to_owned() };
            Statement::rule(ANY_KIND, field, world.value(&place)).line()
        };
        assert_eq!(world.measure(2, &rule("f00"), 3), 0.0);
        assert!(world.measure(2, &format!("{}\n{}", rule("f00"), rule("f01")), 3) > 0.05);
    }

    #[test]
    fn a_rule_for_all_kinds_is_wrong_for_some() {
        let world = World::new(Family::Typed, 3, SIZES);
        let place = Place { kind: "A".to_owned(), field: "f00".to_owned() };
        let whole = whole_skill(&world);
        let blunt: String =
            whole.lines().filter(|line| !line.contains("f00")).map(|l| l.to_owned() + "\n").collect();
        let blunt = blunt + &Statement::rule(ANY_KIND, "f00", world.value(&place)).line();
        assert!(world.measure(2, &blunt, 3) < world.measure(2, &whole, 3) - 0.1);
    }

    #[test]
    fn harmful_habits_spoil_about_a_third_of_the_tasks() {
        let world = World::new(Family::Additive, 5, SIZES);
        let whole = whole_skill(&world);
        let spoiled = whole.clone() + &Statement::Harm("h1".to_owned()).line();
        let ratio = world.measure(2, &spoiled, 5) / world.measure(2, &whole, 5);
        assert!((0.5..0.8).contains(&ratio), "{ratio}");
    }
}
