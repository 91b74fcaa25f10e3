//! What an item is shown decides whether it is worked on again, and is on record.

use crate::world::{WORDS, Words, target};
use async_trait::async_trait;
use skill_core::{Gate, RolloutResult, SkillDoc, SkillPartId};
use skill_envs::source::document;
use skill_envs::{EnvError, Shown, SkillSource, Split, TaskView};
use skill_llm::{CallCtx, Journal, JournalOptions};
use skill_pipeline::stage::StageCtx;
use skill_pipeline::stage::evaluate::{CandidatePlan, evaluate, evaluate_candidate};
use skill_pipeline::stage::rollout::Rollouts;
use skill_pipeline::{NoEvents, Stage};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A bank with one rule for each word, of which an agent is shown the one for its task.
struct Rules {
    version: u32,
    /// The words whose rules this version words differently.
    reworded: &'static [&'static str],
}

#[async_trait]
impl SkillSource for Rules {
    fn version(&self) -> String {
        format!("rules {}", self.version)
    }

    async fn show(&self, task: &TaskView<'_>, _: &CallCtx) -> Result<Shown, EnvError> {
        // Without a goal there is nothing to select by.
        let words = WORDS.iter().filter(|word| task.goal.is_empty() || **word == task.goal);
        let rule = |word: &&str| {
            let version = if self.reworded.contains(word) { self.version } else { 1 };
            format!("- rule {word} {version}\n")
        };
        let text: String = words.clone().map(rule).collect();
        Ok(Shown::new(SkillDoc::new(text), words.map(|word| SkillPartId::new(*word)).collect()))
    }
}

fn rules(version: u32, reworded: &'static [&'static str]) -> Arc<dyn SkillSource> {
    Arc::new(Rules { version, reworded })
}

/// How many rollouts a measurement of this source makes, and its results.
fn measured(
    dir: &Path,
    knows_goals: bool,
    source: &Arc<dyn SkillSource>,
    in_the_gate: bool,
) -> (usize, Vec<RolloutResult>) {
    let mut env = Words::new();
    env.knows_goals = knows_goals;
    let env = Arc::new(env);
    let rollouts = Rollouts::local(Arc::clone(&env) as _, target(usize::MAX), None);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let results = runtime.block_on(async {
        let journal = Journal::open(&dir.join("journal.sqlite"), JournalOptions::default()).unwrap();
        let ctx = StageCtx { journal: Some(journal.clone()), ..StageCtx::new(Stage::Evaluate, &NoEvents) };
        let results = if in_the_gate {
            let order = (0..WORDS.len()).rev().collect();
            let plan = CandidatePlan { order, rejection: None, known: &BTreeMap::new(), risk: None };
            evaluate_candidate(&rollouts, Split::Val, source, plan, &ctx).await.unwrap().results
        } else {
            evaluate(&rollouts, Split::Val, source, &ctx).await.unwrap().results
        };
        journal.flush().await.unwrap();
        results
    });
    (env.n_rollouts.load(Ordering::Relaxed), results)
}

fn parts(results: &[RolloutResult]) -> Vec<Vec<&str>> {
    let of = |result: &'_ RolloutResult| result.trajectory.shown_parts.clone();
    let named = results.iter().map(of).map(|parts| {
        let name = |part: &SkillPartId| *WORDS.iter().find(|word| **word == part.as_str()).unwrap();
        parts.iter().map(name).collect()
    });
    named.collect()
}

#[test]
fn only_items_that_are_shown_something_else_are_run_again() {
    for in_the_gate in [false, true] {
        let dir = tempfile::tempdir().unwrap();
        let (n_rollouts, first) = measured(dir.path(), true, &rules(1, &[]), in_the_gate);
        assert_eq!(n_rollouts, 10);
        assert!(first.iter().all(RolloutResult::is_success), "each item is shown its rule");
        assert_eq!(parts(&first), WORDS.map(|word| vec![word]));
        let second = rules(2, &["delta", "golf"]);
        let (n_rollouts, results) = measured(dir.path(), true, &second, in_the_gate);
        assert_eq!((n_rollouts, parts(&results)), (2, parts(&first)));
        // A document that happens to be what an item was shown is shown the same.
        let (n_rollouts, _) =
            measured(dir.path(), true, &document(&SkillDoc::new("- rule echo 1\n")), in_the_gate);
        assert_eq!(n_rollouts, 9);
    }
}

#[test]
fn where_a_reset_tells_the_goal_the_version_of_the_source_decides() {
    let dir = tempfile::tempdir().unwrap();
    let (n_rollouts, first) = measured(dir.path(), false, &rules(1, &[]), false);
    assert_eq!(n_rollouts, 10);
    assert_eq!(parts(&first), WORDS.map(|word| vec![word]), "the source is asked after the reset");
    assert_eq!(measured(dir.path(), false, &rules(1, &[]), false), (0, first.clone()));
    let (n_rollouts, results) = measured(dir.path(), false, &rules(2, &["delta"]), true);
    assert_eq!((n_rollouts, parts(&results)), (10, parts(&first)));
}

#[test]
fn a_document_is_shown_whole_and_has_no_parts() {
    let dir = tempfile::tempdir().unwrap();
    let skill = SkillDoc::new("alpha bravo");
    for knows_goals in [true, false] {
        let (n_rollouts, results) = measured(dir.path(), knows_goals, &document(&skill), false);
        // Keys of documents are the same however the goal is known.
        assert_eq!(n_rollouts, if knows_goals { 10 } else { 0 });
        let score = Gate::default().score(skill_core::MeanScore::of_results(&results));
        assert!((score - 0.2).abs() < 1e-9, "{score}");
        assert!(results.iter().all(|result| result.trajectory.shown_parts.is_empty()));
    }
}
