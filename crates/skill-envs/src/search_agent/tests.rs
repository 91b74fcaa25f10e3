//! Questions of every data set, retrievers that work and that fail, and episodes.

use super::{
    CommandRetriever, HttpRetriever, MadeUp, PassageSource, Question, Retriever, SearchConfig, SearchWorld,
};
use crate::data::read_records;
use crate::episode::World as _;
use crate::error::EnvError;
use crate::item::Split;
use async_trait::async_trait;
use serde_json::{Value, json};
use skill_core::{SplitRatio, SplitRule};
use skill_llm::Transport;
use skill_llm::transport::{HttpRequest, HttpResponse, TransportError};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

fn question(record: &Value) -> Result<Question, EnvError> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("q.jsonl");
    std::fs::write(&path, record.to_string()).unwrap();
    Question::read(&read_records(&path).unwrap()[0], 1)
}

/// A record with its answers, the titles that support it, and how many passages come with it.
#[track_caller]
fn check(record: Value, answers: &[&str], support: &[&str], n_passages: usize) {
    let found = question(&record).unwrap();
    assert!(!found.question.is_empty() && !found.id.is_empty(), "{record}");
    assert_eq!(found.answers, answers, "{record}");
    assert_eq!(found.support, support, "{record}");
    assert_eq!(found.passages.len(), n_passages, "{record}");
}

#[test]
fn questions_are_read_in_the_shape_of_each_data_set() {
    let asked = "who?";
    // Natural Questions, open, and the files of Search-R1.
    check(json!({"question": asked, "answer": ["A", "B"]}), &["A", "B"], &[], 0);
    check(
        json!({"id": "test_0", "question": asked, "golden_answers": ["A"], "data_source": "nq"}),
        &["A"],
        &[],
        0,
    );
    // TriviaQA.
    let answer =
        json!({"value": "A", "aliases": ["A", "a1"], "normalized_aliases": ["x"], "type": "WikipediaEntity"});
    check(json!({"question_id": "tc_2", "question": asked, "answer": answer}), &["A", "a1"], &[], 0);
    // PopQA.
    check(
        json!({"id": 4, "question": asked, "obj": "A", "possible_answers": "[\"A\", \"B\"]"}),
        &["A", "B"],
        &[],
        0,
    );
    // HotpotQA and 2WikiMultiHopQA, as published and as in the Hub.
    let facts = json!([["T1", 0], ["T2", 1], ["T1", 2]]);
    let context = json!([["T1", ["One. ", " Two."]], ["T2", ["Three."]], ["T3", []]]);
    let hotpot = json!({"_id": "5a", "question": asked, "answer": "A", "type": "bridge", "supporting_facts": facts, "context": context});
    check(hotpot, &["A"], &["T1", "T2"], 2);
    let facts = json!({"title": ["T1", "T2"], "sent_id": [0, 1]});
    let context = json!({"title": ["T1", "T2"], "sentences": [["One."], ["Two."]]});
    let hub =
        json!({"id": "5a", "question": asked, "answer": "A", "supporting_facts": facts, "context": context});
    check(hub, &["A"], &["T1", "T2"], 2);
    // MuSiQue, whose hops say in which order documents are needed.
    let paragraphs = json!([
        {"idx": 0, "title": "T0", "paragraph_text": "zero", "is_supporting": true},
        {"idx": 1, "title": "T1", "paragraph_text": "one", "is_supporting": false},
        {"idx": 2, "title": "T2", "paragraph_text": "two", "is_supporting": true},
    ]);
    let hops = json!([{"paragraph_support_idx": 2}, {"paragraph_support_idx": 0}]);
    let musique = json!({"id": "2hop", "question": asked, "answer": "A", "answer_aliases": ["B"], "paragraphs": paragraphs, "question_decomposition": hops});
    check(musique, &["A", "B"], &["T2", "T0"], 3);
    // Bamboogle.
    check(json!({"Question": asked, "Answer": "A"}), &["A"], &[], 0);

    for wrong in [
        json!({"answer": "A"}),
        json!({"question": " ", "answer": "A"}),
        json!({"question": asked}),
        json!({"question": asked, "answer": [""]}),
    ] {
        assert!(matches!(question(&wrong), Err(EnvError::BadLine { line: 1, .. })), "{wrong}");
    }
}

/// A server that gives one answer to everything.
struct Fixed(u16, String);

#[async_trait]
impl Transport for Fixed {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let body: Value = serde_json::from_slice(&request.body).unwrap();
        assert_eq!(body, json!({"queries": ["who"], "topk": 2, "return_scores": true}));
        Ok(HttpResponse { status: self.0, headers: Vec::new(), body: self.1.clone().into_bytes() })
    }
}

fn server(status: u16, body: &str) -> HttpRetriever {
    let transport = Arc::new(Fixed(status, body.to_owned()));
    HttpRetriever::with_transport("http://127.0.0.1:8000/retrieve", Duration::from_secs(1), transport)
        .unwrap()
}

fn command(script: &str) -> CommandRetriever {
    let words = ["sh", "-c", script].map(str::to_owned).to_vec();
    CommandRetriever::new(words, std::env::temp_dir(), Duration::from_secs(20)).unwrap()
}

#[tokio::test]
async fn retrievers_speak_the_protocol_of_search_r1() {
    let answer = r#"{"result": [[{"document": {"id": "1", "contents": "\"T\"\none"}, "score": 2.5}, {"document": {"title": "U", "text": "two"}}]]}"#;
    let plain = r#"{"result": [[{"contents": "T\none"}, {"title": "U", "text": "two"}]]}"#;
    let from_program = command(&format!("cat > /dev/null; printf '%s' '{plain}'"));
    let retrievers: [&dyn Retriever; 3] = [&server(200, answer), &server(200, plain), &from_program];
    for retriever in retrievers {
        let found = retriever.search("who", 2).await.unwrap();
        let found: Vec<(&str, &str)> =
            found.iter().map(|passage| (&*passage.title, &*passage.text)).collect();
        assert_eq!(found, [("T", "one"), ("U", "two")]);
    }
    for empty in [r#"{"result": [[]]}"#, r#"{"result": []}"#] {
        assert_eq!(server(200, empty).search("who", 2).await, Ok(Vec::new()));
    }
}

#[tokio::test]
async fn a_retriever_that_fails_is_an_error_and_no_score() {
    let closed = HttpRetriever::new("http://127.0.0.1:1/retrieve", Duration::from_secs(5)).unwrap();
    let failing: [(Arc<dyn Retriever>, &str); 13] = [
        (Arc::new(closed), "is it running"),
        (Arc::new(server(500, "overloaded")), "HTTP status 500: overloaded"),
        (Arc::new(server(200, "<html>busy</html>")), "not JSON: <html>"),
        (Arc::new(server(200, "")), "not JSON"),
        (Arc::new(server(200, "{}")), "without `result`"),
        (Arc::new(server(200, r#"{"result": "busy"}"#)), "not a list"),
        (Arc::new(server(200, r#"{"result": null}"#)), "not a list"),
        (Arc::new(server(200, r#"{"result": ["busy"]}"#)), "not a list"),
        (Arc::new(server(200, r#"{"result": [null]}"#)), "not a list"),
        (Arc::new(server(200, r#"{"result": [["text"]]}"#)), "without `contents`"),
        (Arc::new(server(200, r#"{"result": [[{"score": 1}]]}"#)), "without `contents`"),
        (Arc::new(command("echo broken >&2; exit 3")), "broken"),
        (Arc::new(command("cat > /dev/null; echo '<html>'")), "not JSON"),
    ];
    let dir = tempfile::tempdir().unwrap();
    for (retriever, part) in failing {
        let world =
            SearchWorld::load(&config(None, dir.path()), &mut |_| {}).unwrap().with_retriever(retriever);
        let mut episode = world.episode(&world.items(Split::Train)[0]).unwrap();
        episode.reset().await.unwrap();
        match episode.step("search[who]").await {
            Err(EnvError::Broken { message, .. }) => assert!(message.contains(part), "{part}: {message}"),
            other => panic!("{part}: {other:?}"),
        }
    }
    assert!(HttpRetriever::new("localhost:8000", Duration::from_secs(1)).is_err());
    assert!(CommandRetriever::new(Vec::new(), ".".into(), Duration::from_secs(1)).is_err());
}

fn config(data: Option<&Path>, index_dir: &Path) -> SearchConfig {
    SearchConfig {
        data: data.map(Path::to_owned),
        source: PassageSource::Questions,
        index_dir: index_dir.to_owned(),
        n_passages: 2,
        timeout: Duration::from_secs(5),
        split_ratio: SplitRatio::Auto,
        split_rule: SplitRule::Float,
        split_seed: 1,
        test_is_optional: false,
        limits: [Some(20), Some(10), Some(10)],
    }
}

#[tokio::test]
async fn a_made_up_question_is_answered_by_its_solution() {
    let dir = tempfile::tempdir().unwrap();
    let world = SearchWorld::load(&config(None, dir.path()), &mut |_| {}).unwrap();
    assert_eq!(Split::ALL.map(|split| world.items(split).len()), [20, 10, 10]);
    for item in Split::ALL.iter().flat_map(|split| world.items(*split)) {
        let mut episode = world.episode(item).unwrap();
        assert!(episode.reset().await.unwrap().text.contains(&world.goal(item).unwrap()));
        let solution = episode.solution();
        let mut seen = Vec::new();
        for action in &solution {
            seen.push(episode.step(action).await.unwrap());
        }
        let last = seen.pop().unwrap();
        assert!(last.done && last.won && last.reward == 1.0, "{}", item.id);
        assert!(
            seen.iter().all(|seen| seen.understood && !seen.done && seen.text.starts_with("Doc 1(Title: "))
        );
        let answer = item.data["answers"][0].as_str().unwrap();
        assert!(seen.last().unwrap().text.contains(answer), "{}: {answer}", item.id);
    }
    assert_eq!(MadeUp::default().questions(), MadeUp::default().questions());
}

#[tokio::test]
async fn actions_are_understood_in_either_case_and_others_are_not() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("q.jsonl");
    let line = |n: usize| {
        json!({"id": n, "question": format!("q{n}"), "answer": "New York City", "context": [["T", ["text"]]]})
            .to_string()
    };
    std::fs::write(&data, (0..6).map(line).collect::<Vec<_>>().join("\n")).unwrap();
    let world = SearchWorld::load(&config(Some(&data), dir.path()), &mut |_| {}).unwrap();
    let item = &world.items(Split::Train)[0];
    // The action, and whether it is understood, ends the episode, wins, and its reward.
    let cases = [
        ("Search[text]", (true, false, false, 0.0)),
        ("search[]", (false, false, false, 0.0)),
        ("look around", (false, false, false, 0.0)),
        ("answer[ ]", (false, false, false, 0.0)),
        // An answer without a search counts as any other.
        ("answer[the new york city!]", (true, true, true, 1.0)),
        ("ANSWER[New York]", (true, true, false, 0.8)),
        ("answer[Paris]", (true, true, false, 0.0)),
    ];
    for (action, expect) in cases {
        let mut episode = world.episode(item).unwrap();
        episode.reset().await.unwrap();
        let seen = episode.step(action).await.unwrap();
        let found = (seen.understood, seen.done, seen.won, (seen.reward * 1e6).round() / 1e6);
        assert_eq!(found, expect, "{action}");
    }
    let mut episode = world.episode(item).unwrap();
    episode.reset().await.unwrap();
    assert_eq!(episode.step("search[zebra]").await.unwrap().text, "No passage was found.");
}

/// A split may have several files, and a directory no file for validation.
#[test]
fn all_files_of_a_split_are_read_and_validation_is_taken_from_train() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    std::fs::create_dir(&data).unwrap();
    for name in ["train-00000-of-00002", "train-00001-of-00002", "test"] {
        let line = |n: usize| {
            let context = json!([["T", ["text"]]]);
            json!({"id": format!("{name}-{n}"), "question": "q", "answer": "a", "context": context})
                .to_string()
        };
        let lines: Vec<String> = (0..6).map(line).collect();
        std::fs::write(data.join(format!("{name}.jsonl")), lines.join("\n")).unwrap();
    }
    let config = SearchConfig { limits: [None; 3], ..config(Some(&data), dir.path()) };
    let world = SearchWorld::load(&config, &mut |_| {}).unwrap();
    let [train, val, test] = Split::ALL.map(|split| world.items(split).len());
    assert_eq!((train + val, test), (12, 6));
    assert!(train > 0 && val > 0);
}

#[test]
fn questions_without_passages_and_doubled_ids_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("q.jsonl");
    let refused = |lines: &[Value]| {
        std::fs::write(&data, lines.iter().map(Value::to_string).collect::<Vec<_>>().join("\n")).unwrap();
        match SearchWorld::load(&config(Some(&data), dir.path()), &mut |_| {}) {
            Err(error) => error.to_string(),
            Ok(_) => panic!("{lines:?}"),
        }
    };
    let bare = json!({"id": "1", "question": "q", "answer": "a"});
    assert!(refused(std::slice::from_ref(&bare)).contains("come without passages"));
    assert!(refused(&[bare.clone(), bare]).contains("occurs twice"));
}
