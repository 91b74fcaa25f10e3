//! `skillrl train hf://OWNER/NAME`: a data set by its name, against a server that speaks as the Hub does.

use crate::context::{Outcome, TestContext, code};
use crate::server::{Server, body, closed_address, reply};
use parking_lot::Mutex;
use serde_json::json;
use std::sync::Arc;
use wiremock::{Request, ResponseTemplate};

const REVISION: &str = "5d5b2f1a0c3e4d6f7a8b9c0d1e2f3a4b5c6d7e8f";
/// Sixty rows of a text and a label that is a number, with the names of the labels in the metadata.
const TRAIN: &[u8] = include_bytes!("../data/hub-train.parquet");

/// The requests that the Hub has answered, by path.
type Seen = Arc<Mutex<Vec<String>>>;

/// The Hub and the models behind one address: the paths are those of the Hub's interface, the models answer everything.
fn serve(server: &Server) -> Seen {
    let seen = Seen::default();
    let of_server = Arc::clone(&seen);
    server.answer_with(move |_, request: &Request| {
        let path = request.url.path().to_owned();
        if request.method.as_str() == "GET" {
            of_server.lock().push(path.clone());
        }
        match path.as_str() {
            "/api/datasets/team/tickets/revision/refs%2Fconvert%2Fparquet" => {
                ResponseTemplate::new(200).set_body_json(json!({"id": "team/tickets", "sha": REVISION}))
            }
            path if path == format!("/api/datasets/team/tickets/tree/{REVISION}") => {
                let file =
                    |path: &str| json!({"type": "file", "oid": "0", "size": TRAIN.len(), "path": path});
                let folder = json!({"type": "directory", "oid": "0", "size": 0, "path": "default/train"});
                ResponseTemplate::new(200).set_body_json(json!([
                    folder,
                    file("default/train/0000.parquet"),
                    file(".gitattributes")
                ]))
            }
            path if path
                == format!("/datasets/team/tickets/resolve/{REVISION}/default/train/0000.parquet") =>
            {
                ResponseTemplate::new(302).insert_header("location", "/store/0000.parquet")
            }
            "/store/0000.parquet" => ResponseTemplate::new(200).set_body_bytes(TRAIN),
            path if path.starts_with("/api/datasets/") => ResponseTemplate::new(401),
            _ => {
                let said = body(request).to_string();
                let queues = [("Charged", "billing"), ("parcel", "shipping"), ("Money", "refund")];
                let queue =
                    queues.iter().find(|(word, _)| said.contains(word)).map_or("?", |(_, queue)| *queue);
                reply(queue, "stop")
            }
        }
    });
    seen
}

fn train(context: &TestContext, hub: &str, models: &str, name: &str) -> Outcome {
    let args = [
        "train",
        name,
        "--answer",
        "label",
        "--model",
        "m",
        "--base-url",
        models,
        "--set",
        "train.epochs=1",
        "--yes",
    ];
    let output = context.command(&args).env("HF_ENDPOINT", hub).output().unwrap();
    Outcome::of(output)
}

#[test]
fn a_data_set_is_downloaded_once_with_the_names_of_its_labels() {
    let (context, server) = (TestContext::new(), Server::start());
    let seen = serve(&server);
    let url = server.address();
    let outcome = train(&context, &url, &url, "hf://team/tickets");
    outcome.assert_code(code::SUCCESS);
    let shown: String = REVISION.chars().take(12).collect();
    let file = format!("data/team--tickets-{shown}/train.jsonl");
    let rows = context.read(&file);
    assert_eq!(rows.lines().count(), 60);
    let first: serde_json::Value = serde_json::from_str(rows.lines().next().unwrap()).unwrap();
    assert_eq!(first, json!({"text": "Charged twice, order 0", "label": "billing"}));
    assert!(
        context.read("skillrl.toml").contains(&file),
        "the configuration repeats the run without the Hub"
    );
    assert!(context.path("runs/tickets/summary.json").exists());
    let n_seen = seen.lock().len();
    train(&context, &url, &url, "hf://datasets/team/tickets").assert_code(code::SUCCESS);
    // The revision alone is looked up again; without the Hub the copy serves.
    assert_eq!(seen.lock().len(), n_seen + 1);
    train(&context, &closed_address(), &url, "hf://team/tickets").assert_code(code::SUCCESS);
}

#[test]
fn what_the_hub_does_not_have_is_named_and_nothing_is_left() {
    let (context, server) = (TestContext::new(), Server::start());
    serve(&server);
    let url = server.address();
    let check = |hub: &str, name: &str, part: &str| {
        train(&context, hub, &url, name).fails(code::USAGE, &[part, "hint: "]);
        assert!(!context.path("data").exists() && !context.path("skillrl.toml").exists(), "{name}");
    };
    check(&url, "hf://team/private", "`team/private`");
    check(&url, "hf://team/tickets/other", "default");
    check(&url, "hf://team/tickets:dev", "train");
    check(&url, "hf://team", "`hf://team`");
    check(&url, "hf://team/../tickets", "hf://team/../tickets");
    let closed = closed_address();
    check(&closed, "hf://team/tickets", &closed);
}
