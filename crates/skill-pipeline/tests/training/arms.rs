//! The skills that the end of a run measures beside each other on the test split.

use crate::run_files::files;
use crate::world::{Job, settings, target};
use skill_core::NamedEnum as _;
use skill_pipeline::TrainSettings;
use skill_pipeline::records::arm::{ArmName, NoSkillArm};
use std::sync::atomic::Ordering;

#[test]
fn no_skill_at_all_is_measured_where_it_is_asked_for_and_never_twice() {
    let job = |no_skill| Job { settings: TrainSettings { no_skill, ..settings() }, ..Job::default() };
    let dir = tempfile::tempdir().unwrap();
    let summary = job(NoSkillArm::On).run(dir.path()).unwrap();
    let none = summary.test_no_skill.unwrap();
    let paired = none.paired.unwrap();
    // In this world nobody knows a word that the skill does not have.
    assert_eq!((none.hard, paired.difference), (0.0, summary.test_hard));
    assert_eq!(paired.n_items, paired.wins + paired.ties);
    assert!(dir.path().join("test_eval_no_skill/results.json").is_file());

    // The same command again pays for nothing and changes nothing.
    let (whole, again) = (files(dir.path()), target(usize::MAX));
    Job { target: again.clone(), ..job(NoSkillArm::On) }.run(dir.path()).unwrap();
    assert_eq!((again.n_calls.load(Ordering::Relaxed), files(dir.path())), (0, whole));

    // Nobody asked for it, and no cap says that it takes little.
    for no_skill in [NoSkillArm::Auto, NoSkillArm::Off] {
        let dir = tempfile::tempdir().unwrap();
        let summary = job(no_skill).run(dir.path()).unwrap();
        assert_eq!((summary.test_no_skill, dir.path().join("test_eval_no_skill").exists()), (None, false));
    }
    assert_eq!(ArmName::NAMES, ["initial", "trained", "no_skill"]);
}
