//! A run that is followed while it goes on.

use crate::runs::{Training, finished};
use crate::site::Site;
use serde_json::Value;
use skillrl::pipeline::PipelineError;

#[test]
fn a_run_is_followed_from_its_first_rollout_to_its_end() {
    let site = Site::new(|_| {});
    let mut list = site.news("/news");
    assert!(list.until("rows", |_| true).as_str().unwrap().contains("There are no runs here yet"));
    let training = Training::start(site.path("runs/live"));
    // It comes into the list by itself, and its page can be opened before anything is measured.
    let rows = list.until("rows", |rows| rows.as_str().unwrap().contains("data-run=\"live\""));
    assert!(rows.as_str().unwrap().contains("training"));
    let page = site.body("/run/live");
    assert!(page.contains("the initial skill is not measured yet"), "{page}");

    let mut news = site.news("/news/live");
    let stage = |now: &Value| {
        (now["stage"]["name"].clone(), now["stage"]["done"].clone(), now["stage"]["total"].clone())
    };
    news.until("now", |now| stage(now) == ("baseline".into(), 0.into(), 4.into()));
    training.may_go_on.add_permits(3);
    news.until("now", |now| stage(now) == ("baseline".into(), 3.into(), 4.into()));
    // The fourth is the baseline's last; one of the batch's two follows.
    training.may_go_on.add_permits(2);
    let now = news.until("now", |now| stage(now) == ("rollout".into(), 1.into(), 2.into()));
    assert_eq!(
        (&now["state"], &now["step"], &now["total_steps"], &now["n_steps"]),
        (&"training".into(), &1.into(), &2.into(), &0.into())
    );
    let first = now["report"].clone();
    assert!(site.body("/report/live").contains("Score by step"), "the baseline has a report");

    training.may_go_on.add_permits(1 + 4);
    let line = |lines: &Value, text: &str| {
        lines.as_array().unwrap().iter().any(|line| line["text"].as_str().unwrap().contains(text))
    };
    news.until("log", |lines| line(lines, "0.0 % → 100.0 %  accepted, new best"));
    let now = news.until("now", |now| now["n_steps"] == 1);
    assert_ne!(now["report"], first, "the page fetches a new report");
    assert!(site.body("/report/live").contains("<details id=\"step-1\">"));

    training.end().unwrap();
    let now = news.until("now", |now| now["state"] == "finished");
    assert_eq!((&now["n_steps"], &now["step"], &now["stage"]), (&2.into(), &Value::Null, &Value::Null));
    list.until("rows", |rows| rows.as_str().unwrap().contains("finished"));
    // Anyone who comes later is told what there is.
    let mut late = site.news("/news/live");
    late.until("log", |lines| {
        line(lines, "baseline: validation 0.0 %") && line(lines, "the run is finished")
    });
    let rollouts = late.until("rollouts", |_| true);
    assert!(rollouts[19]["place"].as_str().unwrap().starts_with("test_best / "), "{}", rollouts[19]);
    site.end();
}

#[test]
fn a_stop_is_asked_from_the_page_and_obeyed_after_the_step() {
    let site = Site::new(|runs| finished(&runs.join("old")));
    let training = Training::start(site.path("runs/live"));
    let mut news = site.news("/news/live");
    training.may_go_on.add_permits(5);
    news.until("now", |now| now["step"] == 1);
    let metrics = site.until("/metrics", |metrics| metrics.contains("state=\"training\""));
    assert!(metrics.contains("skillrl_run_spent_requests_total{run=\"live\"} "), "{metrics}");

    // Asked, taken back, and asked again.
    let asked = site.post("/stop/live");
    assert_eq!((asked.status, asked.header("location")), (303, "/run/live"));
    news.until("now", |now| now["is_stop_requested"] == true);
    assert_eq!(site.post("/continue/live").status, 303);
    news.until("now", |now| now["is_stop_requested"] == false);
    assert_eq!(site.post("/stop/live").status, 303);
    news.until("now", |now| now["is_stop_requested"] == true);
    assert!(site.path("runs/live/stop_after_step").is_file());

    let error = training.end().unwrap_err();
    assert!(matches!(error, PipelineError::Stopped { last_step: 1, total_steps: 2 }), "{error}");
    let now = news.until("now", |now| now["state"] == "stopped");
    assert_eq!((&now["n_steps"], &now["is_stop_requested"]), (&1.into(), &false.into()));
    assert!(!site.path("runs/live/stop_after_step").exists());

    // Where nobody works there is nothing to stop.
    for name in ["live", "old"] {
        let refused = site.post(&format!("/stop/{name}"));
        assert_eq!(refused.status, 409);
        assert!(refused.body.contains("No process works on this run"), "{}", refused.body);
        assert!(!site.path(&format!("runs/{name}/stop_after_step")).exists());
    }
    // The same command goes on.
    finished(&site.path("runs/live"));
    news.until("now", |now| now["state"] == "finished");
    site.end();
}

#[test]
fn a_run_that_vanishes_is_said_to_be_gone() {
    let site = Site::new(|runs| finished(&runs.join("a")));
    let mut news = site.news("/news/a");
    news.until("now", |now| now["state"] == "finished");
    std::fs::remove_dir_all(site.path("runs/a")).unwrap();
    let now = news.until("now", |now| now["state"] == "damaged");
    assert_eq!(now["problem"], "the run no longer exists");
    // The end of the server is the end of the stream.
    site.end();
    while news.next().is_some() {}
}
