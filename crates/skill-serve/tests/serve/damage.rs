//! Runs that cannot be read, and ways out of the directory.

use crate::runs::finished;
use crate::site::Site;
use std::fs;

const SECRET: &str = "a-secret-that-stands-outside";

#[test]
fn what_is_wrong_with_a_run_is_said_and_the_others_are_shown() {
    let site = Site::new(|runs| {
        finished(&runs.join("good"));
        let damaged = |name: &str, file: &str, text: &str| {
            finished(&runs.join(name));
            fs::write(runs.join(name).join(file), text).unwrap();
        };
        damaged("half", "history.jsonl", "{\"step\": 1\n");
        damaged("newer", "config.json", "{\"format_version\": \"99.0\"}");
        damaged("lacking", "history.jsonl", "");
        damaged("strange", "summary.json", "{\"format_version\": \"2.0\"}");
        finished(&runs.join("headless"));
        fs::remove_file(runs.join("headless/config.json")).unwrap();
        fs::create_dir(runs.join("empty")).unwrap();
        fs::write(runs.join("notes.txt"), "mine").unwrap();
    });
    let list = site.until("/", |list| list.matches("<tr data-run=").count() == 6);
    let cases = [
        ("half", "history.jsonl: is not JSON"),
        ("newer", "has format version 99.0, this program reads"),
        ("lacking", "history.jsonl: does not hold each of the steps 1 to 2 once"),
        ("strange", "summary.json: is not of the expected form"),
        ("headless", "no run in"),
    ];
    for (name, expect) in cases {
        let row = list.split("<tr ").find(|row| row.contains(&format!("data-run=\"{name}\""))).unwrap();
        assert!(row.contains("damaged") && row.contains(expect), "{name}: {row}");
        let page = site.body(&format!("/run/{name}"));
        assert!(page.contains("This run cannot be shown") && page.contains(expect), "{name}: {page}");
        assert_eq!(site.post(&format!("/stop/{name}")).status, 409);
    }
    assert!(!list.contains("empty") && !list.contains("notes.txt"));
    let good = list.split("<tr ").find(|row| row.contains("data-run=\"good\"")).unwrap();
    assert!(good.contains("finished") && good.contains("0.0 % → <b>100.0 %</b>"), "{good}");
    // A run that was mended is read again, and one that is gone is no longer shown.
    fs::remove_file(site.path("runs/strange/summary.json")).unwrap();
    fs::remove_dir_all(site.path("runs/half")).unwrap();
    let list = site.until("/", |list| !list.contains("data-run=\"half\"") && !list.contains("summary.json"));
    let mended = list.split("<tr ").find(|row| row.contains("data-run=\"strange\"")).unwrap();
    assert!(mended.contains("stopped"), "{mended}");
    site.end();
}

#[test]
fn no_path_leads_out_of_the_directory() {
    let site = Site::new(|runs| {
        finished(&runs.join("a"));
        let outside = runs.parent().unwrap().join("outside");
        finished(&outside);
        fs::write(outside.join("secret"), SECRET).unwrap();
    });
    let outside = site.path("outside");
    let absolute = outside.to_string_lossy();
    let names = [
        "../outside",
        "..%2Foutside",
        "%2e%2e/outside",
        "%2e%2e%2foutside",
        "a/../../outside",
        "a/..%2f..%2foutside",
        "a%00",
        "..\\outside",
        "./a",
        "a/",
        "a/config.json",
        "a/../a",
        "runs/a",
        "%2e",
        &absolute,
        absolute.trim_start_matches('/'),
    ];
    for name in names {
        for route in ["run", "report", "news", "assets", "stop", "continue", "note"] {
            let path = format!("/{route}/{name}");
            let answer = match route {
                "stop" | "continue" => site.post(&path),
                "note" => site.post_form(&path, "kind=note&text=x"),
                _ => site.get(&path),
            };
            assert_eq!(answer.status, 404, "{path}: {}", answer.body);
            assert!(!answer.body.contains(SECRET));
        }
    }
    for path in
        ["/../outside/secret", "/runs/a/config.json", "/a", "//a", "/%2e%2e/%2e%2e/etc/passwd", "/run/"]
    {
        assert_eq!(site.get(path).status, 404, "{path}");
    }
    assert!(!outside.join("stop_after_step").exists());
    assert!(!outside.join("notes.jsonl").exists());
    site.end();
}

#[test]
#[cfg(unix)]
fn links_that_leave_the_directory_are_not_followed() {
    use std::os::unix::fs::symlink;
    let site = Site::new(|runs| {
        let outside = runs.parent().unwrap().join("outside");
        finished(&outside);
        let event = format!("{{\"event\":\"warning\",\"message\":\"{SECRET}\"}}\n");
        fs::write(outside.join("events.jsonl"), event).unwrap();
        fs::write(outside.join("skills/skill_v0000.md"), SECRET).unwrap();
        // A run that is a link, and a directory of runs that is one.
        symlink(&outside, runs.join("linked")).unwrap();
        symlink(outside.parent().unwrap(), runs.join("all")).unwrap();
        // Files and directories of a run that are links.
        for (name, file) in [("log", "events.jsonl"), ("skills", "skills"), ("deep", "skills/skill_v0000.md")]
        {
            let run = runs.join(name);
            finished(&run);
            if run.join(file).is_dir() {
                fs::remove_dir_all(run.join(file)).unwrap();
            } else {
                fs::remove_file(run.join(file)).unwrap();
            }
            symlink(outside.join(file), run.join(file)).unwrap();
        }
        // One that stays inside is nobody's secret.
        finished(&runs.join("inside"));
        fs::rename(runs.join("inside/best_skill.md"), runs.join("best.md")).unwrap();
        symlink(runs.join("best.md"), runs.join("inside/best_skill.md")).unwrap();
    });
    let list = site.until("/", |list| list.contains("data-run=\"skills\""));
    assert!(!list.contains("linked") && !list.contains("data-run=\"all"), "{list}");
    for name in ["log", "skills", "deep"] {
        let page = site.body(&format!("/run/{name}"));
        assert!(page.contains("is a link that leaves the served directory"), "{name}: {page}");
        assert!(!page.contains(SECRET));
    }
    for name in ["log", "skills"] {
        assert_eq!(site.post(&format!("/continue/{name}")).status, 404);
        let mut news = site.news(&format!("/news/{name}"));
        let now = news.until("now", |_| true);
        assert_eq!((&now["state"], &now["spent"]), (&"damaged".into(), &serde_json::Value::Null), "{now}");
    }
    assert!(site.body("/run/inside").contains("Score by step"));
    for name in ["linked", "all/outside", "all"] {
        assert_eq!(site.get(&format!("/run/{name}")).status, 404);
    }
    site.end();
}
