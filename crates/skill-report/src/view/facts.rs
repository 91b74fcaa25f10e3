//! The facts of a run, each a name and a text, the same in every medium.

use crate::data::bank::{BankBrief, BankScore};
use crate::data::overview::{Brief, RunOverview};
use crate::data::phases::{PhaseGain, PhasesBrief};
use crate::data::rl::{NOT_COMPUTED, RlBrief};
use crate::data::sft::SftBrief;
use crate::words::{counted, grouped, percent, results, seconds, seconds_left};
use serde::Serialize;
use skill_core::GateMetric;
use skill_pipeline::records::phases::{Phase, TestGames};
use skill_pipeline::records::sft::SftGames;
use skill_pipeline::records::summary::ProposalCounts;
use std::fmt::Write as _;

/// A fact about a run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// Its name, a word.
    pub name: &'static str,
    /// The text.
    pub words: String,
}

impl Fact {
    /// A fact of this name.
    pub fn new(name: &'static str, words: impl Into<String>) -> Self {
        Self { name, words: words.into() }
    }
}

impl RunOverview {
    /// The results so far.
    pub fn facts(&self) -> Vec<Fact> {
        let verdict = self.verdict.as_ref().map(|verdict| Fact::new("verdict", verdict.line()));
        let facts = match &self.brief {
            Some(Brief::Bank(bank)) => bank.facts(),
            Some(Brief::Phases(phases)) => phases.facts(),
            Some(Brief::Sft(sft)) => sft.facts(),
            Some(Brief::Rl(rl)) => rl.facts(),
            None => self.facts_of_document(),
        };
        // The verdict has the numbers of the test split.
        let facts = facts.into_iter().filter(|fact| verdict.is_none() || fact.name != "test");
        let cautions = self.cautions.iter().map(|words| Fact::new("caution", words.clone()));
        verdict.iter().cloned().chain(facts).chain(cautions).collect()
    }

    fn facts_of_document(&self) -> Vec<Fact> {
        let (mut facts, metric) = (Vec::new(), metric_words(self.metric));
        if let (Some(baseline), Some(best), Some(step)) = (self.baseline, self.best, self.best_step) {
            let origin = if step == 0 { "the initial skill".to_owned() } else { format!("step {step}") };
            let counts = match self.proposals {
                None => format!("{} accepted", self.n_accepted),
                Some(ProposalCounts { made, fixed, accepted, .. }) => format!(
                    "{fixed} of {} fixed tasks they came from; {accepted} accepted",
                    counted(made as u64, "proposal")
                ),
            };
            facts.push(Fact::new(
                "score",
                format!("validation {} → {}{metric} ({origin}), {counts}", percent(baseline), percent(best)),
            ));
        }
        if let Some([before, after]) = self.test {
            facts.push(Fact::new("test", format!("{} → {}{metric}", percent(before), percent(after))));
        }
        facts
    }

    /// The kind of the run; `None` for a document.
    pub fn kind_words(&self) -> Option<&'static str> {
        Some(match self.brief.as_ref()? {
            Brief::Bank(_) => "a bank",
            Brief::Phases(_) => "weights and bank",
            Brief::Sft(_) => "fine-tuning",
            Brief::Rl(_) => "reinforcement learning",
        })
    }

    /// The name of one of its steps.
    pub fn unit(&self) -> &'static str {
        match self.brief {
            Some(Brief::Bank(_)) => "round",
            Some(Brief::Phases(_)) => "phase",
            Some(Brief::Rl(_)) => "iteration",
            Some(Brief::Sft(_)) | None => "step",
        }
    }

    /// True if it trains weights, whose steps send no requests.
    pub fn trains_weights(&self) -> bool {
        match self.brief {
            Some(Brief::Sft(_) | Brief::Rl(_) | Brief::Phases(_)) => true,
            Some(Brief::Bank(_)) | None => false,
        }
    }

    /// The result of a run that trains weights in a few words, for a list of runs.
    pub fn in_short(&self) -> Option<String> {
        match self.brief.as_ref()? {
            Brief::Sft(sft) => sft.in_short(),
            Brief::Rl(rl) => rl.in_short(),
            Brief::Bank(_) | Brief::Phases(_) => None,
        }
    }
}

/// The metric of a score in brackets; empty for the default metric.
pub fn metric_words(metric: GateMetric) -> &'static str {
    match metric {
        GateMetric::Hard => "",
        GateMetric::Soft => " (soft)",
        GateMetric::Mixed => " (mixed)",
    }
}

impl BankScore {
    /// The strict score with its interval, and with its items where they are not known from another score.
    fn in_words(&self, has_items: bool) -> String {
        let [low, high] = self.interval;
        let items = if has_items { format!(", {}", counted(self.n as u64, "item")) } else { String::new() };
        format!("{} ({:.1} to {}{items})", percent(self.hard), low * 100.0, percent(high))
    }

    fn rise(before: Option<&Self>, after: &Self) -> String {
        let before = before.map(|before| format!("{} → ", before.in_words(false))).unwrap_or_default();
        format!("{before}{}", after.in_words(true))
    }
}

impl BankBrief {
    /// The scores, the skills by state and the trials by verdict.
    pub fn facts(&self) -> Vec<Fact> {
        let score = match (&self.baseline, &self.validation, self.validation_round) {
            (baseline, Some(last), Some(round)) => {
                format!("validation {}, after round {round}", BankScore::rise(baseline.as_ref(), last))
            }
            (Some(baseline), _, _) => format!("validation {} without a bank", baseline.in_words(true)),
            (None, _, _) => "the validation split without a bank is being measured".to_owned(),
        };
        let mut facts = vec![Fact::new("score", score)];
        if let Some([before, after]) = &self.test {
            facts.push(Fact::new("test", BankScore::rise(Some(before), after)));
        }
        facts.push(Fact::new("bank", self.counts()));
        facts
    }

    /// Skills by state and trials by verdict, such as `4 skills active, 2 waiting, 1 retired; 7 trials: 3 admitted, …`.
    fn counts(&self) -> String {
        let (skills, trials) = (self.skills, self.trials);
        // Where recorded episodes are shown, all that is active is one.
        let what = if skills.episodes > 0 { "recorded episode" } else { "skill" };
        let mut words = counted(skills.active as u64, what) + " active";
        let others = [
            (skills.unmeasured, "of them not measured"),
            (skills.waiting, "waiting"),
            (skills.retired, "retired"),
            (skills.pinned, "pinned"),
        ];
        for (n, what) in others.into_iter().filter(|(n, _)| *n > 0) {
            let _ = write!(words, ", {n} {what}");
        }
        let _ = write!(
            words,
            "; {}: {} admitted, {} rejected, {} undecided",
            counted(trials.total() as u64, "trial"),
            trials.admitted,
            trials.rejected,
            trials.undecided
        );
        words
    }
}

impl SftBrief {
    /// Losses, games, the last step and what was trained on.
    pub fn facts(&self) -> Vec<Fact> {
        let mut lines = Vec::new();
        if let (Some(first), Some(loss)) = (self.first_loss, self.loss) {
            lines.push(Fact::new("loss", format!("{first:.4} → {loss:.4}")));
        }
        if let Some(last) = self.validation_loss {
            let first = self.first_validation_loss.map(|first| format!("{first:.4} → ")).unwrap_or_default();
            let best =
                self.best_validation_loss.map(|best| format!(", lowest {best:.4}")).unwrap_or_default();
            lines.push(Fact::new("valid", format!("{first}{last:.4}{best}")));
        }
        lines.extend(games(self.first_games, self.games));
        if let (Some(rate), Some(norm)) = (self.learning_rate, self.grad_norm) {
            lines.push(Fact::new("rate", format!("{rate:.2e}, gradient norm {norm:.3}")));
        }
        if let Some(speed) = self.tokens_per_second {
            let memory = self.peak_memory.map(|bytes| format!(", {:.2} GB at its peak", bytes as f64 / 1e9));
            lines.push(Fact::new("speed", format!("{speed:.0} tokens/s{}", memory.unwrap_or_default())));
        }
        lines
            .extend(self.seconds_left.map(|left| Fact::new("left", format!("about {}", seconds_left(left)))));
        let time = self.seconds.map(|time| format!(", {}", seconds(time)));
        lines.push(Fact::new(
            "spent",
            format!("{} tokens trained on{}", grouped(self.tokens), time.unwrap_or_default()),
        ));
        lines
    }

    /// The losses in a few words, for a list of runs.
    fn in_short(&self) -> Option<String> {
        let validation = self.validation_loss.map(|loss| format!(", validation {loss:.4}"));
        Some(format!("fine-tuning: loss {:.4}{}", self.loss?, validation.unwrap_or_default()))
    }
}

impl RlBrief {
    /// Returns, games, the policy, the signs of a run that goes wrong with what to try, and what was trained on.
    pub fn facts(&self) -> Vec<Fact> {
        let mut lines = Vec::new();
        if let (Some(first), Some(reward)) = (self.first_reward, self.reward) {
            lines.push(Fact::new("return", format!("{first:.3} → {reward:.3}")));
        }
        if let (Some(first), Some(last)) = (self.first_episodes, self.episodes) {
            lines.push(Fact::new("won", format!("{} → {} episodes", of(first), of(last))));
        }
        if self.by_task_type.len() > 1 {
            let types = self.by_task_type.iter().map(|(name, won)| format!("{name} {}", of(*won)));
            lines.push(Fact::new("types", types.collect::<Vec<_>>().join(", ")));
        }
        lines.extend(games(self.first_games, self.games));
        if let Some(groups) = self.groups_without_signal {
            let known = |number: Option<String>| number.unwrap_or_else(|| NOT_COMPUTED.to_owned());
            let kl = known(self.kl.map(|kl| format!("{kl:.4}")));
            let clipped = known(self.clipped.map(|clipped| format!("{:.1} %", 100.0 * clipped)));
            let entropy = match (self.first_entropy, self.entropy) {
                (Some(first), Some(last)) => format!(", entropy {first:.3} → {last:.3}"),
                _ => String::new(),
            };
            lines.push(Fact::new(
                "policy",
                format!(
                    "{:.0} % of groups without signal, KL {kl}, clipped {clipped}{entropy}",
                    100.0 * groups
                ),
            ));
        }
        if let (Some(first), Some(last)) = (self.first_reply_tokens, self.reply_tokens) {
            let invalid = self
                .invalid_actions
                .map(|number| format!(", {number:.2} invalid actions"))
                .unwrap_or_default();
            lines.push(Fact::new("length", format!("{first:.0} → {last:.0} tokens an episode{invalid}")));
        }
        if let (Some(speed), Some(seconds)) = (self.tokens_per_second, self.iteration_seconds) {
            let norm = self.grad_norm.map(|norm| format!(", gradient norm {norm:.3}")).unwrap_or_default();
            lines.push(Fact::new("speed", format!("{speed:.0} tokens/s, {seconds:.1} s an iteration{norm}")));
        }
        lines
            .extend(self.seconds_left.map(|left| Fact::new("left", format!("about {}", seconds_left(left)))));
        let time = self.seconds.map(|time| format!(", {}", seconds(time)));
        lines.push(Fact::new(
            "spent",
            format!(
                "{} tokens sampled, {} trained on{}",
                grouped(self.sampled_tokens),
                grouped(self.tokens),
                time.unwrap_or_default()
            ),
        ));
        lines.extend(
            self.signs
                .iter()
                .flat_map(|found| [Fact::new("sign", found.message.clone()), Fact::new("try", found.advice)]),
        );
        lines
    }

    /// The episodes won in a few words, for a list of runs.
    fn in_short(&self) -> Option<String> {
        let games = self.games.map(|games| format!(", {} games", won(games))).unwrap_or_default();
        let signs: Vec<String> =
            self.signs.iter().map(|found| found.sign.as_str().replace('_', " ")).collect();
        let signs = if signs.is_empty() { String::new() } else { format!(", {}", signs.join(", ")) };
        Some(format!("reinforcement learning: {} episodes won{games}{signs}", of(self.episodes?)))
    }
}

impl PhasesBrief {
    /// Each phase with what it came to, the games of the test split, and what they show.
    pub fn facts(&self) -> Vec<Fact> {
        let phases = self.phases.iter().map(|found| {
            let figures = results(found.phase, &found.figures);
            let figures = if figures.is_empty() { figures } else { format!(", {figures}") };
            let time = found.seconds.map(|seconds| format!(" in {seconds:.0} s")).unwrap_or_default();
            Fact::new(found.phase.as_str(), format!("{}{time}{figures}", found.state.as_str()))
        });
        phases.chain(self.results()).collect()
    }

    /// The games of the test split, and what they show.
    pub fn results(&self) -> Vec<Fact> {
        let won = self.test.iter().map(|games| Fact::new("won", tested(games)));
        won.chain(self.gains().iter().map(|gain| Fact::new("verdict", PhaseGain::sentence(gain)))).collect()
    }
}

/// What a policy wins of the test split.
fn tested(found: &TestGames) -> String {
    let policy = match found.policy {
        None => "before training",
        Some(Phase::Sft) => "after fine-tuning",
        Some(_) if found.has_skills => "after reinforcement learning",
        Some(_) => "the same without skills",
    };
    let [low, high] = found.games.interval.map(|share| 100.0 * share);
    format!(
        "{policy}: {} of {} test games ({:.1} %, 95 % interval {low:.1} to {high:.1})",
        found.games.won,
        found.games.played,
        100.0 * found.games.score
    )
}

/// Games before training and as they were played last, with their 95 % intervals.
fn games(first: Option<SftGames>, last: Option<SftGames>) -> Option<Fact> {
    let words = |games: SftGames, what: &str| {
        let [low, high] = games.interval.map(|share| share * 100.0);
        format!("{}{what} ({low:.0} to {high:.0} %)", won(games))
    };
    let before = first.map(|games| format!("{} → ", words(games, ""))).unwrap_or_default();
    last.map(|games| Fact::new("games", format!("{before}{}", words(games, " won"))))
}

fn of([won, played]: [usize; 2]) -> String {
    format!("{won} of {played}")
}

fn won(games: SftGames) -> String {
    format!("{} of {}", games.won, games.played)
}
