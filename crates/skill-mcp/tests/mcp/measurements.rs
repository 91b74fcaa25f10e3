//! Many measurements: what they may spend together, how many are at work at once, and those of other servers.

use crate::client::{Client, Place};
use crate::measure::{CONFIG, OF_SKILL, noted, options};
use crate::runs::finished;
use serde_json::{Value, json};
use skill_mcp::McpOptions;
use skillrl::llm::journal::requests_written;
use skillrl::pipeline::run_dir::RunDir;
use std::time::{Duration, SystemTime};

/// A measurement that has sent something; how many requests.
fn measured_before(place: &Place, name: &str) -> u64 {
    let run = place.path("elsewhere");
    if !run.exists() {
        finished(&run);
    }
    let dir = place.path(&format!("runs/measurements/{name}"));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::copy(run.join("journal.sqlite"), dir.join("journal.sqlite")).unwrap();
    requests_written(&dir.join("journal.sqlite")).unwrap().unwrap()
}

/// What a program does that waits for a line in a pipe.
fn waits(place: &Place) -> String {
    let pipe = place.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    format!("read -r _ < {}", pipe.display())
}

/// Lets all programs go on that wait.
async fn release(place: &Place, n: usize) {
    let pipe = place.path("pipe");
    let write = move || std::fs::write(pipe, "\n".repeat(n)).unwrap();
    tokio::task::spawn_blocking(write).await.unwrap();
}

fn asked(name: &str) -> Value {
    json!({"name": name, "config": CONFIG, "wait_s": 60})
}

/// One that is not waited for.
fn begun(name: &str, max_calls: u64) -> Value {
    json!({"name": name, "config": CONFIG, "wait_s": 0, "max_calls": max_calls})
}

#[tokio::test]
async fn all_measurements_count_against_the_caps_of_the_server() {
    let place = Place::new();
    place.write_demo();
    let n_sent = measured_before(&place, "a1") + measured_before(&place, "a2");
    assert!(n_sent > 0);
    let of_server = |max_calls| McpOptions { max_calls: Some(max_calls), ..options(&place, "", OF_SKILL) };
    let mut client = Client::begin(of_server(n_sent)).await;
    let said = client.refused("measure", asked("a3")).await;
    assert!(said.contains("nothing is left") && said.contains("do: ask the person"), "{said}");
    assert_eq!(noted(&place), "");
    client.leave().await;
    let mut client = Client::begin(of_server(n_sent + 10)).await;
    let measured = client.call("measure", asked("a3")).await;
    assert_eq!(measured["caps"]["calls"], 10);
    assert!(noted(&place).ends_with("--set budget.calls=10\n"));
    // A lower one of the call holds, and so does what is left.
    let fewer = json!({"name": "a4", "config": CONFIG, "max_calls": 3});
    assert_eq!(client.call("measure", fewer).await["caps"]["calls"], 3);
    client.leave().await;
}

#[tokio::test]
async fn what_a_measurement_has_sent_before_is_its_own() {
    let place = Place::new();
    place.write_demo();
    let options = McpOptions { max_calls: Some(100), ..options(&place, "", OF_SKILL) };
    let mut client = Client::begin(options).await;
    client.call("measure", asked("own")).await;
    let n_sent = measured_before(&place, "own");
    let again = client.call("measure", asked("own")).await;
    // Its own cap counts what it has sent; an answer says that, too.
    assert_eq!((&again["caps"]["calls"], &again["spent"]["requests"]), (&100.into(), &n_sent.into()));
    assert_eq!(again["spent"]["requests_now"], 0);
    let other = json!({"name": "own", "config": CONFIG, "skill": "demo/initial_skill.md"});
    let said = client.refused("measure", other).await;
    assert!(said.contains("another `name`"), "{said}");
    assert_eq!(client.call("measure", asked("other")).await["caps"]["calls"], 100 - n_sent);
    client.leave().await;
}

#[tokio::test]
async fn money_counts_by_the_prices_of_the_configuration() {
    let place = Place::new();
    place.write_demo();
    let text = std::fs::read_to_string(place.path("configs/demo/skillrl.toml")).unwrap();
    let paid = "{ kind = \"openai\", model = \"target\", base_url = \"http://127.0.0.1:1/v1\"PRICE }";
    let text = text.replace("{ kind = \"simulated\", sim_seed = 7 }", paid);
    place.write(
        "configs/demo/paid.toml",
        &text.replace("PRICE", ", price_input = 1000.0, price_output = 1000.0"),
    );
    place.write("configs/demo/unpriced.toml", &text.replace("PRICE", ""));
    measured_before(&place, "before");
    let options = McpOptions { max_money: Some(1e6), ..options(&place, "", OF_SKILL) };
    let mut client = Client::begin(options.clone()).await;
    let of = |name: &str, config: &str| json!({"name": name, "config": config});
    let measured = client.call("measure", of("paid", "demo/paid.toml")).await;
    let left = measured["caps"]["money"].as_f64().unwrap();
    assert!(left < 1e6 && left > 0.0, "{measured}");
    let said = client.refused("measure", of("unpriced", "demo/unpriced.toml")).await;
    assert!(said.contains("cost of the measurement"), "{said}");
    client.leave().await;
    let mut client = Client::begin(McpOptions { max_money: Some(1e6 - left), ..options }).await;
    let said = client.refused("measure", of("more", "demo/paid.toml")).await;
    assert!(said.contains("nothing is left"), "{said}");
    client.leave().await;
}

/// The end of a configuration in which calls of the demo have prices.
const PRICES: &str = ", price_input = 1000.0, price_output = 1000.0";

#[tokio::test]
async fn calls_of_a_configuration_that_cannot_be_read_have_no_price() {
    let place = Place::new();
    place.write_demo();
    let text = std::fs::read_to_string(place.path("configs/demo/skillrl.toml")).unwrap();
    let paid =
        format!("{{ kind = \"openai\", model = \"target\", base_url = \"http://127.0.0.1:1/v1\"{PRICES} }}");
    let text = text.replace("{ kind = \"simulated\", sim_seed = 7 }", &paid);
    for name in ["old", "new"] {
        place.write(&format!("configs/demo/{name}.toml"), &text);
    }
    let options = McpOptions { max_money: Some(1e6), ..options(&place, "", OF_SKILL) };
    let mut client = Client::begin(options).await;
    let of = |name: &str, config: &str| json!({"name": name, "config": config});
    client.call("measure", of("silent", "demo/old.toml")).await;
    client.call("measure", of("paid", "demo/old.toml")).await;
    measured_before(&place, "paid");
    assert_eq!(client.call("measure", of("other", "demo/new.toml")).await["state"], "finished");
    for damage in ["[train]\nepochs = \"many\"\n", ""] {
        match damage {
            "" => std::fs::remove_file(place.path("configs/demo/old.toml")).unwrap(),
            text => place.write("configs/demo/old.toml", text),
        }
        let said = client.refused("measure", of("third", "demo/new.toml")).await;
        assert!(said.contains("measurements/paid") && said.contains("old.toml"), "{said}");
    }
    // One that has sent nothing has cost nothing, by whatever prices.
    std::fs::remove_file(place.path("runs/measurements/paid/journal.sqlite")).unwrap();
    assert_eq!(client.call("measure", of("fourth", "demo/new.toml")).await["caps"]["money"], 1e6);
    client.leave().await;
}

#[tokio::test]
async fn nothing_is_started_beside_a_record_that_cannot_be_read() {
    let place = Place::new();
    place.write_demo();
    let options = options(&place, "", OF_SKILL);
    let of_server = |max_calls| McpOptions { max_calls, ..options.clone() };
    let record = "runs/measurements/held.started.json";
    let held = RunDir::open(&place.path("runs/measurements/held")).unwrap();
    for damage in ["{", r#"{"asked": {}, "caps": {}, "of_a_newer_version": 1}"#, "is a directory"] {
        match damage {
            "is a directory" => {
                std::fs::remove_file(place.path(record)).unwrap();
                std::fs::create_dir(place.path(record)).unwrap();
            }
            text => place.write(record, text),
        }
        let mut client = Client::begin(of_server(Some(9))).await;
        for name in ["other", "held"] {
            let said = client.refused("measure", begun(name, 9)).await;
            assert!(said.contains("held.started.json"), "{damage:?}: {said}");
        }
        client.leave().await;
        // Where nothing is shared, what another one may spend decides nothing.
        let mut client = Client::begin(of_server(None)).await;
        let mut alone = asked(&format!("n{}", damage.len()));
        alone["max_calls"] = 3.into();
        assert_eq!(client.call("measure", alone).await["state"], "finished");
        client.leave().await;
    }
    drop(held);
}

#[tokio::test]
async fn those_at_work_count_with_their_caps_and_are_few() {
    let place = Place::new();
    place.write_demo();
    let then = waits(&place);
    let options = McpOptions { max_calls: Some(20), ..options(&place, &then, OF_SKILL) };
    let mut client = Client::begin(options).await;
    assert_eq!(client.call("measure", begun("a", 12)).await["caps"]["calls"], 12);
    assert_eq!(client.call("measure", begun("b", 12)).await["caps"]["calls"], 8);
    let said = client.refused("measure", begun("c", 1)).await;
    assert!(said.contains("nothing is left"), "{said}");
    // Both end, and have sent nothing.
    release(&place, 2).await;
    for name in ["a", "b"] {
        let mut asked = begun(name, 12);
        asked["wait_s"] = 60.into();
        assert_eq!(client.call("measure", asked).await["state"], "finished");
    }
    for name in ["c", "d", "e", "f"] {
        assert_eq!(client.call("measure", begun(name, 1)).await["state"], "measuring");
    }
    let said = client.refused("measure", begun("g", 1)).await;
    assert!(said.contains("4 measurements are"), "{said}");
    release(&place, 4).await;
    client.leave().await;
}

#[tokio::test]
async fn a_measurement_that_another_server_started_is_waited_for_and_not_started_twice() {
    let place = Place::new();
    place.write_demo();
    let mut options = options(&place, "", OF_SKILL);
    let held = RunDir::open(&place.path("runs/measurements/held")).unwrap();
    place.write("runs/measurements/held.7-1.part", "of another process");
    let mut client = Client::begin(options.clone()).await;
    let measured = client.call("measure", begun("held", 5)).await;
    assert_eq!((&measured["state"], &measured["caps"]), (&"measuring".into(), &Value::Null));
    assert_eq!(measured["spent"]["requests_now"], Value::Null);
    assert!(measured["note"].as_str().unwrap().contains("another server"), "{measured}");
    assert_eq!(noted(&place), "");
    // Another server knows what this one was asked, and compares it.
    options.max_calls = Some(9);
    drop(held);
    let mut asked = begun("held", 5);
    asked["wait_s"] = 60.into();
    let measured = client.call("measure", asked.clone()).await;
    assert_eq!((&measured["state"], &measured["caps"]["calls"]), (&"finished".into(), &5.into()));
    let text = std::fs::read_to_string(place.path("runs/measurements/held.7-1.part")).unwrap();
    assert_eq!(text, "of another process");
    client.leave().await;
    let held = RunDir::open(&place.path("runs/measurements/held")).unwrap();
    let mut client = Client::begin(options).await;
    let said = client.refused("measure", begun("held", 6)).await;
    assert!(said.contains("with other arguments"), "{said}");
    // What it may spend is not left for others.
    assert_eq!(client.call("measure", begun("other", 9)).await["caps"]["calls"], 4);
    drop(held);
    // What a process left that ended long ago is removed by the next.
    let left =
        std::fs::File::options().write(true).open(place.path("runs/measurements/held.7-1.part")).unwrap();
    left.set_modified(SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    client.call("measure", asked).await;
    assert!(!place.path("runs/measurements/held.7-1.part").exists());
    client.leave().await;
}
