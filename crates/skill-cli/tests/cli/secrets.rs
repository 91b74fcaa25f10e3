//! The key stays out of everything that is written, even if the server sends it back.

use crate::context::{KEY_VARIABLE, Outcome, TestContext, code};
use crate::server::{self, Server};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use wiremock::{Request, ResponseTemplate};

const KEY: &str = "sk-test-8f3b1c55d0a94e7cb2";
const OTHER_KEY: &str = "nvapi-7Qm2x/Zk91+LwTt4";
const OTHER_VARIABLE: &str = "SKILLRL_OTHER_TEST_KEY";

/// A server that shows the header with the key, in one of the shapes that servers use.
type Echo = fn(&str) -> ResponseTemplate;

const ECHOES: [Echo; 6] = [
    |header| ResponseTemplate::new(401).set_body_string(header),
    |header| {
        ResponseTemplate::new(400)
            .set_body_string(format!("{{\"error\": {{\"message\": \"got {header}\"}}}}"))
    },
    |header| ResponseTemplate::new(503).set_body_string(format!("<html>{header}</html>")),
    |header| ResponseTemplate::new(200).set_body_string(format!("not JSON: {header}")),
    |header| ResponseTemplate::new(200).set_body_string(format!("{{\"error\": \"{header}\"}}")),
    |header| {
        ResponseTemplate::new(302)
            .insert_header("location", format!("http://elsewhere/{header}").replace(' ', "-").as_str())
    },
];

#[test]
fn a_key_that_a_server_echoes_is_written_nowhere() {
    for (echo_idx, echo) in ECHOES.into_iter().enumerate() {
        for verbosity in ["-vv", "-vvv"] {
            let server = Server::start();
            let context = server.task_with(&format!(", api_key_env = \"{KEY_VARIABLE}\""));
            server.answer_with(move |_, request: &Request| {
                let header = request.headers.get("authorization").expect("the key is sent").to_str().unwrap();
                assert!(header.contains(KEY));
                echo(header)
            });
            let mut command = context.command(&["train", "task/skillrl.toml", verbosity]);
            let outcome = Outcome::of(command.env(KEY_VARIABLE, KEY).output().unwrap());
            let case = format!("echo {echo_idx} {verbosity}");
            assert_ne!(outcome.code, Some(0), "{case}");
            assert!(server.n_calls() > 0, "{case}: {}", outcome.stderr);
            assert!(!outcome.stdout.contains(KEY), "{case}: {}", outcome.stdout);
            assert!(!outcome.stderr.contains(KEY), "{case}: {}", outcome.stderr);
            let files = context.files(".");
            assert!(files.keys().any(|path| path.ends_with("run/events.jsonl")));
            for (path, bytes) in files {
                assert!(!String::from_utf8_lossy(&bytes).contains(KEY), "{case}: {}", path.display());
            }
        }
    }
}

fn base64(text: &str) -> String {
    match skillrl::llm::ImageSource::from_bytes("text/plain", text.as_bytes()) {
        skillrl::llm::ImageSource::Base64 { data, .. } => data,
        skillrl::llm::ImageSource::Url(url) => url,
    }
}

/// What a server was shown, as it is, as JSON in JSON has it, and in base 64.
fn echo(request: &Request) -> String {
    let header = request.headers.get("authorization").expect("the key is sent").to_str().unwrap();
    let both = format!("{KEY} {OTHER_KEY} {header}");
    let encoded = base64(&both);
    format!("{both} {} {encoded}", OTHER_KEY.replace('/', "\\/"))
}

/// A server that echoes the key in good replies: none of the files, the outputs and the later prompts has it, nor that of
/// the other model.
#[test]
fn a_key_in_a_good_reply_is_written_nowhere_and_sent_nowhere() {
    let server = Server::start();
    let with_key = |name, variable| server.model_with(name, &format!(", api_key_env = \"{variable}\""));
    let context =
        TestContext::with_task(&with_key("target", KEY_VARIABLE), &with_key("optimizer", OTHER_VARIABLE));
    let n_leaked = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&n_leaked);
    server.answer_with(move |_, request| {
        let asked = String::from_utf8_lossy(&request.body);
        let is_leaked = holds_a_key(&asked);
        counted.fetch_add(usize::from(is_leaked), Ordering::Relaxed);
        let body = server::body(request);
        let echoed = echo(request);
        if server::is_optimizer(&body) {
            let rule = format!("{}\n- The key is {echoed}", server::GOOD_RULE);
            let edits = json!([{"op": "append", "target": "", "content": rule, "support_count": 1}]);
            let patch = json!({"patch": {"reasoning": echoed, "edits": edits}});
            return server::reply(&patch.to_string(), &format!("stop {KEY}"));
        }
        let call = json!({"id": echoed, "function": {"name": "look", "arguments": json!({"k": echoed}).to_string()}});
        ResponseTemplate::new(200).insert_header("x-echo", KEY).set_body_json(json!({
            "id": echoed,
            "model": echoed,
            "choices": [{
                "message": {"content": format!("I say {echoed}"), "reasoning": echoed, "tool_calls": [call]},
                "finish_reason": format!("stop-{KEY}"),
            }],
            "usage": {"prompt_tokens": 10, "completion_tokens": 5},
        }))
    });
    let run = |args: &[&str]| {
        let mut command = context.command(args);
        Outcome::of(command.env(KEY_VARIABLE, KEY).env(OTHER_VARIABLE, OTHER_KEY).output().unwrap())
    };
    let trained = run(&["train", "task/skillrl.toml", "-vv"]);
    trained.assert_code(code::SUCCESS);
    let reported = run(&["report", "task/run"]);
    reported.assert_code(code::SUCCESS);
    assert_eq!(n_leaked.load(Ordering::Relaxed), 0, "no key is in a prompt");
    for said in [&trained.stdout, &trained.stderr, &reported.stdout, &reported.stderr] {
        assert!(!holds_a_key(said), "{said}");
    }
    let files = context.files(".");
    assert!(files.keys().any(|path| path.ends_with("run/report.html")));
    let holds = |bytes: &[u8]| holds_a_key(&String::from_utf8_lossy(bytes));
    let leaked: Vec<_> = files.iter().filter(|(_, bytes)| holds(bytes)).map(|(path, _)| path).collect();
    assert!(leaked.is_empty(), "{leaked:?}");
    // What was said else is there.
    assert!(files.values().any(|bytes| String::from_utf8_lossy(bytes).contains("The key is [key]")));
}

/// Whether a text holds a key, or what is in the middle of its base 64.
fn holds_a_key(text: &str) -> bool {
    let encodings = |key: &str| {
        let key = key.to_owned();
        (0..3).map(move |skip| base64(key.get(skip..skip + 12).unwrap()))
    };
    [KEY, OTHER_KEY].iter().any(|key| text.contains(key) || encodings(key).any(|part| text.contains(&part)))
        || text.contains(&OTHER_KEY.replace('/', "\\/"))
}

/// A run holds prompts and replies: who may read it is what the umask of its user says, and new directories are private.
#[cfg(unix)]
#[test]
fn files_of_a_run_have_the_permissions_of_the_umask() {
    use std::os::unix::fs::PermissionsExt as _;

    fn modes(at: &std::path::Path, found: &mut Vec<(std::path::PathBuf, u32)>) {
        for entry in std::fs::read_dir(at).unwrap() {
            let path = entry.unwrap().path();
            found.push((path.clone(), path.metadata().unwrap().permissions().mode() & 0o777));
            if path.is_dir() {
                modes(&path, found);
            }
        }
    }
    let context = crate::context::TestContext::new();
    assert_eq!(context.run(&["init", "--demo", "demo"]).code, Some(0));
    let train = context.command(&["train", "demo/skillrl.toml", "--quiet"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "umask 027; exec \"$0\" \"$@\""]).arg(train.get_program()).args(train.get_args());
    command.current_dir(train.get_current_dir().unwrap());
    for (name, value) in train.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    assert!(command.status().unwrap().success());
    let mut found = Vec::new();
    modes(&context.path("demo/run"), &mut found);
    assert!(found.len() > 20, "{found:?}");
    for (path, mode) in found {
        let expect = if path.is_dir() { [0o700, 0o700] } else { [0o640, 0o600] };
        assert!(expect.contains(&mode), "{}: {mode:o}", path.display());
    }
}
