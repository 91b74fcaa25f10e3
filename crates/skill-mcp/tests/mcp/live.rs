//! A run that is followed and stopped while it goes on.

use crate::client::{Client, PATIENCE, Place, structured};
use crate::runs::Training;
use serde_json::{Value, json};
use skillrl::pipeline::{PipelineError, Summary};

/// The words of an answer's events.
fn said(news: &Value) -> Vec<&str> {
    let events = news["events"].as_array().unwrap().iter();
    events.filter_map(|event| event["untrusted_text"].as_str()).collect()
}

/// Waits until the run is there, and returns the first news of it.
async fn first_news(client: &mut Client) -> Value {
    let looking = async {
        loop {
            let list = client.call("list_runs", json!({"state": "training"})).await;
            if list["runs"][0]["run"] == "live" {
                let news = client.call("follow_run", json!({"run": "live"})).await;
                if news["now"]["stage"]["name"] == "baseline" {
                    return news;
                }
            }
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap()
}

/// Lets the run come to its end, while the server goes on.
async fn end(training: Training) -> Result<Summary, PipelineError> {
    tokio::task::spawn_blocking(|| training.end()).await.unwrap()
}

#[tokio::test]
async fn a_run_is_followed_from_its_first_rollout_to_its_end() {
    let place = Place::new();
    let training = Training::start(place.path("runs/live"));
    let mut client = place.client().await;
    let news = first_news(&mut client).await;
    assert_eq!(news["now"]["stage"], json!({"name": "baseline", "done": 0, "total": 4}));

    // Nothing happens, and the time is up.
    let cursor = news["next_cursor"].clone();
    let asked = json!({"run": "live", "cursor": cursor, "wait_s": 0});
    let none = client.call("follow_run", asked).await;
    assert_eq!(
        (&none["has_changed"], &none["events"], &none["next_cursor"]),
        (&false.into(), &json!([]), &cursor)
    );

    // Progress is told while it is waited for a step, and the answer comes with it.
    let arguments = json!({"run": "live", "cursor": cursor, "wait_s": 60});
    let call = json!({"name": "follow_run", "arguments": arguments, "_meta": {"progressToken": "mine"}});
    let id = client.begin_to_ask("tools/call", call).await;
    training.may_go_on.add_permits(3);
    let progress = client.receive().await;
    assert_eq!(progress["method"], "notifications/progress");
    client.notes.push(progress);
    training.may_go_on.add_permits(1);
    let news = structured(&client.answer_to(id).await);
    assert!(said(&news).contains(&"baseline: validation 0.0 %"), "{news}");
    let mut last = -1.0;
    for note in &client.notes {
        let params = &note["params"];
        let progress = params["progress"].as_f64().unwrap();
        assert!(progress > last && params["progressToken"] == "mine" && params["total"] == 60.0, "{note}");
        assert!(params["message"].as_str().unwrap().contains("baseline"), "{note}");
        last = progress;
    }

    // What is waited for is the end: steps do not wake anybody.
    let cursor = news["next_cursor"].clone();
    let asked = json!({"run": "live", "cursor": cursor, "until": "end", "wait_s": 60});
    let call = json!({"name": "follow_run", "arguments": asked});
    let id = client.begin_to_ask("tools/call", call).await;
    end(training).await.unwrap();
    let news = structured(&client.answer_to(id).await);
    assert_eq!((&news["now"]["state"], &news["now"]["steps_done"]), (&"finished".into(), &2.into()));
    let is_step =
        |line: &&str| line.starts_with("step 1/2 ") && line.contains("0.0 % → 100.0 %  accepted, new best");
    assert!(said(&news).iter().any(is_step), "{news}");
    assert!(!said(&news).contains(&"baseline: validation 0.0 %"), "told before: {news}");

    // Anyone who comes back later with the cursor misses nothing, also from another server.
    client.leave().await;
    let mut client = place.client().await;
    let late = client.call("follow_run", json!({"run": "live", "cursor": cursor})).await;
    assert!(said(&late).iter().any(is_step), "{late}");
    assert!(!said(&late).contains(&"baseline: validation 0.0 %"), "{late}");
    assert_eq!(late["n_events_left_out"], 0);
    client.leave().await;
}

#[tokio::test]
async fn a_stop_is_asked_withdrawn_and_obeyed_after_the_step() {
    let place = Place::new();
    let training = Training::start(place.path("runs/live"));
    let mut client = place.client().await;
    let news = first_news(&mut client).await;
    let request = place.path("runs/live/stop_after_step");
    let asked = client.call("stop_run", json!({"run": "live"})).await;
    assert_eq!((&asked["stop_requested"], request.exists()), (&true.into(), true));
    let run = client.call("list_runs", json!({})).await;
    assert_eq!(run["runs"][0]["stop_requested"], true);
    client.call("stop_run", json!({"run": "live", "withdraw": true})).await;
    assert!(!request.exists());
    client.call("stop_run", json!({"run": "live"})).await;
    assert!(matches!(end(training).await, Err(PipelineError::Stopped { .. } | PipelineError::Halted)));
    let asked = json!({"run": "live", "cursor": news["next_cursor"], "until": "end"});
    let news = client.call("follow_run", asked).await;
    assert_eq!(news["now"]["state"], "stopped");
    let said = client.refused("stop_run", json!({"run": "live"})).await;
    assert!(said.contains("no process works on `live`"), "{said}");
    client.leave().await;
}

#[tokio::test]
async fn a_run_that_is_resumed_is_training_for_all_who_look() {
    let place = Place::new();
    let training = Training::start(place.path("runs/live"));
    let mut client = place.client().await;
    first_news(&mut client).await;
    client.call("stop_run", json!({"run": "live"})).await;
    assert!(matches!(end(training).await, Err(PipelineError::Stopped { .. } | PipelineError::Halted)));
    for tool in ["follow_run", "read_run"] {
        // A watch of the run that is at rest.
        let state =
            client.call("follow_run", json!({"run": "live", "until": "end"})).await["now"]["state"].clone();
        assert_eq!(state, "stopped");
        let training = Training::start(place.path("runs/live"));
        let resuming =
            async { while client.call("list_runs", json!({})).await["runs"][0]["state"] != "training" {} };
        tokio::time::timeout(PATIENCE, resuming).await.unwrap();
        let news = client.call(tool, json!({"run": "live"})).await;
        assert_eq!(news["now"]["state"], "training", "{tool}");
        client.call("stop_run", json!({"run": "live"})).await;
        assert!(end(training).await.is_err());
    }
    client.leave().await;
}

#[tokio::test]
async fn whoever_does_not_wait_any_more_holds_nothing_up() {
    let place = Place::new();
    let training = Training::start(place.path("runs/live"));
    let mut client = place.client().await;
    let cursor = first_news(&mut client).await["next_cursor"].clone();
    let arguments = json!({"run": "live", "cursor": cursor, "until": "end", "wait_s": 600});
    let id = client.begin_to_ask("tools/call", json!({"name": "follow_run", "arguments": arguments})).await;
    let cancelled = json!({"requestId": id, "reason": "enough"});
    client.send(json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled})).await;
    assert_eq!(client.call("list_runs", json!({})).await["runs"][0]["run"], "live");
    // A call that is still waited for ends with the client, and the run does not.
    client.begin_to_ask("tools/call", json!({"name": "follow_run", "arguments": arguments})).await;
    client.leave().await;
    assert!(end(training).await.is_ok());
}
