use super::*;
use skill_pipeline::RunReader;
use skill_pipeline::run_dir::EvaluationDir;

#[test]
fn the_sizes_are_what_they_are_called() {
    assert_eq!(RunSize::RUN_OF_40_STEPS.n_rollouts(), 15_000);
    assert_eq!(RunSize::RUN_OF_10_000_STEPS.n_steps, 10_000);
}

#[test]
fn what_is_made_is_read_as_any_run() {
    let dir = temporary_dir().unwrap();
    let size = RunSize { n_steps: 20, steps_per_epoch: 4, n_test: 6, ..RunSize::RUN_OF_10_000_STEPS };
    make_run(dir.path(), &size).unwrap();
    let run = RunReader::open(dir.path()).unwrap();
    let history = run.history().unwrap();
    assert_eq!((history.len(), history.last().unwrap().epoch), (20, EpochIdx(5)));
    assert_eq!(run.totals().unwrap().n_accepted, 2);
    let skill = run.best_skill().unwrap();
    assert_eq!(run.skill_after(StepIdx(20)).unwrap(), skill);
    assert!(skill.source_text().contains("- Rule 16: look at part 16"), "{}", skill.source_text());
    assert_eq!(run.results(EvaluationDir::TestBest).unwrap().unwrap().len(), 6);
    let tested = |place| run.evaluation_summary(place).unwrap().unwrap().skill_hash;
    assert_eq!(tested(EvaluationDir::TestBaseline), run.skill_after(StepIdx(0)).unwrap().hash());
    assert_eq!(tested(EvaluationDir::TestBest), skill.hash());
    assert_eq!(run.summary().unwrap().unwrap().total_accepts, 2);
}
