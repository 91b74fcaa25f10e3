//! What people type by mistake: each is refused with the code of its kind, says what is wrong and what to do, and leaves
//! the directory as it was.

use crate::context::{TestContext, code};
use crate::server::closed_address;
use std::fmt::Write as _;

/// A command line, and what comes of it.
struct Mistake {
    /// Words with a blank between; `@` is an address where nobody listens.
    typed: &'static str,
    code: i32,
    /// Names in the sentence that says what is wrong.
    cause: &'static [&'static str],
    /// Names in the sentence that says what to do.
    way_out: &'static [&'static str],
}

const fn on(
    typed: &'static str,
    code: i32,
    cause: &'static [&'static str],
    way_out: &'static [&'static str],
) -> Mistake {
    Mistake { typed, code, cause, way_out }
}

/// Models at an address where nobody listens: what is refused here is refused before anything is sent.
const MISTAKES: &[Mistake] = &[
    // Which data.
    on("train nope.csv --answer queue", code::USAGE, &["nope.csv", "does not exist"], &["path"]),
    on(
        "train s3://bucket/a.csv --answer queue",
        code::USAGE,
        &["s3://bucket/a.csv", "address"],
        &["download"],
    ),
    on(
        "train ragged.csv --answer queue --model m --base-url @",
        code::DATA,
        &["ragged.csv", "line 3", "double quotes"],
        &["fix the data"],
    ),
    on(
        "train broken.jsonl --answer label --model m --base-url @",
        code::DATA,
        &["broken.jsonl", "2"],
        &["data"],
    ),
    on(
        "train latin.csv --answer queue --model m --base-url @",
        code::DATA,
        &["latin.csv", "UTF-8", "iconv"],
        &["fix the data"],
    ),
    on("train twice.csv --answer queue --model m --base-url @", code::DATA, &["T-0", "unique"], &["data"]),
    on(
        "train skills/notes --answer queue",
        code::USAGE,
        &["skills/notes", "a skill"],
        &["--skill skills/notes"],
    ),
    on("train both --answer queue", code::USAGE, &["both", "a skill", "data"], &["name the one"]),
    on("train empty --answer queue", code::USAGE, &["empty", "not a run"], &["SKILL.md"]),
    on(
        "train team/tickets --answer queue",
        code::USAGE,
        &["team/tickets", "does not exist"],
        &["hf://team/tickets"],
    ),
    on(
        "train session.jsonl --answer type",
        code::USAGE,
        &["session.jsonl", "the session of a coding agent"],
        &["skillrl skill loads session.jsonl"],
    ),
    on("show session.jsonl", code::USAGE, &["the session of a coding agent"], &["skillrl skill loads"]),
    on("distill session.jsonl", code::USAGE, &["coding agent", "no score"], &["skillrl skill loads"]),
    // Which fields.
    on(
        "train tickets.csv --model m --base-url @",
        code::USAGE,
        &["tickets.csv", "answer"],
        &["`ticket_id`, `body`, `queue`", "`queue` has 3 values in 60 rows", "--answer queue"],
    ),
    on("train tickets.csv --answer kind", code::USAGE, &["`kind`"], &["`queue`"]),
    on(
        "train tickets.csv --answer qeue --model m --base-url @",
        code::USAGE,
        &["`qeue`"],
        &["did you mean `queue`?", "`body`"],
    ),
    on(
        "train tickets.csv --answer queue --input bodi --model m --base-url @",
        code::USAGE,
        &["`bodi`"],
        &["`body`"],
    ),
    on(
        "train tickets.csv --answer queue --input queue --model m --base-url @",
        code::USAGE,
        &["`queue`", "right answer"],
        &["leave it out"],
    ),
    on(
        "train leak.csv --answer queue --model m --base-url @ --yes",
        code::DATA,
        &["`note`", "names the right answer in 60 of 60 rows", "nothing was sent"],
        &["--input body,note"],
    ),
    on(
        "train emails.csv --answer queue --model m --base-url @ --yes",
        code::DATA,
        &["`body`", "an e-mail address in 60 rows"],
        &["--input body"],
    ),
    on(
        "train phones.csv --answer queue --model m --base-url @ --yes",
        code::DATA,
        &["`body`", "a telephone number in 60 rows"],
        &["--input body"],
    ),
    on("eval leak.csv --answer queue --model m --base-url @", code::DATA, &["`note`"], &["--input"]),
    on("doctor emails.csv --answer queue --model m --base-url @", code::DATA, &["`body`"], &["--input"]),
    // What can be learned.
    on(
        "train one.csv --answer queue --model m --base-url @",
        code::DATA,
        &["all 60 answers are `billing`"],
        &["--answer"],
    ),
    on("train five.csv --answer queue --model m --base-url @", code::DATA, &["5 rows", "too few"], &["60"]),
    on(
        "train blank.csv --answer queue --model m --base-url @",
        code::DATA,
        &["no row has an answer"],
        &["--answer", "--rubric"],
    ),
    on("train long.csv --answer summary --model m --base-url @", code::DATA, &["exact match"], &["--rubric"]),
    on(
        "train tickets.csv --answer queue --model m --base-url @ --set budget.calls=30",
        code::USAGE,
        &["30 calls leave no step", "measuring alone"],
        &["budget.calls="],
    ),
    on(
        "train tickets.csv --answer queue --model m --base-url @ --price 1000,1000 --budget 0.001",
        code::USAGE,
        &["too small"],
        &["--budget"],
    ),
    // Which models.
    on(
        "train tickets.csv --answer queue",
        code::USAGE,
        &["no model", "OPENAI_API_KEY"],
        &["--model", "--mock"],
    ),
    on("train tickets.csv --answer queue --model llama", code::USAGE, &["`llama`"], &["--base-url"]),
    on("train tickets.csv --answer queue --base-url @", code::USAGE, &["--base-url"], &["--model"]),
    on(
        "train tickets.csv --answer queue --model gpt-5-mini",
        code::PROVIDER_REFUSED,
        &["OPENAI_API_KEY"],
        &["set"],
    ),
    on(
        "train tickets.csv --answer queue --model m --base-url localhost:1",
        code::USAGE,
        &["models.target.base_url", "http://"],
        &[],
    ),
    on(
        "train tickets.csv --answer queue --model m --base-url @ --set retry.max_attempts=1",
        code::OUTAGE,
        &["cannot reach"],
        &["base_url"],
    ),
    on("train tickets.csv --answer queue --model none.gguf", code::USAGE, &["none.gguf"], &[]),
    on(
        "train tickets.csv --answer queue --model m --base-url @ --budget 2",
        code::USAGE,
        &["--budget", "prices"],
        &["--price 0.25,2", "budget.calls=800"],
    ),
    // Options.
    on("serve --port 80", code::USAGE, &["--port"], &["--help"]),
    on("export skills/notes --out other", code::USAGE, &["`notes`", "`other`"], &["--out", "--name"]),
    on("train tickets.csv --answer queue --budget 0", code::USAGE, &["--budget", "above 0"], &["--help"]),
    on("train tickets.csv --answer queue --budget two", code::USAGE, &["--budget", "such as 2"], &["--help"]),
    on("train tickets.csv --answer queue --price 1", code::USAGE, &["--price", "0.25,2"], &["--help"]),
    on("train tickets.csv --answer queue --epochs 0", code::USAGE, &["--epochs"], &["--help"]),
    on("train tickets.csv --answer queue --judge m", code::USAGE, &["--rubric"], &["--help"]),
    on(
        "train tickets.csv --skill none.md --answer queue --model m --base-url @",
        code::USAGE,
        &["skill.initial", "none.md"],
        &["path"],
    ),
    on(
        "train tickets.csv --skill emails.csv --answer queue --model m --base-url @",
        code::USAGE,
        &["emails.csv", "not a skill"],
        &["Markdown"],
    ),
    on("train --answer queue", code::USAGE, &["--answer", "data file"], &["--set"]),
    on("train task.toml --answer queue", code::USAGE, &["--answer", "data file"], &["--set"]),
    on("train none.toml", code::USAGE, &["none.toml"], &["init"]),
    on(
        "train task.toml --set train.epoch=2",
        code::USAGE,
        &["`train.epoch`", "did you mean `train.epochs`?"],
        &["init --full"],
    ),
    on("train task.toml --set train.epochs=two", code::USAGE, &["train.epochs", "whole number"], &[]),
    on("train task.toml --set epochs", code::USAGE, &["epochs", "="], &[]),
    on(
        "train tickets.csv --answer queue --model m --base-url @ --config task.toml",
        code::USAGE,
        &["task.toml says something else", "env.scorer"],
        &["--config", "--out"],
    ),
    on("eval task.toml --split all", code::USAGE, &["`all`", "train, val and test"], &[]),
    on("try nothing task.toml", code::USAGE, &["`nothing`"], &["ids of the training split"]),
    on("lint tickets.csv", code::USAGE, &["tickets.csv", "not a skill"], &["Markdown"]),
    on("doctor skills/notes", code::USAGE, &["skills/notes", "a skill"], &["--skill"]),
    on("train skills --agent claude-code --queries none.jsonl", code::USAGE, &["none.jsonl"], &[]),
    on("train evals.json", code::USAGE, &["evals.json", "tests of a skill"], &["skillrl skill triggers"]),
    on("train agent-tasks", code::USAGE, &["agent-tasks", "task.toml"], &["records"]),
    on("doctor skill-and-tasks", code::USAGE, &["a skill", "task.toml"], &["name the one"]),
    on("eval tests-and-data", code::USAGE, &["evals.json", "data"], &["name the one"]),
    on("report skills/notes", code::USAGE, &["skills/notes", "a skill"], &["skillrl show skills/notes"]),
    on("diff tickets.csv", code::USAGE, &["tickets.csv", "data"], &["skillrl train tickets.csv"]),
    on("replay task.toml", code::USAGE, &["task.toml", "a configuration"], &["skillrl train task.toml"]),
    on("compare tickets.csv empty", code::USAGE, &["tickets.csv", "data"], &["skillrl train"]),
    // Runs of another kind than the command works on.
    on("diff made/rl", code::USAGE, &["made/rl trains weights", "document or of a bank"], &["skillrl show"]),
    on("blame made/sft", code::USAGE, &["made/sft trains weights"], &["skillrl report made/sft"]),
    on("replay made/phases", code::USAGE, &["trains weights and a bank"], &["made/phases/rl"]),
    on("show made/rl --step 1", code::USAGE, &["made/rl trains weights"], &["skillrl show made/rl"]),
    on("lint made/bank", code::USAGE, &["made/bank trains a bank", "document"], &["skillrl bank show"]),
    on("export made/bank --out x", code::USAGE, &["made/bank trains a bank"], &["skillrl bank export"]),
    on("report made/bank --doubtful x.csv", code::USAGE, &["made/bank trains a bank"], &["bank show"]),
    // Runs.
    on("report", code::USAGE, &["no run"], &["skillrl train"]),
    on("report empty", code::RUN_DIR, &["empty"], &[]),
    on("diff empty", code::RUN_DIR, &["empty"], &[]),
    on("replay empty", code::RUN_DIR, &["empty"], &[]),
    on("watch empty", code::USAGE, &["terminal"], &["skillrl"]),
    // Commands that have another name.
    on("noise task.toml", code::USAGE, &["`noise`"], &["skillrl doctor --measure"]),
    on("transfer empty", code::USAGE, &["`transfer`"], &["skillrl eval", "--targets"]),
    on("prompts export x", code::USAGE, &["`prompts`"], &["skillrl config prompts"]),
    on("run task.toml", code::USAGE, &["`run`"], &["skillrl train"]),
    on("optimize task.toml", code::USAGE, &["`optimize`"], &["skillrl train"]),
    on("view", code::USAGE, &["`view`"], &["skillrl serve"]),
    on("trian task.toml", code::USAGE, &["trian"], &["train"]),
];

fn directory() -> TestContext {
    let context = TestContext::new();
    let queues = ["billing", "shipping", "refund"];
    let table = |head: &str, n_rows: usize, row: &dyn Fn(usize, &str) -> String| {
        let rows: String = (0..n_rows).map(|n| row(n, queues[n % 3]) + "\n").collect();
        format!("{head}\n{rows}")
    };
    let body = |n: usize| format!("I have a question about order {n} of yours");
    let plain = |n: usize, queue: &str| format!("T-{n},{},{queue}", body(n));
    context.write("tickets.csv", &table("ticket_id,body,queue", 60, &plain));
    context.write("five.csv", &table("ticket_id,body,queue", 5, &plain));
    context.write("one.csv", &table("body,queue", 60, &|n, _| format!("{},billing", body(n))));
    context.write("blank.csv", &table("body,queue", 60, &|n, _| format!("{},", body(n))));
    context.write(
        "leak.csv",
        &table("body,note,queue", 60, &|n, queue| {
            format!("{},case {n} was routed to {queue},{queue}", body(n))
        }),
    );
    context.write(
        "emails.csv",
        &table("body,queue", 60, &|n, queue| format!("{} and write to me{n}@mail.example,{queue}", body(n))),
    );
    context.write(
        "phones.csv",
        &table("body,queue", 60, &|n, queue| format!("{} or call +49 30 12345{n:02},{queue}", body(n))),
    );
    let long = "the customer asks where the parcel is and wants to have an answer until the end of the week";
    context.write("long.csv", &table("body,summary", 60, &|n, _| format!("{},{long} number {n}", body(n))));
    context.write("ragged.csv", "body,queue\na b c,x\nd, e, f,y\n");
    context.write("broken.jsonl", "{\"text\": \"a b c\", \"label\": \"x\"}\n{\"text\": \n");
    std::fs::write(context.path("latin.csv"), b"body,queue\nGr\xfc\xdfe aus Berlin,x\n").unwrap();
    context.write(
        "twice.csv",
        &table("id,body,queue", 60, &|n, queue| format!("T-{},{},{queue}", n / 2, body(n))),
    );
    context.write("session.jsonl", "{\"type\": \"user\", \"sessionId\": \"4\", \"message\": {}}\n");
    for (kind, file) in [
        ("rl", "iterations.jsonl"),
        ("sft", "examples.jsonl"),
        ("phases", "phases.json"),
        ("bank", "bank/log.jsonl"),
    ] {
        context.write(&format!("made/{kind}/config.json"), "{}");
        context.write(&format!("made/{kind}/events.jsonl"), "");
        context.write(&format!("made/{kind}/{file}"), "");
    }
    context.write("skills/notes/SKILL.md", "---\nname: notes\ndescription: Writes notes.\n---\n# Notes\n");
    context.write("both/SKILL.md", "# Both\n");
    context.write("both/rows.csv", "a,b\n");
    std::fs::create_dir_all(context.path("empty")).unwrap();
    context.write("evals.json", r#"{"evals": []}"#);
    context.write("agent-tasks/one/task.toml", "[metadata]\n");
    context.write("skill-and-tasks/SKILL.md", "# Both\n");
    context.write("skill-and-tasks/one/task.toml", "[metadata]\n");
    context.write("tests-and-data/evals.json", "{}");
    context.write("tests-and-data/train.csv", "a,b\n");
    context.write(
        "task.toml",
        "[models]\ntarget = { model = \"m\", base_url = \"http://127.0.0.1:9/v1\" }\n\
         optimizer = { model = \"m\", base_url = \"http://127.0.0.1:9/v1\" }\n\
         [env]\nkind = \"tasks\"\ndata = \"tickets.csv\"\nanswer_field = \"queue\"\nuser_prompt = \"{{ body }}\"\n",
    );
    context
}

/// The sentence that says what is wrong, and the one that says what to do.
fn fields(stderr: &str) -> Option<(String, String)> {
    let flat = stderr.split_whitespace().collect::<Vec<_>>().join(" ");
    let (_, error) = flat.split_once("error: ")?;
    let ends = [" hint: ", " tip: ", " For more information", " Usage: "];
    let at = ends.iter().filter_map(|end| error.find(end)).min().unwrap_or(error.len());
    let (cause, way_out) = error.split_at(at);
    Some((cause.to_owned(), way_out.to_owned()))
}

#[test]
fn each_mistake_has_its_code_its_cause_and_a_way_out() {
    assert!(MISTAKES.len() >= 40, "{}", MISTAKES.len());
    let mut faults = String::new();
    for mistake in MISTAKES {
        let context = directory();
        let address = format!("{}/v1", closed_address());
        let before = context.files(".");
        let words: Vec<String> = mistake.typed.split(' ').map(|word| word.replace('@', &address)).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let outcome = context.run(&words);
        let mut fault = |what: String| {
            let _ = write!(faults, "\n`skillrl {}`: {what}\n{}", mistake.typed, outcome.stderr);
        };
        if outcome.code != Some(mistake.code) {
            fault(format!("code {:?}, expected {}", outcome.code, mistake.code));
            continue;
        }
        let Some((cause, way_out)) = fields(&outcome.stderr) else {
            fault("no error is said".to_owned());
            continue;
        };
        if let Some(missing) = mistake.cause.iter().find(|part| !cause.contains(**part)) {
            fault(format!("the cause does not name {missing:?}"));
        } else if let Some(missing) = mistake.way_out.iter().find(|part| !way_out.contains(**part)) {
            fault(format!("the way out does not name {missing:?}"));
        } else if way_out.contains("as a value") {
            fault("the way out is one that nobody means".to_owned());
        } else if way_out.is_empty() {
            fault("no way out is said".to_owned());
        } else if mistake.code != code::OUTAGE && context.files(".").keys().ne(before.keys()) {
            fault("it leaves files behind".to_owned());
        }
    }
    assert!(faults.is_empty(), "{faults}");
}
