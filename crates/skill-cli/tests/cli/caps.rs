//! Caps of the whole program where the limits of replies are known: at 1, 64 and 256 workers, with and without `kill -9`
//! at random moments, the server bills no more than a cap allows.
//!
//! CI makes a few of these runs, `cargo xtask check caps` all 78.
#![cfg(unix)]

use crate::context::{TestContext, code};
use crate::server::{Server, body, healthy_words};
use parking_lot::Mutex;
use serde_json::json;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use wiremock::{Request, ResponseTemplate};

/// How many runs are made, where it is not [`N_RUNS`]; `cargo xtask check caps` sets it.
const RUNS_VARIABLE: &str = "SKILLRL_CAPS_RUNS";
const N_RUNS: usize = 6;

const WORKERS: [u32; 3] = [1, 64, 256];
/// Processes of a run that are killed.
const N_KILLS: u64 = 4;
/// Far longer than starting a program takes; only a failed test waits so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Tokens of every reply, which is as long as its limit.
const REPLY_TOKENS: u64 = 8_000;
const CALLS: u64 = 90;
const TOKENS: u64 = 500_000;
const MONEY: f64 = 5.0;
const PRICE_INPUT: f64 = 1.0;
const PRICE_OUTPUT: f64 = 10.0;

/// What the server has billed, also to processes that were killed before they had the answer.
#[derive(Debug, Clone, Copy, Default)]
struct Billed {
    calls: u64,
    tokens: u64,
    money: f64,
}

/// A command, and the cap that it runs under.
const JOBS: [(&str, &str); 13] = [
    ("train", "tokens"),
    ("eval", "calls"),
    ("doctor", "money"),
    ("eval", "tokens"),
    ("train", "calls"),
    ("prune", "tokens"),
    ("train", "money"),
    ("prune", "calls"),
    ("eval", "money"),
    ("doctor", "tokens"),
    ("replay", "calls"),
    ("replay", "tokens"),
    ("replay", "money"),
];

/// Bills every request as soon as it is here, and kills who sent the one of this number.
fn answer(
    billed: &Arc<Mutex<Billed>>,
    killed_call: Option<u64>,
    pid: Receiver<u32>,
) -> impl Fn(usize, &Request) -> ResponseTemplate + Send + 'static {
    let billed = Arc::clone(billed);
    move |call, request| {
        let prompt_tokens = request.body.len() as u64 / 4;
        // The last requests below a cap are limited to what is left.
        let reply_tokens = body(request)["max_tokens"].as_u64().unwrap();
        assert!(reply_tokens <= REPLY_TOKENS, "{reply_tokens}");
        {
            let mut billed = billed.lock();
            billed.calls += 1;
            billed.tokens += prompt_tokens + reply_tokens;
            billed.money += (prompt_tokens as f64 * PRICE_INPUT + reply_tokens as f64 * PRICE_OUTPUT) / 1e6;
        }
        if Some(call as u64) == killed_call {
            let pid = pid.recv_timeout(PATIENCE).unwrap();
            // A process that reached its cap has ended already.
            let _sent = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
        }
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{"message": {"role": "assistant", "content": "word"}, "finish_reason": "length"}],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": reply_tokens},
        }))
    }
}

fn task(server: &Server) -> TestContext {
    task_with(server, &format!(", max_tokens = {REPLY_TOKENS}"))
}

fn task_with(server: &Server, limit: &str) -> TestContext {
    let prices = format!(", price_input = {PRICE_INPUT:.1}, price_output = {PRICE_OUTPUT:.1}");
    let context = server.task_with(&(limit.to_owned() + &prices));
    let filler = "word ".repeat(100);
    for (split, n_items) in [("train", 8), ("val", 400)] {
        let items: Vec<String> = (0..n_items)
            .map(|item| json!({"id": format!("{split}-{item}"), "question": format!("Repeat {item}: {filler}"), "answers": ["word"]}).to_string())
            .collect();
        context.write(&format!("task/data/{split}.jsonl"), &items.join("\n"));
    }
    context
}

/// SplitMix64: seeds of ours, so that a failure can be had again.
fn random(seed: u64, limit: u64) -> u64 {
    let mut mixed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (mixed ^ (mixed >> 31)) % limit
}

/// A run that was stopped at its cap: a replay goes further than its recording.
fn record(server: &Server, context: &TestContext) {
    server.answer_with(answer(&Arc::default(), None, mpsc::channel().1));
    let recorded = context.run(&["train", "task/skillrl.toml", "--quiet", "--set", "budget.calls=20"]);
    assert_eq!(recorded.code, Some(code::BUDGET), "{}", recorded.stderr);
}

fn check(run_idx: usize) {
    // Every job at every number of workers, once undisturbed and once with kills.
    let (workers, has_kills) = (WORKERS[run_idx % 3], run_idx / 3 % 2 == 1);
    let (job, cap) = JOBS[(run_idx / 6 + 5 * (run_idx % 3)) % JOBS.len()];
    let server = Server::start();
    let context = task(&server);
    let value = match cap {
        "calls" => CALLS.to_string(),
        "tokens" => TOKENS.to_string(),
        _ => format!("{MONEY:.1}"),
    };
    if job == "replay" {
        record(&server, &context);
    }
    let subject = if job == "replay" { "task/run" } else { "task/skillrl.toml" };
    let mut args = vec![job.to_owned(), subject.to_owned()];
    args.extend(match job {
        "replay" => ["--live", "--into", "again", "--quiet"].map(str::to_owned).into(),
        "eval" => vec!["--split".to_owned(), "val".to_owned(), "--out".to_owned(), "measured".to_owned()],
        "doctor" => vec!["--measure".to_owned()],
        "prune" => vec!["--skill".to_owned(), "task/skill.md".to_owned()],
        _ => Vec::new(),
    });
    for set in [format!("run.workers={workers}"), format!("budget.{cap}={value}")] {
        args.extend(["--set".to_owned(), set]);
    }
    let args: Vec<&str> = args.iter().map(String::as_str).collect();

    let billed = Arc::new(Mutex::new(Billed::default()));
    let mut n_killed = 0;
    for kill in 0..if has_kills { N_KILLS } else { 0 } {
        let killed_call = 1 + random(run_idx as u64 * N_KILLS + kill, CALLS / N_KILLS);
        let (pid_in, pid) = mpsc::channel();
        server.answer_with(answer(&billed, Some(killed_call), pid));
        let mut child = context.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        pid_in.send(child.id()).unwrap();
        n_killed += u32::from(child.wait().unwrap().signal().is_some());
    }
    server.answer_with(answer(&billed, None, mpsc::channel().1));
    let last = context.run(&args);
    let at = format!("run {run_idx}: {job} with {workers} workers, {n_killed} kills and a cap on {cap}");
    assert_eq!(last.code, Some(code::BUDGET), "{at}: {}", last.stderr);
    let billed = *billed.lock();
    let (used, cap) = match cap {
        "calls" => (billed.calls as f64, CALLS as f64),
        "tokens" => (billed.tokens as f64, TOKENS as f64),
        _ => (billed.money, MONEY),
    };
    assert!(used <= cap, "{at}: {used} of {cap}");
    // One more reply would not have been sure to fit.
    let is_used_up = used + 2.0 * cap * REPLY_TOKENS as f64 / TOKENS as f64 > cap;
    assert!(has_kills || is_used_up, "{at}: {used} of {cap}");
    assert!(!has_kills || n_killed > 0, "{at}: nothing was killed");
}

#[test]
fn the_server_bills_no_more_than_a_cap_allows() {
    let n_runs = std::env::var(RUNS_VARIABLE).map_or(N_RUNS, |text| text.parse().unwrap());
    for run_idx in 0..n_runs {
        check(run_idx);
    }
}

/// Replies of 1 to 20,000 tokens, of which nothing is known before; a limit cuts them.
fn answer_at_length(
    billed: &Arc<Mutex<Billed>>,
) -> impl Fn(usize, &Request) -> ResponseTemplate + Send + 'static {
    let billed = Arc::clone(billed);
    move |call, request| {
        let prompt_tokens = request.body.len() as u64 / 4;
        let wanted = if call == 0 { 1 } else { 1 + random(call as u64, 20_000) };
        let limit = body(request)["max_tokens"].as_u64().unwrap_or(u64::MAX);
        let reply_tokens = wanted.min(limit);
        let mut billed = billed.lock();
        billed.calls += 1;
        billed.tokens += prompt_tokens + reply_tokens;
        billed.money += (prompt_tokens as f64 * PRICE_INPUT + reply_tokens as f64 * PRICE_OUTPUT) / 1e6;
        let finish = if reply_tokens < wanted { "length" } else { "stop" };
        ResponseTemplate::new(200).set_body_json(json!({
            "choices": [{"message": {"role": "assistant", "content": "word"}, "finish_reason": finish}],
            "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": reply_tokens},
        }))
    }
}

#[test]
fn the_server_bills_no_more_than_a_cap_allows_where_replies_have_no_limit() {
    for (workers, cap) in [(1, "tokens"), (64, "money"), (256, "tokens")] {
        let server = Server::start();
        let context = task_with(&server, "");
        let billed = Arc::new(Mutex::new(Billed::default()));
        server.answer_with(answer_at_length(&billed));
        let value = if cap == "tokens" { TOKENS.to_string() } else { format!("{MONEY:.1}") };
        let (at_once, limit) = (format!("run.workers={workers}"), format!("budget.{cap}={value}"));
        let eval = ["eval", "task/skillrl.toml", "--split", "val", "--set", &at_once, "--set", &limit];
        let outcome = context.run(&eval);
        assert_eq!(outcome.code, Some(code::BUDGET), "{}", outcome.stderr);
        let Billed { tokens, money, .. } = *billed.lock();
        let used = if cap == "tokens" { tokens as f64 / TOKENS as f64 } else { money / MONEY };
        assert!((0.9..=1.0).contains(&used), "{workers} workers: {used} of the cap on {cap}");
    }
}

/// The first request of a run is sent under a small cap too, and what cannot be sent is told in dollars.
#[test]
fn a_small_cap_sends_what_it_has_room_for() {
    let server = Server::start();
    let context = task_with(&server, "");
    let billed = Arc::new(Mutex::new(Billed::default()));
    server.answer_with(answer_at_length(&billed));
    let eval = |money: &str| {
        let cap = format!("budget.money={money}");
        context.run(&["eval", "task/skillrl.toml", "--split", "val", "--set", &cap])
    };
    assert_eq!(eval("0.02").code, Some(code::BUDGET));
    let sent = || {
        let billed = billed.lock();
        (billed.calls, billed.money)
    };
    let (calls, money) = sent();
    assert!(calls >= 1 && money <= 0.02, "{calls} {money}");
    let refused = eval("0.0001");
    assert_eq!((refused.code, sent().0), (Some(code::BUDGET), calls));
    assert!(refused.stderr.contains("$0.000100"), "{}", refused.stderr);
}

#[test]
fn what_a_run_has_spent_counts_for_what_is_tried_in_it() {
    let server = Server::start();
    let context = task(&server);
    let billed = Arc::new(Mutex::new(Billed::default()));
    server.answer_with(answer(&billed, None, mpsc::channel().1));
    let capped = ["--set", "budget.calls=5"];
    let run = |args: &[&str]| context.run(&[args, &capped].concat()).code;
    assert_eq!(run(&["doctor", "--measure", "task/skillrl.toml"]), Some(code::BUDGET));
    assert_eq!(billed.lock().calls, 5);
    for command in [
        &["train", "task/skillrl.toml"][..],
        &["try", "train-1", "task/skillrl.toml"],
        &["doctor", "--measure", "task/skillrl.toml"],
        &["prune", "task/skillrl.toml", "--skill", "task/skill.md"],
    ] {
        assert_eq!(run(command), Some(code::BUDGET), "{command:?}");
    }
    assert_eq!(billed.lock().calls, 5);
    // An evaluation that is kept has a journal of its own, and counts by it.
    let eval = ["eval", "task/skillrl.toml", "--split", "val", "--out", "measured"];
    for _ in 0..2 {
        assert_eq!(run(&eval), Some(code::BUDGET));
        assert_eq!(billed.lock().calls, 10);
    }
}

/// A cap on money sees nothing of a server that counts no tokens: a planned run stops before its first step, and says
/// nothing of costs that nobody knows.
#[test]
fn a_cap_that_counts_tokens_stops_a_planned_run_whose_server_counts_none() {
    let server = Server::start();
    let context = server.task_with(", max_tokens = 50, price_input = 1.0, price_output = 1.0");
    server.answer_with(|_, request| {
        let message = json!({"role": "assistant", "content": healthy_words(request)});
        ResponseTemplate::new(200)
            .set_body_json(json!({"choices": [{"message": message, "finish_reason": "stop"}]}))
    });
    let train = ["train", "task/skillrl.toml", "--set", "train.protocol=auto", "--set", "budget.money=5.0"];
    for _ in 0..2 {
        let names = ["target", "token counts", "before the first step", "budget.calls"];
        context.run(&train).fails(code::BUDGET, &names);
    }
    // The baseline alone; with `eval.fresh` it is measured twice.
    let n_calls = server.n_calls();
    assert!((2..=4).contains(&n_calls), "{n_calls}");
    let ended = context.run(&[&train[..], &["--set", "budget.calls=60"]].concat());
    ended.assert_code(code::SUCCESS);
    assert!(ended.stdout.contains("replies, tokens unknown"), "{}", ended.stdout);
    assert!(!ended.stdout.contains(", for $") && !ended.stdout.contains("$0"), "{}", ended.stdout);
    let status = context.succeed(&["status", "task/run"]);
    assert!(status.contains("unknown tokens") && !status.contains('$'), "{status}");
    let eval = context.succeed(&["eval", "task/skillrl.toml", "--split", "val"]);
    assert!(eval.contains("replies, tokens unknown"), "{eval}");
}
