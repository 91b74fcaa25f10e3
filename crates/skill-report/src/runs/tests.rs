use super::*;
use crate::{RunOverview, RunPhase};
use serde_json::json;
use skill_core::{GateMetric, ItemId, ItemScore};

/// A finished run of a model with a seed, whose best skill solves these test items.
fn run(model: &str, seed: u64, solved: &[bool]) -> RunRow {
    let overview = RunOverview::unknown(Path::new(&format!("runs/{model}-{seed}")));
    let test = solved.iter().filter(|is_solved| **is_solved).count() as f64 / solved.len() as f64;
    let config =
        json!({"run": {"seed": seed}, "models": {"target": {"model": model}}, "env": {"kind": "qa"}});
    let score = |is_solved: bool| ItemScore { hard: if is_solved { 1.0 } else { 0.0 }, soft: 0.0 };
    RunRow {
        problem: None,
        state: RunPhase::Finished,
        notes: Vec::new(),
        kind: Some("document"),
        env: "qa".to_owned(),
        seed: Some(seed),
        n_test: Some(solved.len()),
        test_before: Some(0.0),
        test: Some(test),
        gain: Some(test),
        cost: Some(seed as f64),
        config: settings_of(&config),
        identity: [("data.test".to_owned(), json!("hash"))].into_iter().collect(),
        scores: solved
            .iter()
            .enumerate()
            .map(|(place, is_solved)| (ItemId::new(format!("{place}")), score(*is_solved)))
            .collect(),
        ..RunRow::damaged(&overview, String::new())
    }
}

fn table(runs: Vec<RunRow>) -> RunsTable {
    RunsTable::of(runs, &[]).unwrap()
}

const HALF: [bool; 4] = [true, true, false, false];
const MOST: [bool; 4] = [true, true, true, false];
const ALL: [bool; 4] = [true; 4];

#[test]
fn seeds_of_equal_settings_are_a_group_and_groups_are_paired_by_seed() {
    let found = table(vec![run("a", 1, &HALF), run("a", 2, &MOST), run("b", 1, &MOST), run("b", 2, &ALL)]);
    assert_eq!(found.group_by, ["models.target.model"]);
    assert_eq!(found.settings, ["models.target.model", "run.seed"]);
    let [first, second] = found.groups.as_slice() else { panic!("{:?}", found.groups) };
    assert_eq!((first.name.as_str(), &*first.seeds), ("a", [1, 2].as_slice()));
    let test = second.test.unwrap();
    assert_eq!((test.n, test.mean), (2, 0.875));
    // 0.875 ± 12.706 × 0.1768 / √2, within the scores that there are.
    assert_eq!(test.interval, Some([0.0, 1.0]));
    // 1.5 ± 12.706 × 0.7071 / √2.
    assert!((second.cost.unwrap().interval.unwrap()[1] - 7.853).abs() < 1e-3);
    assert_eq!(second.cost.unwrap().mean, 1.5);
    let versus = second.versus_first.as_ref().unwrap();
    assert_eq!((versus.paired_by, versus.n, versus.difference), (PairedBy::Seeds, 2, 0.25));
    // Each seed gains the same.
    assert_eq!(versus.interval, Some([0.25, 0.25]));
    assert_eq!(first.versus_first, None);
}

#[test]
fn groups_are_paired_by_every_seed_that_differs_within_them() {
    let sampled = |model: &str, seed: u64, solved: &[bool]| {
        let mut run = run(model, seed, solved);
        run.seed = Some(1);
        run.config.insert("run.seed".to_owned(), json!(1));
        run.config.insert("models.target.sim_seed".to_owned(), json!(seed));
        run
    };
    let found = table(vec![
        sampled("a", 7, &HALF),
        sampled("a", 8, &MOST),
        sampled("b", 8, &ALL),
        sampled("b", 7, &MOST),
    ]);
    let versus = found.groups[1].versus_first.as_ref().unwrap();
    assert_eq!((versus.paired_by, versus.n, versus.interval), (PairedBy::Seeds, 2, Some([0.25, 0.25])));
}

#[test]
fn groups_of_other_seeds_or_items_are_not_paired() {
    let other_seeds =
        table(vec![run("a", 1, &HALF), run("a", 2, &MOST), run("b", 3, &MOST), run("b", 4, &ALL)]);
    assert_eq!(other_seeds.groups[1].versus_first.as_ref().unwrap().paired_by, PairedBy::Nothing);
    let mut shorter = run("b", 2, &ALL);
    shorter.scores.pop();
    let other_items = table(vec![run("a", 1, &HALF), run("a", 2, &MOST), run("b", 1, &MOST), shorter]);
    let versus = other_items.groups[1].versus_first.as_ref().unwrap();
    assert_eq!((versus.paired_by, versus.n, versus.difference), (PairedBy::Nothing, 4, 0.25));
}

#[test]
fn single_runs_are_paired_by_items() {
    let found = table(vec![run("a", 1, &HALF), run("b", 1, &ALL), run("c", 1, &MOST)]);
    let versus = found.groups[1].versus_first.as_ref().unwrap();
    assert_eq!((versus.paired_by, versus.n, versus.difference), (PairedBy::Items, 4, 0.5));
    assert_eq!(found.runs[2].versus_first.as_ref().unwrap().difference, 0.25);
    assert_eq!(found.runs[0].versus_first, None);
}

#[test]
fn scores_of_other_tasks_are_in_other_groups_and_the_row_says_so() {
    let mut metric = run("a", 2, &MOST);
    metric.metric = GateMetric::Soft;
    let mut data = run("a", 3, &MOST);
    data.identity.insert("data.test".to_owned(), json!("another"));
    let mut bank = run("a", 4, &MOST);
    bank.kind = Some("bank");
    let found = table(vec![run("a", 1, &MOST), run("a", 5, &MOST), metric, data, bank]);
    assert_eq!((found.n_tasks, found.groups.len()), (4, 4));
    assert_eq!(found.groups[0].runs.len(), 2);
    let noted: Vec<bool> = found.runs.iter().map(|run| run.notes.len() == 1).collect();
    assert_eq!(noted, [false, false, true, true, true]);
    assert!(found.groups.iter().all(|group| group.versus_first.is_none()));
}

#[test]
fn another_split_of_the_same_data_by_a_seed_is_the_same_task() {
    let mut other = run("a", 2, &MOST);
    other.identity.insert("data.test".to_owned(), json!("another"));
    other.config.insert("env.split_seed".to_owned(), json!(7));
    let found = table(vec![run("a", 1, &MOST), other]);
    assert_eq!((found.n_tasks, found.groups.len()), (1, 1));
    assert_eq!(found.runs[1].versus_first, None, "the items are not those of the first run");
}

#[test]
fn a_damaged_run_and_one_that_is_named_again_are_rows_and_in_no_group() {
    let damaged = RunRow::damaged(&RunOverview::unknown(Path::new("runs/x")), "cannot read".to_owned());
    let found = table(vec![run("a", 1, &MOST), damaged, run("a", 1, &MOST)]);
    assert_eq!(found.runs.len(), 3);
    assert!(found.runs[2].is_repeated);
    assert_eq!(found.groups.len(), 1);
    assert_eq!(found.groups[0].runs, ["a-1"]);
    let csv = found.csv();
    let lines: Vec<&str> = csv.lines().collect();
    assert_eq!(lines.len(), 4);
    assert!(lines[2].starts_with("x,runs/x,,damaged,"), "{csv}");
}

#[test]
fn repeats_of_a_seed_count_once_and_unfinished_runs_in_no_group() {
    let named = |name: &str, run: RunRow| RunRow { path: format!("runs/{name}").into(), ..run };
    let again = named("again", run("a", 1, &ALL));
    let stopped = RunRow { state: RunPhase::Stopped, ..named("stopped", run("a", 3, &[false; 4])) };
    let found = table(vec![run("a", 1, &HALF), run("a", 2, &MOST), again, stopped]);
    let [group] = found.groups.as_slice() else { panic!("{:?}", found.groups) };
    // Seed 1 has 0.5 and 1, seed 2 has 0.75.
    let test = group.test.unwrap();
    assert_eq!((test.n, test.mean, test.interval), (2, 0.75, Some([0.75, 0.75])));
    assert_eq!((group.runs.len(), found.runs.len()), (3, 4));
}

#[test]
fn runs_are_named_by_the_ends_of_their_paths() {
    let named = |paths: &[&str]| {
        let rows =
            paths.iter().map(|path| RunRow::damaged(&RunOverview::unknown(Path::new(path)), String::new()));
        table(rows.collect()).runs.into_iter().map(|run| run.name).collect::<Vec<_>>()
    };
    assert_eq!(named(&["x/a/run", "x/b/run"]), ["a", "b"]);
    assert_eq!(named(&["x/a/1", "x/b/1"]), ["a/1", "b/1"]);
    assert_eq!(named(&["x/a", "x/a/run"]), ["a", "run"]);
}

#[test]
fn runs_are_grouped_by_names_of_settings_or_their_ends() {
    let runs = || vec![run("a", 1, &HALF), run("b", 2, &MOST)];
    for (name, groups) in [("model", ["a", "b"]), ("models.target.model", ["a", "b"]), ("seed", ["1", "2"])] {
        let found = RunsTable::of(runs(), &[name.to_owned()]).unwrap();
        let names: Vec<&str> = found.groups.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names, groups, "{name}");
    }
    let by_env = RunsTable::of(runs(), &["env".to_owned()]).unwrap();
    assert_eq!(by_env.groups.len(), 1);
    let error = RunsTable::of(runs(), &["mode".to_owned()]).unwrap_err();
    assert!(matches!(error, ReportError::UnknownGroup { ref name, .. } if name == "mode"));
}

#[test]
fn what_is_in_names_and_settings_is_text_on_the_page_and_in_tables() {
    let hostile = "<b>|\"x\"\u{1b}[0m,";
    let mut other = run(hostile, 2, &MOST);
    other.notes.push(hostile.to_owned());
    other.course = vec![CoursePoint { calls: 0, cost: Some(0.0), best: 0.5 }; 2];
    other.course.push(CoursePoint { calls: 9, cost: Some(0.1), best: 0.7 });
    let found = table(vec![run("a", 1, &HALF), other]);
    let page = crate::runs_page(&found).unwrap();
    assert!(!page.contains("<b>|") && page.contains("&lt;b&gt;|"), "{page}");
    assert!(!page.contains("data-left-out"), "{page}");
    let markdown = found.markdown();
    assert!(markdown.contains("&lt;b>\\|") && !markdown.contains("<b>"), "{markdown}");
    assert!(!found.markdown().contains('\u{1b}'));
}

#[test]
fn a_page_of_a_hundred_runs_stays_small() {
    let runs = (0..100).map(|seed| {
        let mut made = run(if seed % 2 == 0 { "a" } else { "b" }, seed, &[true; 500]);
        let point = |step: u64| CoursePoint { calls: 50 * step, cost: Some(step as f64), best: 0.5 };
        made.course = (0..400).map(point).collect();
        made
    });
    let page = crate::runs_page(&table(runs.collect())).unwrap();
    assert!(page.len() < 2_000_000, "{}", page.len());
    // The runs, the groups, and their titles.
    assert_eq!(page.matches("<tr>").count(), 100 + 2 + 2);
    assert_eq!(page.matches("<path class=\"curve").count(), 4);
}

/// A prompt of an environment is a setting too; of another environment's runs it is no difference.
#[test]
fn long_values_are_cut_for_people_and_whole_in_files() {
    let prompt = format!("Answer {}", "at length ".repeat(20));
    let mut long = run("a", 1, &HALF);
    long.config.insert("env.user_prompt".to_owned(), json!(prompt));
    let found = table(vec![long.clone(), run("a", 2, &HALF)]);
    assert_eq!(found.group_by, ["env.user_prompt"]);
    let column = found.columns().into_iter().find(|column| column.name == "env.user_prompt").unwrap();
    assert_eq!(column.value(&found.runs[0]), json!(prompt));
    let shown = column.words(&found.runs[0]);
    assert!(shown.chars().count() < 50 && prompt.starts_with(shown.trim_end_matches(" […]")), "{shown}");
    assert_eq!(found.groups[0].name, shown);
    assert_eq!(found.groups[0].settings["env.user_prompt"], prompt);
    long.env = "spreadsheet".to_owned();
    assert_eq!(table(vec![long, run("a", 1, &HALF)]).settings, Vec::<String>::new());
}

/// The best skill of the run with eight steps is of its last one, that of the other run the initial one.
#[test]
fn only_results_of_the_best_skill_are_paired() {
    use skillrl_bench::runs::{RunSize, make_run, temporary_dir};
    let size = RunSize { batch: 1, n_selection: 2, n_test: 3, ..RunSize::RUN_OF_10_000_STEPS };
    for (n_steps, file, expect) in [
        (8, "test_eval_baseline", Some(3)),
        (8, "test_eval_best", None),
        (7, "test_eval_baseline", None),
        (7, "test_eval_best", Some(3)),
    ] {
        for is_lost in [true, false] {
            let dir = temporary_dir().unwrap();
            make_run(dir.path(), &RunSize { n_steps, ..size }).unwrap();
            let mut row = RunRow::read(&RunOverview::read(dir.path()).unwrap());
            let results = dir.path().join(file).join("results.json");
            if is_lost { std::fs::remove_file(&results) } else { std::fs::write(&results, "[{") }.unwrap();
            let read = row.read_scores();
            assert_eq!(read.is_ok().then_some(row.scores.len()), expect, "{n_steps} {file} {read:?}");
        }
    }
}
