//! Rules are taken out of a skill.

use super::world::{Counted, Words, target};
use skill_core::rules::skill_rules;
use skill_core::{Gate, NonInferiority, SkillDoc};
use skill_llm::{Journal, JournalOptions};
use skill_pipeline::prune::{PruneRecord, PruneSettings, RuleDecision, RuleToTry, prune};
use skill_pipeline::stage::rollout::Rollouts;
use skill_pipeline::stage::{Draws, StageCtx};
use skill_pipeline::{EarlyStop, NoEvents, PipelineError, Stage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Six of ten words, two of them twice, and a rule that names none.
const SKILL: &str = "# Skill\n\n## Words\n\n- alpha bravo\n- charlie\n- no word\n- alpha\n\n## More\n\n- delta echo\n- foxtrot\n";

struct Pruning {
    margin: f64,
    early_stop: EarlyStop,
    order: Vec<usize>,
    per_item: usize,
    workers: usize,
}

impl Default for Pruning {
    fn default() -> Self {
        Self { margin: 0.0, early_stop: EarlyStop::Exact, order: (0..6).collect(), per_item: 1, workers: 4 }
    }
}

impl Pruning {
    fn run(&self, target: &Arc<Counted>, dir: &Path) -> Result<(SkillDoc, PruneRecord), PipelineError> {
        let skill = SkillDoc::new(SKILL);
        assert_eq!(skill_rules(&skill).len(), 6);
        let order: Vec<RuleToTry> =
            self.order.iter().map(|&rule_idx| RuleToTry { rule_idx, origin: None }).collect();
        let rule = NonInferiority { gate: Gate::default(), margin: self.margin };
        let settings = PruneSettings { rule, early_stop: self.early_stop, seed: 1 };
        let work = async {
            let journal = Journal::open(&dir.join("journal.db"), JournalOptions::default()).unwrap();
            let ctx = StageCtx {
                workers: self.workers,
                journal: Some(journal.clone()),
                draws: Draws { first: self.per_item, per_item: self.per_item },
                ..StageCtx::new(Stage::Evaluate, &NoEvents)
            };
            let mut n_told = 0;
            let told = |record: &PruneRecord, skill: &SkillDoc| {
                assert_eq!(record.skill_after, skill.hash());
                n_told += 1;
                Ok(())
            };
            let rollouts = Rollouts::local(Arc::new(Words::new()), Arc::clone(target) as _, None);
            let pruned = prune(&rollouts, &skill, &order, &settings, &ctx, told).await;
            journal.flush().await.unwrap();
            if pruned.is_ok() {
                assert_eq!(n_told, self.order.len() + 1);
            }
            pruned
        };
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
    }

    /// What is left, and what became of each rule that was tried.
    fn outcome(&self) -> (String, Vec<(usize, bool)>, PruneRecord) {
        let dir = tempfile::tempdir().unwrap();
        let (skill, record) = self.run(&target(usize::MAX), dir.path()).unwrap();
        let decisions = record.rules.iter().map(|rule| (rule.rule, rule.decision == RuleDecision::Removed));
        (skill.source_text().to_owned(), decisions.collect(), record)
    }
}

#[test]
fn what_the_score_does_not_need_is_taken_out() {
    let (text, decisions, record) = Pruning::default().outcome();
    // `alpha bravo` is tried first, and only it has `bravo`; of the two that say `alpha` the second goes.
    assert_eq!(decisions, [(1, false), (2, false), (3, true), (4, true), (5, false), (6, false)]);
    insta::assert_debug_snapshot!(
        text,
        @r##""# Skill\n\n## Words\n\n- alpha bravo\n- charlie\n\n## More\n\n- delta echo\n- foxtrot\n""##
    );
    assert_eq!((record.score_before, record.score_after, record.n_removed), (0.6, 0.6, 2));
    assert!(record.is_finished);
    insta::assert_json_snapshot!("pruning_record", record);
}

#[test]
fn many_small_losses_do_not_add_up() {
    let (text, decisions, record) = Pruning { margin: 0.1, ..Pruning::default() }.outcome();
    // Each of `bravo`, `charlie` and `foxtrot` is one item of ten; only the first of them may go.
    assert_eq!(decisions, [(1, true), (2, false), (3, true), (4, false), (5, false), (6, false)]);
    assert_eq!((record.score_before, record.score_after), (0.6, 0.5));
    assert!(text.contains("- alpha\n") && text.contains("- charlie\n"), "{text}");
}

#[test]
fn a_section_goes_with_its_last_rule() {
    let (text, _, _) = Pruning { margin: 0.3, order: vec![4, 5], ..Pruning::default() }.outcome();
    insta::assert_debug_snapshot!(
        text,
        @r##""# Skill\n\n## Words\n\n- alpha bravo\n- charlie\n- no word\n- alpha\n""##
    );
}

#[test]
fn giving_up_early_changes_no_decision() {
    for margin in [0.0, 0.1, 0.2, 0.35] {
        for per_item in [1, 3] {
            for order in [[0, 1, 2, 3, 4, 5], [5, 4, 3, 2, 1, 0], [2, 0, 4, 1, 3, 5]] {
                let of = |early_stop, workers| {
                    Pruning { margin, early_stop, order: order.to_vec(), per_item, workers }.outcome()
                };
                let (early, whole) = (of(EarlyStop::Exact, 4), of(EarlyStop::Off, 4));
                assert_eq!((&early.0, &early.1), (&whole.0, &whole.1), "{margin} {per_item} {order:?}");
                assert_eq!(early.2, of(EarlyStop::Exact, 1000).2);
                let n_seen =
                    |record: &PruneRecord| record.rules.iter().map(|rule| rule.n_seen).sum::<usize>();
                assert!(n_seen(&early.2) <= n_seen(&whole.2));
            }
        }
    }
}

#[test]
fn a_pruning_that_was_stopped_goes_on_where_it_was() {
    let whole = target(usize::MAX);
    let dir = tempfile::tempdir().unwrap();
    let expected = Pruning { workers: 1, ..Pruning::default() }.run(&whole, dir.path()).unwrap();
    let n_whole = whole.n_replies.load(Ordering::Relaxed);
    // The same again asks nobody.
    let again = target(usize::MAX);
    assert_eq!(Pruning::default().run(&again, dir.path()).unwrap(), expected);
    assert_eq!(again.n_calls.load(Ordering::Relaxed), 0);
    for fails_from in [0, 5, 13, 27] {
        let dir = tempfile::tempdir().unwrap();
        let failing = target(fails_from);
        let stopped = Pruning { workers: 1, ..Pruning::default() };
        stopped.run(&failing, dir.path()).unwrap_err();
        let rest = target(usize::MAX);
        assert_eq!(stopped.run(&rest, dir.path()).unwrap(), expected);
        let n_both = failing.n_replies.load(Ordering::Relaxed) + rest.n_replies.load(Ordering::Relaxed);
        assert_eq!(n_both, n_whole, "{fails_from}");
    }
}
