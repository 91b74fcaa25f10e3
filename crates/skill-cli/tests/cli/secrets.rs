//! The key stays out of everything that is written, even if the server sends it back.

use crate::context::{KEY_VARIABLE, Outcome, TestContext};
use crate::server::Server;
use wiremock::{Request, ResponseTemplate};

const KEY: &str = "sk-test-8f3b1c55d0a94e7cb2";

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
            let with_key =
                |name| server.model(name).replace(" }", &format!(", api_key_env = \"{KEY_VARIABLE}\" }}"));
            let context = TestContext::with_task(&with_key("target"), &with_key("optimizer"));
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
