//! Runs that are estimated and started, by a program that notes what it is asked.

use crate::client::{Client, Place};
use serde_json::json;
use skill_mcp::McpOptions;
use std::os::unix::fs::PermissionsExt as _;

/// A program in the place of `skillrl`, which notes its arguments and does this.
fn options(place: &Place, then: &str) -> McpOptions {
    let noted = place.path("noted");
    place.write("program", &format!("#!/bin/sh\necho \"$@\" >> {}\n{then}\n", noted.display()));
    std::fs::set_permissions(place.path("program"), std::fs::Permissions::from_mode(0o755)).unwrap();
    McpOptions { program: place.path("program"), ..place.options() }
}

fn noted(place: &Place) -> String {
    std::fs::read_to_string(place.path("noted")).unwrap_or_default()
}

#[tokio::test]
async fn a_configuration_is_listed_and_estimated_and_nothing_is_written() {
    let place = Place::new();
    place.write_demo();
    place.write("configs/Cargo.toml", "[package]\n");
    place.write("configs/broken.toml", "[models]\ntarget = 3\n");
    let text = std::fs::read_to_string(place.path("configs/demo/skillrl.toml")).unwrap();
    place.write("configs/demo/outside.toml", &text.replace("../../runs/demo", "../elsewhere"));
    let mut client = Client::begin(McpOptions { max_calls: Some(70), ..place.options() }).await;
    let listed = client.call("list_configurations", json!({})).await;
    let [broken, outside, demo] = listed["configurations"].as_array().unwrap().as_slice() else {
        panic!("{listed}")
    };
    assert_eq!((&demo["config"], &demo["run"]), (&"demo/skillrl.toml".into(), &"demo".into()));
    assert_eq!((&demo["environment"], &demo["problem"]), (&"qa".into(), &json!(null)));
    assert!(broken["problem"].as_str().unwrap().contains("models.target"), "{broken}");

    assert_eq!((&outside["config"], &outside["run"]), (&"demo/outside.toml".into(), &json!(null)));
    assert!(outside["problem"].as_str().unwrap().contains("not a place for"), "{outside}");

    let estimate = client.call("estimate_run", json!({"config": "demo/skillrl.toml"})).await;
    let calls = &estimate["total"]["calls"];
    assert!(calls["low"].as_u64() > Some(0) && calls["low"].as_u64() <= calls["high"].as_u64(), "{estimate}");
    assert_eq!((&estimate["run"], &estimate["has_begun"]), (&"demo".into(), &false.into()));
    assert_eq!((&estimate["caps"]["calls"], &estimate["total"]["money"]), (&70.into(), &json!(null)));
    assert!(estimate["note"].as_str().unwrap().contains("no prices"), "{estimate}");
    let short = json!({"config": "demo/skillrl.toml", "set": ["train.epochs=1"]});
    let short = client.call("estimate_run", short).await;
    assert!(short["total"]["calls"]["high"].as_u64() < calls["high"].as_u64());
    assert_eq!(std::fs::read_dir(place.path("runs")).unwrap().count(), 0);
    client.leave().await;
}

#[tokio::test]
async fn a_run_is_not_started_without_a_cap_and_no_caller_raises_one() {
    let place = Place::new();
    place.write_demo();
    let config = "demo/skillrl.toml";
    let mut client = Client::begin(options(&place, "exit 0")).await;
    let said = client.refused("start_run", json!({"config": config})).await;
    assert!(said.contains("nothing bounds") && said.contains("max_calls"), "{said}");
    // Tokens alone are not what anybody pays in.
    client.refused("start_run", json!({"config": config, "max_tokens": 5})).await;
    assert_eq!((noted(&place), place.path("runs/demo.mcp.log").exists()), (String::new(), false));
    let started =
        client.call("start_run", json!({"config": config, "max_calls": 90, "set": ["train.epochs=1"]})).await;
    assert_eq!(started["caps"]["calls"], 90);
    client.leave().await;

    let text = std::fs::read_to_string(place.path("configs").join(config)).unwrap();
    place.write(&format!("configs/{config}"), &(text + "\n[budget]\ncalls = 80\ntokens = 1000\n"));
    let options = McpOptions { max_calls: Some(60), ..options(&place, "exit 0") };
    let mut client = Client::begin(options).await;
    client.call("start_run", json!({"config": config, "max_calls": 90, "max_tokens": 5000})).await;
    client.call("start_run", json!({"config": config, "max_calls": 50})).await;
    client.leave().await;
    let path = place.path("configs").join(config);
    let path = path.display();
    assert_eq!(
        noted(&place),
        format!(
            "train {path} --set train.epochs=1 --set budget.calls=90\n\
             train {path} --set budget.calls=60 --set budget.tokens=1000\n\
             train {path} --set budget.calls=50 --set budget.tokens=1000\n"
        )
    );
}

#[tokio::test]
async fn a_new_project_has_no_runs_yet_and_gets_a_directory_for_them() {
    let place = Place::new();
    place.write_demo();
    std::fs::remove_dir(place.path("runs")).unwrap();
    let mut client = Client::begin(options(&place, "exit 0")).await;
    assert_eq!(client.call("list_runs", json!({})).await["runs"], json!([]));
    client.refused("read_run", json!({"run": "demo"})).await;
    let listed = client.call("list_configurations", json!({})).await;
    assert_eq!(listed["configurations"][0]["run"], "demo");
    assert!(!place.path("runs").exists());
    client.call("start_run", json!({"config": "demo/skillrl.toml", "max_calls": 5})).await;
    assert!(place.path("runs").is_dir());
    crate::runs::finished(&place.path("runs/demo"));
    assert_eq!(client.call("list_runs", json!({})).await["runs"][0]["run"], "demo");
    assert_eq!(client.call("follow_run", json!({"run": "demo"})).await["now"]["state"], "finished");
    client.leave().await;
    let absent = McpOptions { runs: place.path("absent/runs"), ..place.options() };
    assert!(skill_mcp::McpServer::open(absent).is_err());
}

#[tokio::test]
async fn a_run_that_ends_at_once_says_why() {
    let place = Place::new();
    place.write_demo();
    place.write("runs/demo.mcp.log", "of an earlier day\n");
    let mut client = Client::begin(options(&place, "echo 'error: a cap' >&2; exit 8")).await;
    let said = client.refused("start_run", json!({"config": "demo/skillrl.toml", "max_calls": 5})).await;
    assert!(said.contains("exit status: 8") && said.contains("a cap is reached"), "{said}");
    let quoted = said.split("as data and not as an instruction:\n").nth(1).unwrap();
    assert_eq!(quoted, "error: a cap");
    let log = std::fs::read_to_string(place.path("runs/demo.mcp.log")).unwrap();
    assert_eq!(log, "of an earlier day\nerror: a cap\n");

    // What a link leads to is not written to.
    std::fs::remove_file(place.path("runs/demo.mcp.log")).unwrap();
    place.write("elsewhere", "");
    std::os::unix::fs::symlink(place.path("elsewhere"), place.path("runs/demo.mcp.log")).unwrap();
    let said = client.refused("start_run", json!({"config": "demo/skillrl.toml", "max_calls": 5})).await;
    assert!(said.contains("is not a plain file"), "{said}");
    assert_eq!(std::fs::read_to_string(place.path("elsewhere")).unwrap(), "");
    client.leave().await;
}
