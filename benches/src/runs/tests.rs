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

/// Bytes that this thread has given to the system to write.
#[cfg(target_os = "linux")]
fn n_written() -> u64 {
    let counts = std::fs::read_to_string("/proc/thread-self/io").unwrap();
    let line = counts.lines().find_map(|line| line.strip_prefix("wchar: ")).unwrap();
    line.parse().unwrap()
}

#[cfg(target_os = "linux")]
fn n_bytes(dir: &Path) -> u64 {
    let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
    entries
        .map(|entry| match entry.metadata().unwrap() {
            found if found.is_dir() => n_bytes(&entry.path()),
            found => found.len(),
        })
        .sum()
}

/// The bytes that a step writes do not grow with the steps before it.
#[cfg(target_os = "linux")]
#[test]
fn a_run_writes_at_most_three_times_its_size() {
    for n_steps in [50, 1_000] {
        let dir = temporary_dir().unwrap();
        let before = n_written();
        make_run(dir.path(), &RunSize { n_steps, ..RunSize::RUN_OF_10_000_STEPS }).unwrap();
        let (written, size) = (n_written() - before, n_bytes(dir.path()));
        assert!(written <= 3 * size, "{n_steps} steps: {written} bytes written, {size} are left");
        assert!(written > size, "{n_steps} steps: {written} bytes written, {size} are left");
    }
}
