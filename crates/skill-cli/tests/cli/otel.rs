//! Traces, as a collector on this machine gets them.

use crate::context::{KEY_VARIABLE, Outcome, TestContext, assert_same_files, code};
#[cfg(unix)]
use crate::interrupt::interrupt;
use crate::server::{Server, healthy};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";

/// A message of protocol buffers: the values of each field, by its number.
#[derive(Debug, Default)]
struct Message(BTreeMap<u64, Vec<Field>>);

#[derive(Debug)]
enum Field {
    Number(u64),
    Bytes(Vec<u8>),
}

impl Message {
    fn read(mut bytes: &[u8]) -> Self {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let mut number = 0;
            for place in 0.. {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                number |= u64::from(byte & 0x7f) << (7 * place);
                if byte < 0x80 {
                    break;
                }
            }
            number
        }
        fn take<'a>(bytes: &mut &'a [u8], n: usize) -> &'a [u8] {
            let (taken, rest) = bytes.split_at(n);
            *bytes = rest;
            taken
        }
        let mut message = Self::default();
        while !bytes.is_empty() {
            let tag = varint(&mut bytes);
            let field = match tag & 7 {
                0 => Field::Number(varint(&mut bytes)),
                1 => Field::Number(u64::from_le_bytes(take(&mut bytes, 8).try_into().unwrap())),
                2 => {
                    let n = usize::try_from(varint(&mut bytes)).unwrap();
                    Field::Bytes(take(&mut bytes, n).to_vec())
                }
                5 => Field::Number(u64::from(u32::from_le_bytes(take(&mut bytes, 4).try_into().unwrap()))),
                other => panic!("wire type {other}"),
            };
            message.0.entry(tag >> 3).or_default().push(field);
        }
        message
    }

    fn all(&self, number: u64) -> impl Iterator<Item = Self> {
        let fields = self.0.get(&number).into_iter().flatten();
        fields.filter_map(|field| match field {
            Field::Bytes(bytes) => Some(Self::read(bytes)),
            Field::Number(_) => None,
        })
    }

    fn bytes(&self, number: u64) -> Vec<u8> {
        match self.0.get(&number).and_then(|fields| fields.first()) {
            Some(Field::Bytes(bytes)) => bytes.clone(),
            Some(Field::Number(_)) | None => Vec::new(),
        }
    }

    fn text(&self, number: u64) -> String {
        String::from_utf8(self.bytes(number)).unwrap()
    }

    fn number(&self, number: u64) -> u64 {
        match self.0.get(&number).and_then(|fields| fields.first()) {
            Some(Field::Number(number)) => *number,
            Some(Field::Bytes(_)) | None => 0,
        }
    }

    /// Attributes with their values as text.
    fn attributes(&self, number: u64) -> BTreeMap<String, String> {
        let value = |value: &Self| match value.0.first_key_value() {
            Some((1, _)) => value.text(1),
            Some((2, _)) => (value.number(2) == 1).to_string(),
            Some((3, _)) => value.number(3).to_string(),
            Some((4, _)) => f64::from_bits(value.number(4)).to_string(),
            Some((5, _)) => {
                let values = value.all(5).flat_map(|list| list.all(1).collect::<Vec<_>>());
                format!("{:?}", values.map(|value| value.text(1)).collect::<Vec<_>>())
            }
            other => panic!("{other:?}"),
        };
        let named = self.all(number).map(|pair| (pair.text(1), value(&pair.all(2).next().unwrap())));
        named.collect()
    }
}

/// A span as it arrived.
#[derive(Debug, Clone)]
struct Span {
    trace: Vec<u8>,
    id: Vec<u8>,
    parent: Vec<u8>,
    name: String,
    attributes: BTreeMap<String, String>,
    events: Vec<(String, BTreeMap<String, String>)>,
    is_failed: bool,
    took: u64,
}

#[derive(Debug, Default)]
struct Arrived {
    bytes: Vec<u8>,
    heads: String,
    resources: Vec<BTreeMap<String, String>>,
    spans: Vec<Span>,
}

/// A collector that takes all, or one that takes a connection and never answers.
struct Collector {
    url: String,
    arrived: Arc<Mutex<Arrived>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let arrived: Arc<Mutex<Arrived>> = Arc::default();
        let of_thread = Arc::clone(&arrived);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let arrived = Arc::clone(&of_thread);
                std::thread::spawn(move || take_all(&stream.unwrap(), &arrived));
            }
        });
        Self { url, arrived }
    }

    fn arrived(&self) -> Arrived {
        std::mem::take(&mut self.arrived.lock())
    }
}

fn take_all(stream: &TcpStream, arrived: &Mutex<Arrived>) {
    let (mut reader, mut writer) = (BufReader::new(stream), stream);
    loop {
        let (mut head, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
            head.push_str(&line);
            line.clear();
        }
        let lower = head.to_lowercase();
        let length = lower.lines().find_map(|line| line.strip_prefix("content-length: "));
        let Some(length) = length else { return };
        let mut body = vec![0; length.trim().parse().unwrap()];
        reader.read_exact(&mut body).unwrap();
        let mut arrived = arrived.lock();
        for resource in Message::read(&body).all(1) {
            arrived.resources.extend(resource.all(1).map(|resource| resource.attributes(1)));
            let spans = resource.all(2).flat_map(|scope| scope.all(2).collect::<Vec<_>>());
            arrived.spans.extend(spans.map(|span| Span {
                trace: span.bytes(1),
                id: span.bytes(2),
                parent: span.bytes(4),
                name: span.text(5),
                attributes: span.attributes(9),
                events: span.all(11).map(|event| (event.text(2), event.attributes(3))).collect(),
                is_failed: span.all(15).any(|status| status.number(3) == 2),
                took: span.number(8) - span.number(7),
            }));
        }
        arrived.bytes.extend(body);
        arrived.heads.push_str(&head);
        drop(arrived);
        writer.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n").unwrap();
    }
}

fn train(context: &TestContext, config: &str, variables: &[(&str, &str)]) -> Outcome {
    let mut command = context.command(&["train", config, "--quiet"]);
    Outcome::of(command.envs(variables.iter().copied()).output().unwrap())
}

/// What the first item of the selection split asks.
fn question_of(context: &TestContext) -> String {
    let items = context.read("demo/data/val.jsonl");
    let item: serde_json::Value = serde_json::from_str(items.lines().next().unwrap()).unwrap();
    item["question"].as_str().unwrap().to_owned()
}

/// The spans of this name.
fn named<'a>(spans: &'a [Span], name: &'a str) -> impl Iterator<Item = &'a Span> {
    spans.iter().filter(move |span| span.name == name)
}

#[test]
fn a_run_arrives_as_one_tree_of_run_steps_stages_rollouts_and_calls() {
    let (context, collector) = (TestContext::with_demo(), Collector::start());
    train(&context, "demo/skillrl.toml", &[(ENDPOINT, &collector.url)]).assert_code(code::SUCCESS);
    let Arrived { bytes, heads, resources, spans } = collector.arrived();
    assert!(heads.contains("POST /v1/traces "), "{heads}");
    assert_eq!(resources[0]["service.name"], "skillrl");
    assert!(resources[0].contains_key("service.version"));

    let by_id: BTreeMap<&[u8], &Span> = spans.iter().map(|span| (span.id.as_slice(), span)).collect();
    assert_eq!(by_id.len(), spans.len());
    let [run] = named(&spans, "run").collect::<Vec<_>>()[..] else { panic!("one run") };
    assert!(run.parent.is_empty() && !run.is_failed);
    assert_eq!((&*run.attributes["skillrl.run.name"], &*run.attributes["skillrl.run.env"]), ("run", "qa"));
    assert!(spans.iter().all(|span| span.trace == run.trace));
    let path = |span: &Span| {
        let ancestors = std::iter::successors(Some(span), |span| by_id.get(span.parent.as_slice()).copied());
        ancestors.map(|span| span.name.clone()).collect::<Vec<_>>()
    };
    let calls: Vec<&Span> = spans.iter().filter(|span| span.name.starts_with("chat ")).collect();
    let mut n_answered = 0;
    for call in &calls {
        let path = path(call);
        assert_eq!(path.last().unwrap(), "run", "{path:?}");
        let attributes = &call.attributes;
        assert_eq!(attributes["gen_ai.operation.name"], "chat");
        assert_eq!(attributes["gen_ai.provider.name"], "simulated");
        assert_eq!(call.name, format!("chat {}", attributes["gen_ai.request.model"]));
        // A decision about a candidate cancels its calls in flight, and a cancelled call has no reply.
        let Some(reasons) = attributes.get("gen_ai.response.finish_reasons") else { continue };
        n_answered += 1;
        assert_eq!(reasons, "[\"stop\"]");
        assert!(attributes["gen_ai.usage.input_tokens"].parse::<u64>().unwrap() > 0, "{attributes:?}");
        assert!(attributes.contains_key("gen_ai.usage.output_tokens") && call.events.is_empty());
    }
    assert!(n_answered > calls.len() / 2, "{n_answered} of {}", calls.len());
    let [step] = named(&spans, "step 1").collect::<Vec<_>>()[..] else { panic!("one first step") };
    assert!(step.attributes["skillrl.step.action"].starts_with("accept"), "{step:?}");
    assert!(step.attributes.contains_key("skillrl.step.candidate_score") && step.took > 0);
    let stages: Vec<&str> =
        spans.iter().filter(|span| span.parent == step.id).map(|span| &*span.name).collect();
    assert!(stages.contains(&"rollout") && stages.contains(&"evaluate"), "{stages:?}");
    let rollouts = || spans.iter().filter(|span| span.attributes.contains_key("skillrl.rollout.item"));
    assert!(rollouts().all(|span| span.attributes["skillrl.rollout.is_recorded"] == "false"));
    for place in [&["rollout", "step 1", "run"][..], &["evaluate", "step 1", "run"], &["baseline", "run"]] {
        assert!(rollouts().any(|span| path(span)[0] == "rollout" && path(span)[1..] == *place), "{place:?}");
    }
    let reflecting = ["reflect", "step 1", "run"].map(str::to_owned);
    assert!(calls.iter().any(|call| path(call).ends_with(&reflecting)));
    // Every call of the run is there, and nothing of what was said.
    let summary = context.json("demo/run/summary.json");
    let n_calls = summary["token_summary"].as_object().unwrap().values();
    let n_calls: u64 = n_calls.map(|used| used["calls"].as_u64().unwrap()).sum();
    // Rollouts beyond what decided a candidate are calls too, and are in no record.
    assert!(calls.len() as u64 >= n_calls, "{} spans of {n_calls} calls", calls.len());
    let text = String::from_utf8_lossy(&bytes);
    let question = question_of(&context);
    assert!(!text.contains(&question));

    // Asked for, it is there, and in no log.
    let (context, collector) = (TestContext::with_demo(), Collector::start());
    let capture = ("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true");
    let variables = [(ENDPOINT, collector.url.as_str()), capture, ("SKILLRL_LOG", "trace")];
    let outcome = train(&context, "demo/skillrl.toml", &variables);
    outcome.assert_code(code::SUCCESS);
    assert!(!outcome.stderr.contains(&question));
    let Arrived { spans, .. } = collector.arrived();
    let call = spans.iter().find(|span| span.name.starts_with("chat ")).unwrap();
    let (name, content) = &call.events[0];
    assert_eq!(name, "gen_ai.client.inference.operation.details");
    let messages: serde_json::Value = serde_json::from_str(&content["gen_ai.input.messages"]).unwrap();
    assert_eq!((&messages[0]["role"], &messages[0]["parts"][0]["type"]), (&"system".into(), &"text".into()));
    let answer: serde_json::Value = serde_json::from_str(&content["gen_ai.output.messages"]).unwrap();
    assert_eq!((&answer[0]["role"], &answer[0]["finish_reason"]), (&"assistant".into(), &"stop".into()));
}

#[test]
fn attempts_are_children_of_their_call_and_no_key_is_anywhere() {
    const KEY: &str = "sk-0123456789-never-seen";
    let (models, collector) = (Server::start(), Collector::start());
    let context = models.task_with(&format!(", api_key_env = \"{KEY_VARIABLE}\""));
    context.replace("task/skillrl.toml", "max_attempts = 1", "max_attempts = 3\nfirst_delay_s = 0.0");
    models.answer_with(|call, request| match call {
        1 => wiremock::ResponseTemplate::new(503),
        _ => healthy(request),
    });
    let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-token=abc");
    let variables =
        [(ENDPOINT, collector.url.as_str()), (KEY_VARIABLE, KEY), headers, ("OTEL_SERVICE_NAME", "mine")];
    train(&context, "task/skillrl.toml", &variables).assert_code(code::SUCCESS);
    let Arrived { bytes, heads, resources, spans } = collector.arrived();
    assert!(heads.contains("x-collector-token: abc") && !heads.contains(KEY), "{heads}");
    assert!(!String::from_utf8_lossy(&bytes).contains(KEY));
    assert_eq!(resources[0]["service.name"], "mine");
    let [failed] = named(&spans, "attempt").filter(|span| span.is_failed).collect::<Vec<_>>()[..] else {
        panic!("one attempt failed")
    };
    assert_eq!(failed.attributes["error.type"], "server_error");
    let siblings: Vec<&str> = spans
        .iter()
        .filter(|span| span.parent == failed.parent)
        .map(|span| &*span.attributes["skillrl.attempt.number"])
        .collect();
    assert_eq!(siblings, ["1", "2"]);
    let call = spans.iter().find(|span| span.id == failed.parent).unwrap();
    assert_eq!(
        (&*call.name, &*call.attributes["skillrl.call.attempts"], call.is_failed),
        ("chat target", "2", false)
    );
}

#[test]
fn a_collector_that_fails_or_does_not_answer_changes_no_run_and_holds_none_up() {
    let expected = TestContext::with_finished_demo().untimed_files("demo/run");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = format!("http://{}", silent.local_addr().unwrap());
    for endpoint in [crate::server::closed_address(), silent, "nonsense".to_owned()] {
        let context = TestContext::with_demo();
        let began = Instant::now();
        let outcome = train(&context, "demo/skillrl.toml", &[(ENDPOINT, &endpoint)]);
        outcome.assert_code(code::SUCCESS);
        let is_said = ["spans did not reach the collector", "no traces are sent"];
        let is_said = is_said.into_iter().any(|words| outcome.stderr.contains(words));
        assert!(is_said, "{endpoint}: {}", outcome.stderr);
        assert_same_files(&context.untimed_files("demo/run"), &expected);
        assert!(began.elapsed() < Duration::from_secs(60), "{endpoint} held the run up");
    }
    // Off is off: nobody is asked, and nothing is said.
    for variable in [("OTEL_SDK_DISABLED", "true"), ("OTEL_TRACES_EXPORTER", "none")] {
        let (context, collector) = (TestContext::with_demo(), Collector::start());
        let outcome = train(&context, "demo/skillrl.toml", &[(ENDPOINT, &collector.url), variable]);
        outcome.assert_code(code::SUCCESS);
        assert!(!outcome.stderr.contains("collector"), "{}", outcome.stderr);
        assert!(collector.arrived().bytes.is_empty());
    }
}

#[cfg(unix)]
#[test]
fn what_was_traced_is_sent_when_a_person_stops_the_run() {
    let (models, context) = Server::start_with_task();
    let collector = Collector::start();
    let mut command = context.command(&["train", "task/skillrl.toml", "--quiet", "--set", "run.workers=1"]);
    command.env(ENDPOINT, &collector.url);
    // The third call is answered when the program has said that it stops.
    let outcome = interrupt(&models, command, 3, "-INT", &["stopping when"], |_, request| healthy(request));
    outcome.assert_code(code::STOPPED);
    let Arrived { spans, .. } = collector.arrived();
    let run = named(&spans, "run").next().unwrap();
    assert!(run.is_failed && spans.iter().any(|span| span.name == "chat target"));
}
