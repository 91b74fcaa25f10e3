//! The table of parameters that environments are sampled from.

use super::stream::Stream;
use skill_core::named_enum;
use skill_core::random::Dice;

/// The most harmful habits of an environment.
const HARMS: [usize; 2] = [2, 8];
/// The fewest and the most calls per validation task, and calls.
const CALLS_PER_VALIDATION_TASK: [f64; 2] = [5.0, 40.0];
const CALLS: [f64; 2] = [150.0, 3_000.0];
/// The fewest and the most tasks of a split.
const TASKS: [f64; 2] = [15.0, 200.99];

named_enum! {
    /// The table as it is, or with one weakness of search turned up.
    pub enum Variant {
        /// The table as it is.
        Base = "base",
        /// No rules: each edit shifts all tasks a little.
        Diffuse = "diffuse",
        /// 15 training tasks.
        FewTasks = "few-tasks",
        /// Each line beyond a few costs 1 to 2 points.
        Length = "length",
        /// Four of five causes that one failure shows are misread.
        Misread = "misread",
        /// The optimizer names the wrong tasks.
        WrongNames = "wrong-names",
        /// Up to ten edits in a reply.
        ManyRules = "many-rules",
        /// Half of the initial skill is right, and four of its lines are harmful.
        Defective = "defective",
        /// Nearly half of all edits are harmful.
        Harmful = "harmful",
    }
}

/// The numbers of an environment.
#[derive(Debug, Clone, PartialEq)]
pub struct Parameters {
    /// How much each edit shifts all tasks; 0 where tasks need rules.
    pub diffuse: f64,
    /// How often each rule is needed, relative to the others.
    pub weights: Vec<f64>,
    /// How often a task needs a second and a third rule.
    pub more_needs: [f64; 2],
    /// How often a task needs a certain pair of rules.
    pub pairs: f64,
    /// How many rules work only with another one.
    pub prerequisites: f64,
    /// Kinds of tasks.
    pub n_kinds: usize,
    /// How many rules depend on the kind.
    pub typed: f64,
    /// True if tasks name their kind.
    pub has_labels: bool,
    /// How often the target does right without a rule.
    pub unaided: f64,
    /// Harmful habits, and the share of tasks that each spoils.
    pub n_harms: usize,
    /// See `n_harms`.
    pub spoils: f64,
    /// The probability of one more edit in a reply, and the most edits.
    pub more_edits: f64,
    /// See `more_edits`.
    pub most_edits: usize,
    /// How often an edit is a harmful habit, without effect, or the answer of one task.
    pub harmful: f64,
    /// See `harmful`.
    pub idle: f64,
    /// See `harmful`.
    pub answers: f64,
    /// How often a reply has a harmful edit besides.
    pub companion: f64,
    /// How often a cause that one failure shows is misread; of two it is the square.
    pub misread: f64,
    /// How often a rule of one kind is written for all, and the reverse.
    pub too_general: f64,
    /// See `too_general`.
    pub too_narrow: f64,
    /// How often the cause of a failure is seen.
    pub insight: f64,
    /// True if only the first error of a trajectory can be seen.
    pub first_only: bool,
    /// How often an edit repeats the skill.
    pub repeats: f64,
    /// How often the anchor of a replacement or deletion is not in the skill.
    pub anchor_misses: f64,
    /// How often edits that failed before are not proposed again.
    pub heeds: f64,
    /// How much more often each failure beyond four makes a reply bad.
    pub dilution: f64,
    /// How much a solved task beside the failures helps.
    pub solved_helps: f64,
    /// True if the optimizer gives the same reply to the same failures and skill.
    pub is_optimizer_fixed: bool,
    /// How often the optimizer names the tasks that an edit is for.
    pub names_right: f64,
    /// How often a task fails in spite of its rules, and is solved without them.
    pub noise: f64,
    /// See `noise`.
    pub luck: f64,
    /// True if task and skill decide the outcome.
    pub is_target_fixed: bool,
    /// Tasks that nothing solves, and tasks that need nothing.
    pub never: f64,
    /// See `never`.
    pub always: f64,
    /// True if scores are graded.
    pub is_graded: bool,
    /// Tasks of the training, validation and test split.
    pub n_train: usize,
    /// See `n_train`.
    pub n_val: usize,
    /// The cap on all calls.
    pub calls: usize,
    /// Lines that cost nothing, and what each further one costs.
    pub free_lines: f64,
    /// See `free_lines`.
    pub line_cost: f64,
    /// How many rules the initial skill has, its harmful lines, and its lines without effect.
    pub initial_rules: f64,
    /// See `initial_rules`.
    pub initial_harms: usize,
    /// See `initial_rules`.
    pub initial_idle: usize,
}

/// Throws by the name of a parameter, so that a new parameter leaves the others as they are.
struct Table {
    dice: Dice,
}

impl Table {
    fn stream(&self, name: &str) -> Stream {
        let seed = (self.dice.unit(name) * f64::from(u32::MAX)) as u64;
        Stream::new(Dice::new(seed, &[name]))
    }

    fn between(&self, name: &str, range: [f64; 2]) -> f64 {
        self.stream(name).range(range)
    }

    fn chance(&self, name: &str, probability: f64) -> bool {
        self.stream(name).chance(probability)
    }

    /// A number of the range in a part of the environments, and 0 in the others.
    fn sometimes(&self, name: &str, probability: f64, range: [f64; 2]) -> f64 {
        let mut stream = self.stream(name);
        if stream.chance(probability) { stream.range(range) } else { 0.0 }
    }

    fn pick<T: Copy>(&self, name: &str, choices: &[T]) -> Option<T> {
        self.stream(name).pick(choices)
    }

    /// Training tasks, validation tasks and calls that the bench can compare searches on.
    fn sizes(&self) -> [usize; 3] {
        let mut stream = self.stream("sizes");
        loop {
            let sizes = [TASKS, TASKS, CALLS].map(|range| stream.log_range(range) as usize);
            let [_, n_val, calls] = sizes.map(|size| size as f64);
            let [low, high] = CALLS_PER_VALIDATION_TASK;
            if (low..=high).contains(&(calls / n_val)) && calls >= 4.5 * n_val + 30.0 {
                return sizes;
            }
        }
    }
}

impl Parameters {
    /// The environment of a seed.
    pub fn sample(seed: u64, variant: Variant) -> Self {
        let table = Table { dice: Dice::new(seed, &["parameters"]) };
        let n_rules = table.stream("rules").log_range([4.0, 40.99]) as usize;
        let exponent = table.pick("exponent", &[0.0, 0.5, 1.0, 1.5]).unwrap_or_default();
        let offset = table.between("offset", [1.0, 4.0]);
        let noise = table.pick("noise", &[0.0, 0.02, 0.05, 0.1, 0.2, 0.3]).unwrap_or_default();
        let [n_train, n_val, calls] = table.sizes();
        let has_kinds = table.chance("has kinds", 0.5);
        let sampled = Self {
            diffuse: 0.0,
            weights: (0..n_rules).map(|idx| (idx as f64 + offset).powf(-exponent)).collect(),
            more_needs: [table.between("second", [0.0, 0.6]), table.between("third", [0.0, 0.2])],
            pairs: table.sometimes("pairs", 0.25, [0.3, 1.0]),
            prerequisites: table.sometimes("prerequisites", 0.25, [0.1, 0.4]),
            n_kinds: if has_kinds { table.pick("kinds", &[2, 3, 4, 6]).unwrap_or(1) } else { 1 },
            typed: table.between("typed", [0.2, 1.0]),
            has_labels: table.chance("labels", 0.7),
            unaided: table.sometimes("unaided", 0.5, [0.0, 0.5]),
            n_harms: HARMS[0] + table.stream("harms").below(HARMS[1] - HARMS[0] + 1),
            spoils: table.between("spoils", [0.1, 0.5]),
            more_edits: table.between("more edits", [0.0, 0.75]),
            most_edits: 4,
            harmful: table.between("harmful", [0.0, 0.3]),
            idle: table.between("idle", [0.0, 0.3]),
            answers: table.sometimes("answers", 0.4, [0.0, 0.2]),
            companion: table.sometimes("companion", 0.3, [0.0, 0.4]),
            misread: table.between("misread", [0.0, 0.5]),
            too_general: table.between("too general", [0.0, 0.6]),
            too_narrow: table.between("too narrow", [0.0, 0.3]),
            insight: table.between("insight", [0.5, 1.0]),
            first_only: table.chance("first only", 0.3),
            repeats: table.between("repeats", [0.0, 0.3]),
            anchor_misses: table.between("anchor misses", [0.0, 0.2]),
            heeds: table.between("heeds", [0.0, 0.95]),
            dilution: table.between("dilution", [0.0, 0.06]),
            solved_helps: table.between("solved helps", [0.0, 0.5]),
            is_optimizer_fixed: table.chance("fixed optimizer", 0.4),
            names_right: table.between("names right", [0.4, 1.0]),
            noise,
            luck: noise * table.between("luck", [0.0, 0.6]),
            is_target_fixed: table.chance("fixed target", 0.3),
            never: table.sometimes("never", 0.5, [0.0, 0.15]),
            always: table.sometimes("always", 0.5, [0.0, 0.3]),
            is_graded: table.chance("graded", 0.3),
            n_train,
            n_val,
            calls,
            free_lines: n_rules as f64 * table.between("free lines", [0.8, 1.5]),
            line_cost: table.sometimes("line cost", 0.3, [0.002, 0.02]),
            initial_rules: table.sometimes("initial rules", 0.5, [0.0, 0.5]),
            initial_harms: if table.chance("initial harm", 0.2) { 1 + table.stream("n").below(2) } else { 0 },
            initial_idle: table.stream("initial idle").below(4),
        };
        sampled.with(variant, &table)
    }

    fn with(self, variant: Variant, table: &Table) -> Self {
        match variant {
            Variant::Base => self,
            Variant::Diffuse => {
                let diffuse = table.pick("diffuse", &[0.3, 0.6, 1.0]).unwrap_or(0.6);
                Self { diffuse, is_graded: false, line_cost: 0.0, ..self }
            }
            Variant::FewTasks => Self { n_train: 15, ..self },
            Variant::Length => Self { line_cost: table.between("high line cost", [0.01, 0.02]), ..self },
            Variant::Misread => Self { misread: 0.8, ..self },
            Variant::WrongNames => Self { names_right: 0.0, ..self },
            Variant::ManyRules => Self { more_edits: 0.9, most_edits: 10, ..self },
            Variant::Defective => Self { initial_rules: 0.5, initial_harms: 4, n_harms: HARMS[1], ..self },
            Variant::Harmful => Self { harmful: 0.45, ..self },
        }
    }

    /// Tasks of the test split: as many as of the validation split.
    pub fn n_test(&self) -> usize {
        self.n_val
    }

    /// Calls of the cap per validation task.
    pub fn calls_per_validation_task(&self) -> f64 {
        self.calls as f64 / self.n_val as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_lie_in_the_ranges_that_the_bench_reports() {
        for seed in 0..300 {
            let sampled = Parameters::sample(seed, Variant::Base);
            assert!((5.0..=40.0).contains(&sampled.calls_per_validation_task()), "{seed}");
            assert!((15..=200).contains(&sampled.n_val) && (15..=200).contains(&sampled.n_train), "{seed}");
            assert!(
                (150..=3_000).contains(&sampled.calls) && (4..=40).contains(&sampled.weights.len()),
                "{seed}"
            );
        }
    }

    #[test]
    fn a_variant_changes_its_own_numbers_only() {
        for variant in Variant::ALL {
            let pairs =
                (0..20).map(|seed| [Variant::Base, variant].map(|variant| Parameters::sample(seed, variant)));
            let pairs: Vec<[Parameters; 2]> = pairs.collect();
            let changes = pairs.iter().any(|[base, changed]| base != changed);
            assert_eq!(changes, variant != Variant::Base, "{}", variant.as_str());
            assert!(
                pairs
                    .iter()
                    .all(|[base, changed]| base.calls == changed.calls && base.weights == changed.weights)
            );
        }
    }
}
