//! What the pages and the metrics say.

use crate::HOSTILE;
use crate::client::send;
use crate::runs::finished;
use crate::site::Site;
use skill_pipeline::run_dir::RunDir;
use std::fs;

#[test]
fn the_page_of_a_run_holds_its_report() {
    let site = Site::new(|runs| {
        finished(&runs.join("team/a b"));
        finished(&runs.join("z"));
        // The latest run is listed first.
        let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
        let summary = fs::File::options().append(true).open(runs.join("z/summary.json")).unwrap();
        summary.set_modified(later).unwrap();
    });
    let list = site.body("/");
    let names: Vec<&str> =
        list.split("data-run=\"").skip(1).map(|rest| rest.split('"').next().unwrap()).collect();
    assert_eq!(names, ["z", "team&#x2f;a b"]);
    assert!(list.contains("href=\"/run/team&#x2f;a%20b\""), "{list}");
    let page = site.body("/run/team/a%20b");
    let report = skillrl::report::read(&site.path("runs/team/a b")).unwrap();
    let content = skill_report::content(&report.clone().into()).unwrap();
    assert!(page.contains(&content), "the report is in the page as it is");
    assert_eq!(site.body("/report/team/a%20b"), content);
    assert!(skill_report::page(&report.into()).unwrap().contains(&content), "and in the file too");
    // The news begin with what the page has already.
    let version = page.split("data-version=\"").nth(1).unwrap().split('"').next().unwrap();
    let now = site.news("/news/team/a%20b").until("now", |_| true);
    assert_eq!((&now["report"], &now["state"]), (&version.into(), &"finished".into()));
    assert_eq!((&now["n_steps"], &now["stage"]), (&2.into(), &serde_json::Value::Null));
    // 4 for the baseline, 2 for each batch and its analyst, 4 for the candidate, 8 for the test split.
    assert_eq!((&now["spent"]["requests"], &now["spent"]["money"]), (&22.into(), &serde_json::Value::Null));
    site.end();
}

#[test]
fn two_runs_are_compared_with_their_curves_over_each_other() {
    let site = Site::new(|runs| {
        finished(&runs.join("team/a b"));
        finished(&runs.join("z"));
    });
    let list = site.body("/");
    assert!(list.contains("name=\"run\" value=\"team&#x2f;a b\""), "{list}");
    let page = site.body("/compare?run=team%2Fa+b&run=z");
    let runs = ["runs/team/a b", "runs/z"].map(|run| site.path(run));
    let content = skillrl::report::comparison_content(&runs[0], &runs[1]).unwrap();
    assert!(page.contains(&content), "{page}");
    let curves = page.split("id=\"curves\"").nth(1).unwrap().split("</svg>").next().unwrap();
    assert_eq!(
        ["run-a", "run-b"].map(|class| curves.matches(&format!("<path class=\"{class}\"")).count()),
        [1, 1]
    );
    for (query, status) in
        [("", 400), ("?run=z", 400), ("?run=z&run=z&run=x", 404), ("?run=z&run=..%2Fz", 404)]
    {
        assert_eq!(site.get(&format!("/compare{query}")).status, status, "{query}");
    }
    // More than two are rows of a table.
    let table = site.body("/compare?run=team%2Fa+b&run=z&run=z");
    let rows = table.split("id=\"run-table\"").nth(1).unwrap().split("</tbody>").next().unwrap();
    assert_eq!(rows.matches("<tr>").count(), 1 + 3, "{table}");
    assert!(!table.contains("style=\""), "the policy of the pages forbids styles in attributes");
    site.end();
}

#[test]
fn a_report_that_was_read_while_a_process_worked_is_made_again_when_it_is_gone() {
    let site = Site::new(|runs| finished(&runs.join("a")));
    let run = site.path("runs/a");
    let process = RunDir::open(&run).unwrap();
    fs::remove_file(run.join("summary.json")).unwrap();
    site.until("/report/a", |report| report.contains("2 steps, in progress"));
    // What a process leaves that is killed.
    let events = fs::read_to_string(run.join("events.jsonl")).unwrap();
    let began = events.lines().next().unwrap();
    fs::write(run.join("events.jsonl"), format!("{events}{began}\n")).unwrap();
    drop(process);
    let report = site.body("/report/a");
    assert!(report.contains("2 steps, interrupted"), "{report}");
    assert!(report.contains("its process died"), "{report}");
    site.until("/", |list| list.contains("<span class=\"tag interrupted\">interrupted</span>"));
    site.end();
}

#[test]
fn a_directory_of_one_run_lists_that_run() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("only");
    finished(&run);
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let listen = "127.0.0.1:0".parse().unwrap();
    let options = skill_serve::ServeOptions { listen, ..skill_serve::ServeOptions::on_loopback(&run) };
    let server = runtime.block_on(skill_serve::Server::bind(options)).unwrap();
    let address = server.address();
    runtime.spawn(server.run(Default::default()));
    let host = [("Host", "localhost")];
    while !send(address, "GET /", &host).body.contains("data-run=\"only\"") {}
    assert_eq!(send(address, "GET /run/only", &host).status, 200);
    runtime.shutdown_background();
}

#[test]
fn an_empty_directory_says_how_runs_come() {
    let site = Site::new(|_| {});
    assert!(site.body("/").contains("There are no runs here yet"));
    let metrics = site.body("/metrics");
    assert!(metrics.lines().all(|line| line.starts_with("# ")), "{metrics}");
    site.end();
}

#[test]
fn what_models_data_and_directories_say_is_text_everywhere() {
    let hostile_name = "<img src=x onerror=alert(3)>\u{202e}";
    let site = Site::new(|runs| {
        finished(&runs.join(hostile_name));
        finished(&runs.join("broken"));
        fs::write(
            runs.join("broken/config.json"),
            serde_json::json!({"format_version": HOSTILE}).to_string(),
        )
        .unwrap();
    });
    let path = hostile_name
        .replace('<', "%3C")
        .replace('>', "%3E")
        .replace(' ', "%20")
        .replace('\u{202e}', "%E2%80%AE");
    for page in [site.body("/"), site.body(&format!("/run/{path}")), site.body("/run/broken")] {
        assert!(!page.contains("<script>") && !page.contains("<img") && !page.contains('\u{202e}'), "{page}");
        assert!(page.contains("&lt;img") || page.contains("&lt;script&gt;"), "it is there as text");
    }
    let report = site.body(&format!("/report/{path}"));
    assert!(report.contains("&lt;script&gt;alert(1)"), "{report}");
    // News are JSON, which the page puts in as text.
    let rollouts = site.news(&format!("/news/{path}")).until("rollouts", |_| true);
    assert!(rollouts[0]["answer"].as_str().unwrap().contains(HOSTILE));
    assert_eq!(rollouts.as_array().unwrap().len(), 20);
    site.end();
}

#[test]
fn runs_are_metrics() {
    let site = Site::new(|runs| {
        finished(&runs.join("done\"\\"));
        finished(&runs.join("stopped"));
        fs::remove_file(runs.join("stopped/summary.json")).unwrap();
        finished(&runs.join("wrong"));
        fs::write(runs.join("wrong/history.jsonl"), "[\n").unwrap();
    });
    let answer = site.get("/metrics");
    assert_eq!(answer.header("content-type"), "text/plain; version=0.0.4; charset=utf-8");
    let lines: Vec<&str> = answer.body.lines().collect();
    let done = "run=\"done\\\"\\\\\"";
    let expected = [
        format!("skillrl_run_info{{{done},state=\"finished\",env=\"shout\"}} 1"),
        "skillrl_run_info{run=\"stopped\",state=\"stopped\",env=\"\"} 1".to_owned(),
        "skillrl_run_info{run=\"wrong\",state=\"damaged\",env=\"\"} 1".to_owned(),
        format!("skillrl_run_steps_total{{{done}}} 2"),
        format!("skillrl_run_steps_planned{{{done}}} 2"),
        format!("skillrl_run_candidates_total{{{done},outcome=\"accepted\"}} 1"),
        format!("skillrl_run_candidates_total{{{done},outcome=\"skipped\"}} 1"),
        format!("skillrl_run_score{{{done},split=\"selection\",skill=\"first\"}} 0"),
        format!("skillrl_run_score{{{done},split=\"selection\",skill=\"best\"}} 1"),
        format!("skillrl_run_score{{{done},split=\"test\",skill=\"best\"}} 1"),
        "skillrl_run_score{run=\"stopped\",split=\"selection\",skill=\"current\"} 1".to_owned(),
    ];
    for line in &expected {
        assert!(lines.contains(&line.as_str()), "{line} is not in\n{}", answer.body);
    }
    assert!(!answer.body.contains("skillrl_run_steps_total{run=\"wrong\"}"));
    // What the format asks for: each family is said once, with help and type, and each value once.
    let values: Vec<&str> = lines
        .iter()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.rsplit_once(' ').unwrap().0)
        .collect();
    let mut unique = values.clone();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), values.len());
    for value in values {
        let family = value.split('{').next().unwrap();
        assert_eq!(
            lines
                .iter()
                .filter(|line| **line == format!("# TYPE {family} gauge")
                    || **line == format!("# TYPE {family} counter"))
                .count(),
            1
        );
    }
    site.end();
}
