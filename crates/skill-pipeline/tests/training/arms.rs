//! The skills that the end of a run measures beside each other on the test split.

use crate::run_files::files;
use crate::world::{Job, one_shot_optimizer, settings, target};
use serde_json::Value;
use skill_core::{NamedEnum as _, SkillDoc};
use skill_pipeline::TrainSettings;
use skill_pipeline::records::arm::{ArmName, ArmSetting};
use skill_pipeline::run_dir::check::check;
use std::sync::atomic::Ordering;

#[test]
fn no_skill_at_all_is_measured_where_it_is_asked_for_and_never_twice() {
    let job = |no_skill| Job { settings: TrainSettings { no_skill, ..settings() }, ..Job::default() };
    let dir = tempfile::tempdir().unwrap();
    let summary = job(ArmSetting::On).run(dir.path()).unwrap();
    let none = summary.test_no_skill.unwrap();
    let paired = none.paired.unwrap();
    // In this world nobody knows a word that the skill does not have.
    assert_eq!((none.hard, paired.difference), (0.0, summary.test_hard));
    assert_eq!(paired.n_items, paired.wins + paired.ties);
    assert!(dir.path().join("test_eval_no_skill/results.json").is_file());

    // The same command again pays for nothing and changes nothing.
    let (whole, again) = (files(dir.path()), target(usize::MAX));
    Job { target: again.clone(), ..job(ArmSetting::On) }.run(dir.path()).unwrap();
    assert_eq!((again.n_calls.load(Ordering::Relaxed), files(dir.path())), (0, whole));

    // Nobody asked for it, and no cap says that it takes little.
    for no_skill in [ArmSetting::Auto, ArmSetting::Off] {
        let dir = tempfile::tempdir().unwrap();
        let summary = job(no_skill).run(dir.path()).unwrap();
        assert_eq!((summary.test_no_skill, dir.path().join("test_eval_no_skill").exists()), (None, false));
    }
    assert_eq!(ArmName::NAMES, ["no_skill", "initial", "one_shot", "trained"]);
}

#[test]
fn the_one_shot_skill_is_measured_once_and_never_delivered() {
    let job = |one_shot| {
        let settings = TrainSettings { one_shot, ..settings() };
        Job { settings, optimizer: one_shot_optimizer(), ..Job::default() }
    };
    let without = tempfile::tempdir().unwrap();
    let plain = job(ArmSetting::Off).run(without.path()).unwrap();
    assert_eq!((plain.test_one_shot, without.path().join("test_eval_one_shot").exists()), (None, false));

    let dir = tempfile::tempdir().unwrap();
    let summary = job(ArmSetting::On).run(dir.path()).unwrap();
    let arm = summary.test_one_shot.clone().unwrap();
    // The whole skill that the optimizer wrote knows every word, and the run still delivers what its gate accepted.
    assert_eq!((arm.hard, arm.paired.unwrap().n_items), (1.0, 10));
    assert_eq!(summary.best_skill_hash, plain.best_skill_hash);
    let used = ["one_shot", "test_one_shot"].map(|stage| summary.token_summary[stage].calls);
    assert_eq!(used, [1, 10]);
    let of_arm = |name: &str| dir.path().join("test_eval_one_shot").join(name);
    let skill = std::fs::read_to_string(of_arm("skill.md")).unwrap();
    let record: Value =
        serde_json::from_str(&std::fs::read_to_string(of_arm("one_shot.json")).unwrap()).unwrap();
    assert_eq!(record["skill_hash"], SkillDoc::new(skill.as_str()).hash().to_string());
    assert!((1..=8).contains(&record["items"].as_array().unwrap().len()));
    // `check` knows its files and finds a change in them.
    assert_eq!(check(dir.path()).unwrap().damage, []);
    std::fs::write(of_arm("skill.md"), skill.replace("alpha", "alfa")).unwrap();
    assert_eq!(check(dir.path()).unwrap().damage.len(), 1);
    std::fs::write(of_arm("skill.md"), skill).unwrap();

    // The same command again pays for nothing and changes nothing.
    let (whole, again) = (files(dir.path()), target(usize::MAX));
    let optimizer = one_shot_optimizer();
    Job { target: again.clone(), optimizer: optimizer.clone(), ..job(ArmSetting::On) }
        .run(dir.path())
        .unwrap();
    let n_calls = [&again, &optimizer].map(|model| model.n_calls.load(Ordering::Relaxed));
    assert_eq!((n_calls, files(dir.path())), ([0, 0], whole));
    // A finished run gets the arm afterwards.
    let later = job(ArmSetting::On).run(without.path()).unwrap();
    assert_eq!(
        (later.test_one_shot, later.best_skill_hash),
        (summary.test_one_shot, summary.best_skill_hash)
    );
}
