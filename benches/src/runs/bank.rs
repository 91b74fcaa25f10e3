//! The story of a run that trains a bank: in each round one skill is admitted and one rejected.

use super::story::{results, tokens};
use super::{BankRunSize, RunSize};
use serde_json::{Value, json};
use skill_bank::trial::TrialNumbers;
use skill_bank::{
    Author, Bank, BankEvent, Basis, Content, Evidence, Occasion, Reason, SkillProvenance, SkillRef, Tier,
    TrialVerdict, Utility,
};
use skill_core::stats::stratified::{Arm, Stratified, TaskStratum};
use skill_core::{ItemId, MeanScore, SkillHash};
use skill_pipeline::PipelineError;
use skill_pipeline::bank_dir::BankDir;
use skill_pipeline::records::bank::{BANK_DIR, LOG_FILE, RECORD_FILE, ROUNDS_DIR, SUMMARY_FILE};
use skill_pipeline::records::evaluation::Evaluation;
use skill_pipeline::records::{ConfigFile, FORMAT_VERSION};
use skill_pipeline::run_dir::{EvaluationDir, RunDir, atomic};
use std::collections::BTreeMap;
use std::path::Path;

/// Rollouts that a trial may take at most.
const MAX_ROLLOUTS: u64 = 64;

/// Writes a run that trains a bank; the directory is made if it does not exist.
pub(crate) fn make(path: &Path, size: &BankRunSize) -> Result<(), PipelineError> {
    let dir = RunDir::open(path)?;
    dir.write_config(
        &ConfigFile::new(json!({"env": {"kind": "made"}, "train": {"mode": "bank"}}), BTreeMap::new()),
        None,
    )?;
    let bank = path.join(BANK_DIR);
    atomic::create_dir(&bank)?;
    atomic::write(&bank.join(LOG_FILE), Bank::new().log_text().as_bytes())?;
    let bank = BankDir::open(&bank)?;
    let mut story = BankStory { size, dir: &dir, bank, n_trials: 0, n_admitted: 0 };
    let baseline = story.evaluate(EvaluationDir::Baseline, "val", size.n_selection, 0)?;
    let mut score = baseline;
    for round in 0..size.n_rounds {
        score = story.make_round(round)?;
    }
    if size.is_finished { story.finish(baseline, score) } else { story.begin_trial(size.n_rounds).map(drop) }
}

struct BankStory<'of> {
    size: &'of BankRunSize,
    dir: &'of RunDir,
    bank: BankDir,
    n_trials: u32,
    n_admitted: u32,
}

impl BankStory<'_> {
    fn record(
        &mut self,
        round: u32,
        events: impl IntoIterator<Item = BankEvent>,
    ) -> Result<(), PipelineError> {
        self.bank.record(round, Author::Process, events)
    }

    /// The results of a split with so many admitted skills, each of which was shown what the bank has active.
    fn evaluate(
        &self,
        place: EvaluationDir,
        split: &str,
        n_items: usize,
        n_admitted: u32,
    ) -> Result<MeanScore, PipelineError> {
        let size = RunSize { reply_characters: 80, ..RunSize::RUN_OF_10_000_STEPS };
        let view = self.bank.bank().view();
        let mut results = results(&size, split, n_items, n_admitted);
        for result in results.iter_mut().filter(|_| n_admitted > 0) {
            result.trajectory.shown_parts = view.skills().iter().map(|skill| skill.id.part_id()).collect();
        }
        let evaluation = Evaluation::of(results);
        let shown = SkillHash::of(view.version());
        self.dir.write_evaluation(place, &shown, &evaluation, tokens(n_items))?;
        Ok(evaluation.score)
    }

    /// Proposes a skill and opens its trial.
    fn begin_trial(&mut self, round: u32) -> Result<SkillRef, PipelineError> {
        let tier = if self.n_trials.is_multiple_of(2) { Tier::General } else { Tier::of_type("bridge") };
        let skill = self.bank.bank().next_skill(&tier);
        let mut evidence = Evidence::default();
        evidence.items = vec![ItemId::new(format!("train-{:05}", self.n_trials))];
        evidence.teacher = Some("made/teacher".to_owned());
        evidence.calls = 2;
        let content = Content::principle(
            format!("Look at part {} of <b>it</b>", self.n_trials),
            "Read the whole question before you answer.",
            "At the start.",
        );
        let source = if round == 0 { SkillProvenance::Distilled } else { SkillProvenance::Evolved };
        let proposed = BankEvent::proposed(skill.clone(), tier, content, source, evidence);
        let opened = BankEvent::TrialOpened {
            skill: skill.clone(),
            max_rollouts: MAX_ROLLOUTS,
            design_sha256: "0".repeat(64),
        };
        self.n_trials += 1;
        self.record(round, [proposed, opened])?;
        Ok(skill)
    }

    fn make_trial(&mut self, round: u32, verdict: TrialVerdict) -> Result<Value, PipelineError> {
        let skill = self.begin_trial(round)?;
        let n_solved = if verdict == TrialVerdict::Admit { 4 } else { 1 };
        let numbers = numbers(n_solved);
        let mut events = vec![measured(&skill, Occasion::Trial, &numbers, Some(verdict))];
        let is_admitted = verdict == TrialVerdict::Admit;
        if is_admitted {
            self.n_admitted += 1;
            events.push(BankEvent::Admitted { skill: skill.clone(), basis: Basis::Trial });
            events.push(measured(&skill, Occasion::AfterAdmission, &numbers, None));
        } else {
            events.push(BankEvent::Retired { skill: skill.clone(), reason: Reason::Trial });
        }
        self.record(round, events)?;
        let owner = self.bank.bank().skill(&skill.skill);
        let tier = owner.map(|skill| skill.tier.to_string()).unwrap_or_default();
        let title = self.bank.bank().version(&skill).map(|version| version.content.title().to_owned());
        let ground = if is_admitted { "better" } else { "limit" };
        Ok(json!({
            "trial": self.n_trials,
            "skill": skill,
            "title": title,
            "tier": tier,
            "items": ["train-00001", "train-00002"],
            "preflight": {
                "rollouts": MAX_ROLLOUTS,
                "items": 2,
                "rows": [{ "difference": 0.2, "chance": 0.5, "rollouts_needed": 216 }],
            },
            "rollouts": MAX_ROLLOUTS,
            "decision": { "verdict": verdict, "ground": ground, "n_groups": 8, "numbers": numbers },
            "fresh": is_admitted.then_some(numbers),
        }))
    }

    fn make_round(&mut self, round: u32) -> Result<MeanScore, PipelineError> {
        let trials =
            [self.make_trial(round, TrialVerdict::Admit)?, self.make_trial(round, TrialVerdict::Reject)?];
        let [admitted, rejected] =
            trials.each_ref().map(|trial| trial.get("skill").cloned().unwrap_or_default());
        let place = EvaluationDir::Round(round);
        let score = self.evaluate(place, "val", self.size.n_selection, self.n_admitted)?;
        let view = self.bank.bank().view();
        let shown: Vec<String> = view.skills().iter().map(|skill| skill.id.to_string()).collect();
        let by_item: BTreeMap<String, &Vec<String>> =
            (0..self.size.n_selection).map(|number| (format!("val-{number:05}"), &shown)).collect();
        // What was admitted in this round was shown to no training rollout of it.
        let in_training: BTreeMap<&String, u64> =
            shown.iter().take(shown.len().saturating_sub(1)).map(|skill| (skill, 6)).collect();
        let record = json!({
            "format_version": FORMAT_VERSION,
            "round": round,
            "rates": [{
                "task_type": "bridge", "successes": 2, "rollouts": 8, "pooled": {"successes": 4, "rollouts": 16},
                "interval": [0.06, 0.6], "is_weak": true,
            }],
            "shown": in_training,
            "weak": ["bridge"],
            "proposed": [&admitted, &rejected],
            "left_out": ["a skill that names <i>train-00007</i>"],
            "notes": [],
            "trials": trials,
            "admitted": [&admitted],
            "retired": [&rejected],
            "waiting": [],
            "standing": {},
            "n_active": shown.len(),
            "validation": {
                "bank_version": view.version(),
                "score": score,
                "n": self.size.n_selection,
                "by_task_type": { "bridge": score },
                "shown": by_item,
            },
            "tokens": { "rollout": tokens(8), "trial": tokens(128), "evaluate": tokens(self.size.n_selection) },
        });
        let path = self.dir.path().join(ROUNDS_DIR).join(format!("round_{round:04}")).join(RECORD_FILE);
        self.dir.put_json(&path, &record)?;
        Ok(score)
    }

    fn finish(&mut self, baseline: MeanScore, score: MeanScore) -> Result<(), PipelineError> {
        let n_test = self.size.n_test;
        let before = self.evaluate(EvaluationDir::TestBaseline, "test", n_test, 0)?;
        let after = self.evaluate(EvaluationDir::TestBest, "test", n_test, self.n_admitted)?;
        let rounds = self.size.n_rounds;
        let summary = json!({
            "format_version": FORMAT_VERSION,
            "rounds": rounds.saturating_sub(1),
            "baseline": baseline,
            "score": score,
            "test_baseline": before,
            "test": after,
            "n_items": [self.size.n_selection, n_test],
            "active": self.n_admitted,
            "unmeasured": 0,
            "candidates": 0,
            "retired": rounds,
            "trials": [self.n_trials, self.n_admitted],
            "trial_rollouts": u64::from(self.n_trials) * MAX_ROLLOUTS,
            "tokens": {
                "baseline": tokens(self.size.n_selection),
                "rollout": tokens(8 * rounds as usize),
                "trial": tokens(128 * rounds as usize),
                "evaluate": tokens(self.size.n_selection * rounds as usize),
                "test_baseline": tokens(n_test),
                "test_best": tokens(n_test),
            },
        });
        atomic::write(&self.dir.path().join(SUMMARY_FILE), format!("{summary:#}\n").as_bytes())
    }
}

/// Eight groups in which so many of four rollouts with the skill are solved, and one of four without it.
fn numbers(n_solved: u32) -> TrialNumbers {
    let mut groups = Stratified::default();
    let arms = Arm::new(n_solved, 4).and_then(|new| Ok((new, Arm::new(1, 4)?)));
    if let Ok((new, old)) = arms {
        (0..8).for_each(|_| groups.push(TaskStratum { new, old }));
    }
    TrialNumbers::of(&groups)
}

fn measured(
    skill: &SkillRef,
    occasion: Occasion,
    numbers: &TrialNumbers,
    verdict: Option<TrialVerdict>,
) -> BankEvent {
    BankEvent::Measured {
        skill: skill.clone(),
        occasion,
        utility: Some(Utility {
            difference: numbers.difference,
            interval: numbers.interval,
            with: numbers.with,
            without: numbers.without,
            informative_groups: numbers.informative_groups,
        }),
        verdict,
        e_better: Some(numbers.e_better),
        e_worse: Some(numbers.e_worse),
        p_better: Some(numbers.p_better),
    }
}
