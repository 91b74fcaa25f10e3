//! How much is measured, and how often.

use clap::Args;

/// What is measured, and how often.
#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Numbers of calls in flight whose rates are compared.
    pub(crate) widths: Vec<u32>,
    /// Rounds in which the compared programs run in turn.
    pub(crate) repetitions: usize,
    /// Rounds of calls before those that are measured.
    pub(crate) warm_up_rounds: u64,
    /// Rounds of calls that are measured.
    pub(crate) rounds: u64,
    /// Calls in flight where the memory is measured.
    pub(crate) wide: u32,
    /// Rounds of calls where the memory is measured, and before.
    pub(crate) wide_rounds: u64,
    /// Items of train, val and test.
    pub(crate) items: [usize; 3],
    /// Items of the run whose validation calls are counted: train and val.
    pub(crate) counted_items: [usize; 2],
    /// Calls in flight in the runs whose validation calls are counted.
    pub(crate) counted_widths: Vec<u32>,
    /// How much is measured of each world.
    pub(crate) worlds: WorldArgs,
    /// How large the runs are that are looked at.
    pub(crate) runs: RunsArgs,
    /// How often the real engine of ALFWorld loads its game.
    pub(crate) real_loads: u32,
    /// How long it takes steps, in seconds.
    pub(crate) real_seconds: u32,
}

impl Plan {
    /// What the table needs.
    pub(crate) fn full() -> Self {
        Self {
            widths: vec![24, 64, 256],
            repetitions: 5,
            warm_up_rounds: 10,
            rounds: 60,
            wide: 2_048,
            wide_rounds: 6,
            items: [400, 200, 200],
            counted_items: [400, 200],
            counted_widths: vec![1, 24],
            worlds: WorldArgs::FULL,
            runs: RunsArgs::FULL,
            real_loads: 5,
            real_seconds: 15,
        }
    }

    /// What shows that everything works.
    pub(crate) fn quick() -> Self {
        Self {
            repetitions: 1,
            warm_up_rounds: 1,
            rounds: 2,
            wide: 128,
            wide_rounds: 1,
            items: [80, 40, 40],
            counted_items: [40, 40],
            worlds: WorldArgs::QUICK,
            runs: RunsArgs::QUICK,
            real_loads: 1,
            real_seconds: 1,
            ..Self::full()
        }
    }
}

/// How much is measured of a world.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct WorldArgs {
    /// How often what has to be there first is loaded.
    #[arg(long, default_value_t = Self::FULL.loads)]
    pub(crate) loads: u32,
    /// How many rounds of steps are taken.
    #[arg(long, default_value_t = Self::FULL.rounds)]
    pub(crate) rounds: u32,
    /// Steps, or searches, of a round.
    #[arg(long, default_value_t = Self::FULL.steps)]
    pub(crate) steps: u32,
    /// How many episodes are idle at the same time where the memory is measured.
    #[arg(long, default_value_t = Self::FULL.episodes)]
    pub(crate) episodes: u32,
}

impl WorldArgs {
    /// What the table needs.
    pub(crate) const FULL: Self = Self { loads: 200, rounds: 9, steps: 10_000, episodes: 8_000 };
    /// What shows that everything works.
    pub(crate) const QUICK: Self = Self { loads: 5, rounds: 1, steps: 200, episodes: 100 };

    pub(crate) fn options(self) -> Vec<String> {
        let Self { loads, rounds, steps, episodes } = self;
        let options = [("loads", loads), ("rounds", rounds), ("steps", steps), ("episodes", episodes)];
        options.into_iter().flat_map(|(name, value)| [format!("--{name}"), value.to_string()]).collect()
    }
}

/// The size of the workload.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunsArgs {
    /// Steps of the run of many steps.
    pub(crate) many_steps: u32,
    /// Megabytes of the large journal.
    pub(crate) journal_megabytes: u32,
    /// Items of the evaluation.
    pub(crate) evaluated_items: u32,
    /// Whether Python measures too.
    pub(crate) has_scripts: bool,
}

impl RunsArgs {
    /// What the table needs.
    pub(crate) const FULL: Self =
        Self { many_steps: 10_000, journal_megabytes: 1_000, evaluated_items: 4_000, has_scripts: true };
    /// What shows that everything works.
    pub(crate) const QUICK: Self =
        Self { many_steps: 500, journal_megabytes: 4, evaluated_items: 100, has_scripts: false };
}
