//! The verdict on a run that trains a document: by its files, or by its summary alone.

use super::arms::{self, ArmRow};
use super::headline::{Comparison, Headline};
use super::labels::{self, Classes, MissingRule};
use super::source::Source;
use super::standing::{RunPhase, Standing};
use super::steps::Chosen;
use super::{ReportOptions, simulated, uncounted, unfinished};
use crate::ReportError;
use crate::verdict::{Arms, Caution, CautionKind, Outcome, Verdict, Versus};
use crate::words::{counted, dollars, grouped, percent};
use indexmap::IndexMap;
use skill_core::stats::{detectable_effect, items_needed};
use skill_core::{GateMetric, SkillOrigin};
use skill_pipeline::PipelineError;
use skill_pipeline::RunReader;
use skill_pipeline::noise::{ALPHA, POWER, recorded_flip_rate};
use skill_pipeline::records::TokensByStage;
use skill_pipeline::records::arm::ArmName;
use skill_pipeline::records::document::{StepAction, StepRecord};
use skill_pipeline::records::paired::PairedRecord;
use skill_pipeline::records::summary::{ProposalCounts, Summary};
use skill_pipeline::run_dir::Sent;
use skill_pipeline::run_dir::checks::{CheckWarning, read_checks};

/// The gain for which the number of items is said that it takes.
const SMALL_GAIN: f64 = 0.05;
/// Tokens of a task that changed by less than this share are not worth a sentence.
const LEAST_GROWTH: f64 = 0.1;
/// The most classes that are named, and the most p-values.
const MAX_NAMED: usize = 3;
/// An accepted step whose p-value is above this may be chance.
const CHANCE: f64 = 0.05;

impl From<&Comparison> for Versus {
    fn from(of: &Comparison) -> Self {
        Self { score: of.before, difference: of.difference, interval: Some(of.difference_interval) }
    }
}

/// The metric of scores, where it is to be said.
fn metric_name(metric: GateMetric) -> &'static str {
    match metric {
        GateMetric::Hard => "",
        GateMetric::Soft | GateMetric::Mixed => metric.as_str(),
    }
}

/// The parts of a report that the verdict on a document's run is made from; [`Report::read`](super::Report::read) adds
/// the others from the same source.
pub(super) struct Judged<'run> {
    pub(super) source: Source<'run>,
    pub(super) tokens: TokensByStage,
    pub(super) headline: Headline,
    pub(super) classes: Option<Classes>,
    pub(super) phase: RunPhase,
    pub(super) reason: Option<String>,
    /// True if `best_skill.md` is not as the run left it.
    pub(super) is_skill_changed: bool,
    pub(super) verdict: Verdict,
}

impl<'run> Judged<'run> {
    /// `None` before the initial skill is measured.
    pub(super) fn read(run: &'run RunReader, options: &ReportOptions) -> Result<Option<Self>, PipelineError> {
        let Some(state) = run.state()? else { return Ok(None) };
        let source = Source::read(run, &state)?;
        let tokens = run.used()?;
        let headline = Headline::read(&source, &tokens, options.gate)?;
        let classes =
            labels::read(&source, &Chosen::of(&source.history, options.max_steps), options.max_items)?;
        let is_skill_changed = match run.best_skill() {
            Ok(_) => false,
            Err(PipelineError::ChangedSkill { .. }) => true,
            Err(error) => return Err(error),
        };
        let Standing { phase, reason, .. } = Standing::of(run.path(), source.summary.is_some());
        let mut verdict = of_headline(&headline, &source);
        verdict.arms = headline.arms.iter().map(ArmRow::in_brief).collect();
        verdict.missing_arms = arms::missing(&source, &headline.arms)?;
        let cautions = cautions(&headline, verdict.outcome, classes.as_ref(), &source)?;
        let changed = is_skill_changed.then(|| {
            let said =
                "best_skill.md was changed after the run wrote it; what is shown here is the run's own.";
            Caution::new(CautionKind::ChangedSkill, said)
        });
        let said =
            unfinished(phase).into_iter().chain(changed).chain(not_kept(&source)).chain(simulated(run));
        let verdict = verdict.with_cautions(said.chain(cautions));
        Ok(Some(Self { source, tokens, headline, classes, phase, reason, is_skill_changed, verdict }))
    }
}

impl Verdict {
    /// Reads the verdict on a run that trains a document, the same that [`Report::read`](super::Report::read) has, without
    /// reading the rest; `costs` gives the cost of each stage that has prices.
    ///
    /// # Errors
    ///
    /// As for [`Report::read`](super::Report::read).
    pub fn read(
        run: &RunReader,
        options: &ReportOptions,
        costs: impl FnOnce(&TokensByStage) -> IndexMap<String, f64>,
    ) -> Result<Self, ReportError> {
        let unread = uncounted(&Sent::of(run)?);
        let Some(mut judged) = Judged::read(run, options)? else {
            return Ok(not_measured(run).with_cautions(unread));
        };
        let costs = costs(&judged.tokens);
        Ok(judged.verdict.with_cautions(unread).priced(&mut judged.headline, &costs))
    }

    /// The same verdict after the arms have their prices.
    pub(super) fn priced(mut self, headline: &mut Headline, costs: &IndexMap<String, f64>) -> Self {
        arms::price(&mut headline.arms, costs);
        self.cautions.retain(|caution| caution.kind != CautionKind::Price);
        self.with_cautions(price(&headline.arms))
    }
}

/// That an imported run lacks results of its best skill.
fn not_kept(source: &Source<'_>) -> Option<Caution> {
    let splits = [("validation", Some(&source.selection)), ("test", source.test.as_ref())];
    let lacking = splits.into_iter().filter(|(_, pair)| pair.is_some_and(|pair| pair.lacks_best()));
    let lacking: Vec<&str> = lacking.map(|(split, _)| split).collect();
    (!lacking.is_empty()).then(|| {
        let words = format!(
            "The imported run has no results of its best skill on the {} split: those of the initial skill are shown instead.",
            lacking.join(" and the ")
        );
        Caution::new(CautionKind::DamagedFile, words)
    })
}

/// The verdict on a run whose initial skill is not measured yet.
pub(super) fn not_measured(run: &RunReader) -> Verdict {
    let verdict = Verdict::new(Outcome::Unfinished, "the initial skill is not measured yet");
    let phase = Standing::of(run.path(), false).phase;
    verdict.with_cautions(unfinished(phase).into_iter().chain(simulated(run)))
}

/// What a run came to, by its files; without cautions.
pub(super) fn of_headline(headline: &Headline, source: &Source<'_>) -> Verdict {
    let is_finished = source.summary.is_some();
    let arm = |name: ArmName| headline.arms.iter().find(|arm| arm.name == name);
    let none = arm(ArmName::NoSkill).and_then(|arm| arm.trained.as_ref());
    let n_unread = n_unread(&source.history);
    let selection = &headline.selection;
    match &headline.test {
        _ if !is_finished => Verdict::new(
            Outcome::Unfinished,
            format!(
                "{} instead of {} on {} so far",
                percent(selection.after),
                percent(selection.before),
                counted(selection.n as u64, "validation item")
            ),
        ),
        test if source.is_unchanged() => {
            let first = test.as_ref().map(|test| ("test", test)).unwrap_or(("validation", selection));
            let tried =
                Tried { n_candidates: headline.n_candidates, n_unread, proposals: headline.proposals };
            unchanged(first, none, tried, metric_name(headline.metric))
        }
        Some(test) => Verdict::of_arms(&Arms {
            split: "test",
            n_items: test.n,
            trained: test.after,
            first: test.into(),
            none: none.map(Versus::from),
            first_name: "",
            metric: metric_name(headline.metric),
        }),
        None => untested([selection.before, selection.after], Some(selection.n)),
    }
}

/// Steps without a readable edit.
pub(super) fn n_unread(history: &[StepRecord]) -> usize {
    history.iter().filter(|record| record.has_no_edit() && !record.notes.is_empty()).count()
}

/// A run whose best skill is the one that it began with.
fn unchanged(
    (split, first): (&str, &Comparison),
    none: Option<&Comparison>,
    tried: Tried,
    metric: &str,
) -> Verdict {
    if let Some(none) = none.map(Versus::from) {
        let arms = Arms {
            split,
            n_items: first.n,
            trained: first.after,
            first: first.into(),
            none: Some(none),
            first_name: "",
            metric,
        };
        let verdict = Verdict::of_arms(&arms);
        if verdict.outcome == Outcome::WorseThanNone {
            let words = format!(
                "no candidate was better than the initial skill, and that has {} where no skill at all has {}",
                percent(first.after),
                percent(none.score)
            );
            return Verdict { words, ..verdict };
        }
    }
    let items = counted(first.n as u64, &format!("{split} item"));
    not_better(tried, first.after, &items)
}

/// What was tried in vain.
#[derive(Debug, Clone, Copy)]
struct Tried {
    n_candidates: usize,
    /// Steps without a readable edit.
    n_unread: usize,
    /// Of a planned search.
    proposals: Option<ProposalCounts>,
}

impl Tried {
    fn why(self) -> String {
        match (self.n_candidates, self.proposals) {
            (0, Some(counts)) if self.n_unread < counts.made => of_proposals(counts),
            (0, _) if self.n_unread == 0 => "no step produced a candidate".to_owned(),
            (0, _) => {
                "no step produced a candidate, because no optimizer reply held a readable edit".to_owned()
            }
            (1, _) => "the one candidate was not better".to_owned(),
            (n, _) => format!("none of {} was better", counted(n as u64, "candidate")),
        }
    }
}

/// Why no proposal was compared.
fn of_proposals(counts: ProposalCounts) -> String {
    let made = counted(counts.made as u64, "proposal");
    match counts {
        ProposalCounts { fixed: 0, .. } => format!("none of {made} solved the tasks that it was made from"),
        ProposalCounts { taken: 0, .. } => format!("none of {made} solved its tasks without losing others"),
        ProposalCounts { taken, .. } => {
            format!("{taken} of {made} helped in training, and the caps left no room for a comparison")
        }
    }
}

/// No candidate was better: how many there were, and what the initial skill has on which items.
fn not_better(tried: Tried, score: f64, items: &str) -> Verdict {
    let why = tried.why();
    Verdict::new(Outcome::Unchanged, format!("{why}; the initial skill has {} on {items}", percent(score)))
}

fn untested([before, after]: [f64; 2], n_items: Option<usize>) -> Verdict {
    let items =
        n_items.map_or_else(|| "the validation split".to_owned(), |n| counted(n as u64, "validation item"));
    let words =
        format!("{} instead of {} on {items}, which chose the skill", percent(after), percent(before));
    Verdict::new(Outcome::Untested, words)
}

impl Verdict {
    /// What a finished run that trains a document came to, by its summary and the number of its test items, where that is
    /// known; without cautions.
    pub fn of_summary(summary: &Summary, n_test: Option<usize>) -> Self {
        Self::of_finished(summary, n_test, 0)
    }

    /// The same, where so many steps had no readable edit.
    pub(super) fn of_finished(summary: &Summary, n_test: Option<usize>, n_unread: usize) -> Self {
        let versus = |score: f64, paired: &PairedRecord| {
            Some(Versus { score, difference: paired.difference?, interval: paired.interval })
        };
        let none = summary.test_no_skill.as_ref().and_then(|none| {
            Some((versus(none.score, none.paired.as_ref()?)?, none.paired.as_ref()?.n_items))
        });
        let is_unchanged = summary.best_skill.origin == SkillOrigin::Initial;
        let tried = Tried {
            n_candidates: summary.total_accepts + summary.total_rejects + summary.total_indecisive,
            n_unread,
            proposals: summary.search.as_ref().and_then(|search| search.proposals),
        };
        let Some([before, after]) = summary.test() else {
            let [before, after] = [summary.baseline_selection_score, summary.best_selection_score];
            return match is_unchanged {
                true => not_better(tried, before, "the validation split"),
                false => untested([before, after], None),
            };
        };
        if is_unchanged && none.is_none_or(|(none, _)| !none.is_below_0()) {
            let items =
                n_test.map_or_else(|| "the test split".to_owned(), |n| counted(n as u64, "test item"));
            return not_better(tried, after, &items);
        }
        let paired = summary.test_paired.as_ref();
        let same = Versus { score: before, difference: after - before, interval: None };
        let n_items = paired.map(|paired| paired.n_items).or(none.map(|(_, n_items)| n_items)).or(n_test);
        Self::of_arms(&Arms {
            split: "test",
            n_items: n_items.unwrap_or_default(),
            trained: after,
            first: paired.and_then(|paired| versus(before, paired)).unwrap_or(same),
            none: none.map(|(none, _)| none),
            first_name: "",
            metric: metric_name(summary.test_metric()),
        })
    }
}

/// What a reader should know before trusting the numbers of a document's run.
pub(super) fn cautions(
    headline: &Headline,
    outcome: Outcome,
    classes: Option<&Classes>,
    source: &Source<'_>,
) -> Result<Vec<Caution>, PipelineError> {
    let mut said = Vec::new();
    let mut say = |kind, words: String| said.push(Caution::new(kind, words));
    let Source { run, history, summary, .. } = source;
    match &headline.test {
        Some(_) => {}
        None if summary.is_some() => say(
            CautionKind::Untested,
            "The test split was not read, so nothing is known about tasks outside of training.".to_owned(),
        ),
        None => say(CautionKind::Untested, "The test split is read once, at the end.".to_owned()),
    }
    let n_unread = history.iter().filter(|record| record.has_no_edit() && !record.notes.is_empty()).count();
    if n_unread > 0 {
        say(
            CautionKind::Unreadable,
            format!(
                "In {n_unread} of {} steps no optimizer reply contained a readable edit, so nothing was tried: each step says why.",
                history.len()
            ),
        );
    }
    if let Some(none) = headline.arms.iter().find(|arm| arm.name == ArmName::NoSkill)
        && let Some(against) = &none.trained
        && outcome != Outcome::WorseThanNone
        && against.difference_interval[0] <= 0.0
    {
        say(
            CautionKind::NoSkillAsGood,
            format!(
                "No skill at all has {} on the same items: the skill is not shown to be worth anything.",
                percent(none.score)
            ),
        );
    }
    let n_test = headline.test.as_ref().map(|test| test.n);
    match (recorded_flip_rate(run)?, n_test) {
        (Some(rate), Some(n_test)) if rate > 0.0 => say(CautionKind::Noise, noise(rate, n_test)),
        (_, Some(n_test)) if outcome == Outcome::Unclear => {
            say(CautionKind::FewItems, few_items(n_test));
        }
        _ => {}
    }
    said.extend(of_checks(run)?);
    if let Some(classes) = classes {
        said.extend(of_classes(classes));
    }
    said.extend(price(&headline.arms));
    said.extend(accepted_by_chance(source));
    let n_indecisive = history.iter().filter(|record| record.action == StepAction::Indecisive).count();
    if n_indecisive > 0 {
        let verb = if n_indecisive == 1 { "was" } else { "were" };
        said.push(Caution::new(
            CautionKind::Undecided,
            format!(
                "{} {verb} inconclusive: the validation split has too few items to show whether they were better.",
                counted(n_indecisive as u64, "candidate")
            ),
        ));
    }
    if headline.n_candidates > 1 && !source.is_unchanged() {
        let what = match headline.fresh {
            Some(_) => "The validation score that chose the skill",
            None => "The validation score of the skill",
        };
        let words =
            format!("{what} is the best of {}, so it is optimistic (selection bias).", headline.best_of);
        said.push(Caution::new(CautionKind::BestOf, words));
    }
    Ok(said)
}

fn noise(rate: f64, n_test: usize) -> String {
    let needed = items_needed(SMALL_GAIN, rate, ALPHA, POWER).unwrap_or_default();
    format!(
        "With the flip rate of {:.0} %, {}; a gain of {:.0} points needs {}.",
        100.0 * rate,
        detectable(rate, n_test),
        100.0 * SMALL_GAIN,
        counted(needed as u64, "item")
    )
}

fn few_items(n_test: usize) -> String {
    format!("At best, {}.", detectable(0.0, n_test))
}

/// The minimum detectable gain, such as `the minimum detectable gain of 40 test items is 27 points`.
fn detectable(flip_rate: f64, n_test: usize) -> String {
    let gain = 100.0 * detectable_effect(flip_rate, n_test, ALPHA, POWER);
    format!("the minimum detectable gain of {} is {gain:.0} points", counted(n_test as u64, "test item"))
}

/// What the checks before the run found in its data.
fn of_checks(run: &RunReader) -> Result<Vec<Caution>, PipelineError> {
    // By now the run has measured its noise and what its splits can show, which has cautions of its own.
    let is_measured_since = |found: &CheckWarning| ["selection", "decisions"].contains(&found.check.as_str());
    let found = read_checks(run.path())?.into_iter().filter(|found| !is_measured_since(found));
    let words =
        |found: CheckWarning| format!("Found before the run: {}.", found.message.trim_end_matches('.'));
    Ok(found.map(|found| Caution::new(CautionKind::Data, words(found))).collect())
}

/// Doubtful labels, and classes that got worse.
fn of_classes(classes: &Classes) -> Vec<Caution> {
    let mut said = Vec::new();
    if !classes.missing_rules.is_empty() {
        let named: Vec<String> =
            classes.missing_rules.iter().take(MAX_NAMED).map(MissingRule::words).collect();
        let words = format!("The skill may lack a rule: {}.", named.join(", "));
        said.push(Caution::new(CautionKind::MissingRules, words));
    }
    let n_doubtful = classes.doubtful.len() + classes.n_doubtful_left_out;
    if n_doubtful > 0 {
        let verb = if n_doubtful == 1 { "looks" } else { "look" };
        let words = format!(
            "{} of the data {verb} wrong: see the doubtful labels of the report.",
            counted(n_doubtful as u64, "label")
        );
        said.push(Caution::new(CautionKind::DoubtfulLabels, words));
    }
    let mut worse: Vec<_> = classes
        .rows
        .iter()
        .filter_map(|row| Some((row, row.before?, row.after?)))
        .filter(|(_, before, after)| after < before)
        .collect();
    worse.sort_by(|first, second| (first.2 - first.1).total_cmp(&(second.2 - second.1)));
    if !worse.is_empty() {
        let named = worse.iter().take(MAX_NAMED).map(|(row, before, after)| {
            format!("{} from {} to {} of {}", row.label, percent(*before), percent(*after), row.n)
        });
        let named: Vec<String> = named.collect();
        let more = match worse.len().saturating_sub(MAX_NAMED) {
            0 => String::new(),
            n => format!(", and {n} more"),
        };
        let words = format!("Classes that fell: {}{more}.", named.join(", "));
        said.push(Caution::new(CautionKind::WorseClasses, words));
    }
    said
}

/// What a task takes with the trained skill, where that changed.
pub(super) fn price(arms: &[ArmRow]) -> Option<Caution> {
    let arm = |name: ArmName| arms.iter().find(|arm| arm.name == name);
    let (first, trained) = (arm(ArmName::Initial)?, arm(ArmName::Trained)?);
    let (before, after) = (first.tokens?, trained.tokens?);
    let growth = after / before.max(1.0) - 1.0;
    if growth.abs() < LEAST_GROWTH {
        return None;
    }
    let money = match (first.money, trained.money) {
        (Some(before), Some(after)) => {
            format!(" ({} instead of {} for 1,000 tasks)", dollars(1000.0 * after), dollars(1000.0 * before))
        }
        _ => String::new(),
    };
    let words = format!(
        "A task takes {} tokens instead of {} ({:+.0} %){money}; the skill has {} tokens instead of {}.",
        grouped(after.round() as u64),
        grouped(before.round() as u64),
        100.0 * growth,
        grouped(trained.skill_tokens),
        grouped(first.skill_tokens)
    );
    Some(Caution::new(CautionKind::Price, words))
}

/// Accepted steps that chance may have made look good.
fn accepted_by_chance(source: &Source<'_>) -> Option<Caution> {
    let is_for_score = |record: &&StepRecord| !record.saving.is_some_and(|saving| saving.is_decisive);
    let accepted = source.history.iter().filter(|record| record.action.is_accept()).filter(is_for_score);
    let p_values: Vec<f64> = accepted
        .clone()
        .filter_map(|record| record.paired.as_ref()?.mcnemar_p)
        .filter(|p| *p > CHANCE)
        .collect();
    let (n_accepted, n_chance) = (accepted.count(), p_values.len());
    let shown: Vec<String> = p_values.iter().take(MAX_NAMED).map(|p| format!("{p:.2}")).collect();
    let more = if n_chance > MAX_NAMED { ", .." } else { "" };
    (n_chance > 0).then(|| {
        let words = format!(
            "{n_chance} of {n_accepted} accepted steps are not statistically significant (p {}{more}).",
            shown.join(", ")
        );
        Caution::new(CautionKind::AcceptedByChance, words)
    })
}

#[cfg(test)]
mod tests {
    use super::Tried;
    use serde_json::json;

    #[test]
    fn a_search_in_vain_says_where_its_proposals_ended() {
        for (fixed, taken, n_unread, part) in [
            (0, 0, 3, "solved the tasks"),
            (3, 0, 0, "without losing others"),
            (3, 2, 0, "no room"),
            (0, 0, 20, "held a readable edit"),
        ] {
            let counts = json!({"made": 20, "fixed": fixed, "taken": taken, "accepted": 0});
            let proposals = Some(serde_json::from_value(counts).unwrap());
            let why = Tried { n_candidates: 0, n_unread, proposals }.why();
            assert!(why.contains(part), "{why}");
        }
    }
}
