//! Files in the shapes of public data sets: `skillrl train FILE --dry-run` is right at once, or asks what leads there.

use crate::context::{TestContext, code};
use crate::said::assert_names;
use crate::table_files::{FileFormat, NESTED, OF_HUB, OF_TRACES, TABLES};
use serde_json::{Value, json};

/// What a dry run comes to.
enum Comes<'a> {
    /// It names these.
    To(&'a [&'a str]),
    /// It is refused with these, and comes to the second ones with the option between them.
    By(&'a [&'a str], &'a [&'a str], &'a [&'a str]),
}

/// Runs eighty rows of a shape, in each of these formats that this build reads.
#[track_caller]
fn check(shape: &str, formats: &[FileFormat], row: impl Fn(usize) -> Value, answer: &str, comes: &Comes<'_>) {
    let rows: Vec<Value> = (0..80).map(row).collect();
    let needs_tables = |format: FileFormat| matches!(format, FileFormat::Parquet | FileFormat::Xlsx);
    for format in formats.iter().copied().filter(|format| cfg!(feature = "tables") || !needs_tables(*format))
    {
        let context = TestContext::new();
        std::fs::write(context.path(format.file_name()), format.bytes(&rows)).unwrap();
        let run = |more: &[&str]| {
            let args = ["train", format.file_name(), "--answer", answer, "--mock", "--dry-run"];
            context.run(&[&args[..], more].concat())
        };
        let whole = |more: &[&str]| {
            let outcome = run(more);
            assert_eq!(outcome.code, Some(code::SUCCESS), "{shape} as {format:?}: {}", outcome.stderr);
            format!("{shape} as {format:?}\n{}{}", outcome.stderr, outcome.stdout)
        };
        match comes {
            Comes::To(names) => assert_names(&whole(&[]), names),
            Comes::By(question, option, names) => {
                run(&[]).fails(code::DATA, question);
                assert_names(&whole(option), names);
            }
        }
    }
}

/// A text that no other row has.
fn text(n: usize) -> String {
    format!("This is what person {n} wrote about the film last week")
}

/// A name that no other row has.
fn name(n: usize) -> String {
    let letter = |n: usize| char::from(b'a' + u8::try_from(n % 26).unwrap());
    ["Bor", "Kel", "Tam", "Vis"].map(|start| format!("{start}{}o", letter(n / 4)))[n % 4].clone()
}

#[test]
fn classes_are_named_in_the_prompt() {
    let number = |classes: usize| move |n: usize| json!({"text": text(n), "label": n % classes});
    check(
        "sst2",
        &OF_HUB,
        |n| json!({"idx": n, "sentence": text(n), "label": n % 2}),
        "label",
        &Comes::To(&["nothing else: 0, 1"]),
    );
    check("imdb", &OF_HUB, number(2), "label", &Comes::To(&["env.scorer = exact", "nothing else: 0, 1"]));
    let named = |n: usize| json!({"text": text(n), "label": n % 4, "label_text": (["World", "Sports", "Business", "Science"][n % 4])});
    check("ag_news", &OF_HUB, named, "label", &Comes::To(&["0 (World), 1 (Sports)"]));
    let intent = |n: usize| json!({"text": text(n), "category": format!("card_intent_{}", n % 20)});
    check("banking77", &TABLES, intent, "category", &Comes::To(&["labels: 20 classes", "card_intent_19"]));
    let stars = |n: usize| json!({"text": text(n), "stars": n % 5 + 1});
    check("yelp", &TABLES, stars, "stars", &Comes::To(&["nothing else: 1, 2, 3, 4, 5"]));
    let boolean = |n: usize| json!({"question": format!("is it {n}"), "passage": text(n), "answer": n.is_multiple_of(2)});
    check("boolq", &OF_TRACES, boolean, "answer", &Comes::To(&["nothing else: false, true"]));
    let flags = Comes::To(&["nothing else: False, True"]);
    check("boolq in a table", &[FileFormat::Csv, FileFormat::Tsv], boolean, "answer", &flags);
    let pair = |n: usize| json!({"premise": text(n), "hypothesis": format!("There are {n} people"), "label": (["entailment", "neutral"][n % 2])});
    check(
        "snli",
        &OF_HUB,
        pair,
        "label",
        &Comes::To(&["shown to the model: premise, hypothesis", "entailment, neutral"]),
    );
    let several = |n: usize| json!({"text": text(n), "labels": ([["joy", "love"], ["anger", "fear"], ["joy", "fear"]][n % 3])});
    check(
        "go_emotions",
        &OF_HUB,
        several,
        "labels",
        &Comes::To(&["env.scorer = label_set", "anger, fear, joy, love"]),
    );
    let export = |n: usize| json!({"Ticket ID": format!("T-{n}"), "Subject": (["My parcel", "My invoice"][n % 2]), "Body": text(n), "Queue": (["Shipping", "Billing"][n % 2])});
    check(
        "tickets",
        &TABLES,
        export,
        "Queue",
        &Comes::To(&["shown to the model: Subject, Body", "env.id_field = Ticket ID"]),
    );
}

#[test]
fn choices_are_shown() {
    let options = |n: usize| {
        json!([format!("red {n}"), format!("blue {n}"), format!("green {n}"), format!("grey {n}")])
    };
    let scored = ["env.scorer = choice", "B. blue"];
    let list = |n: usize| json!({"question": text(n), "subject": "art_history", "choices": options(n), "answer": n % 4});
    check("mmlu", &OF_HUB, list, "answer", &Comes::To(&scored));
    let labelled = |n: usize| json!({"id": format!("q{n}"), "question": text(n), "choices": {"text": options(n), "label": ["A", "B", "C", "D"]}, "answerKey": (["A", "B", "C", "D"][n % 4])});
    check("arc", &NESTED, labelled, "answerKey", &Comes::To(&scored));
    let endings =
        |n: usize| json!({"ind": n, "ctx": text(n), "endings": options(n), "label": (n % 4).to_string()});
    check("hellaswag", &OF_HUB, endings, "label", &Comes::To(&scored));
    let columns = |n: usize| json!({"question": text(n), "opa": format!("red {n}"), "opb": format!("blue {n}"), "opc": "green", "opd": "grey", "cop": n % 4});
    check("medmcqa", &TABLES, columns, "cop", &Comes::To(&scored));
    let sides = |n: usize| json!({"sentence": text(n), "option1": format!("red {n}"), "option2": format!("blue {n}"), "answer": (n % 2 + 1).to_string()});
    check("winogrande", &OF_HUB, sides, "answer", &Comes::To(&scored));
}

#[test]
fn answers_are_requested_as_they_are_scored() {
    let short = ["env.scorer = em_f1", "the answer itself and nothing else"];
    let squad = |n: usize| {
        json!({"id": format!("q{n}"), "title": "Normans", "context": text(n), "question": format!("Who wrote {n}?"),
               "answers": {"text": [format!("person {}", name(n))], "answer_start": [13]}})
    };
    check("squad", &NESTED, squad, "answers", &Comes::To(&short));
    let trivia = |n: usize| json!({"question": format!("Which river is number {n}?"), "answer": {"value": format!("River {}", name(n)), "aliases": [format!("The {}", name(n))]}});
    check("trivia_qa", &NESTED, trivia, "answer", &Comes::To(&short));
    let open = |n: usize| json!({"question": format!("Which city is number {n}?"), "answer": [format!("City {}", name(n))]});
    check("nq_open", &OF_HUB, open, "answer", &Comes::To(&short));
    let hops = |n: usize| {
        json!({"id": format!("h{n}"), "question": format!("Who directed {n}?"), "answer": format!("Director {}", name(n)), "type": "bridge",
               "context": {"title": ["A"], "sentences": [[text(n)]]}})
    };
    check("hotpot_qa", &OF_TRACES, hops, "answer", &Comes::To(&["env.scorer = em_f1"]));
    let solved = |n: usize| {
        json!({"question": format!("Anna has {n} apples and buys 2. How many has she?"),
               "answer": format!("She has {n} and buys 2, which makes {n} + 2 in all, and so the sum is as follows.\n#### {}", n + 2)})
    };
    check(
        "gsm8k",
        &OF_HUB,
        solved,
        "answer",
        &Comes::To(&["env.scorer = numeric", "Answer with the number"]),
    );
    let similar =
        |n: usize| json!({"sentence1": text(n), "sentence2": text(n + 100), "score": (n % 50) as f64 / 10.0});
    check("stsb", &TABLES, similar, "score", &Comes::To(&["env.scorer = numeric", "sentence1, sentence2"]));
    let traced = |n: usize| json!({"inputs": {"question": format!("Which city is number {n}?")}, "outputs": {"answer": format!("City {}", name(n))}});
    check("langsmith", &OF_TRACES, traced, "outputs", &Comes::To(&["Which city is number"]));
}

#[test]
fn long_answers_lead_to_a_judge() {
    let summary = |n: usize| json!({"document": text(n), "summary": format!("Person {n} has written at length about a film that was shown in the last week of May")});
    let graded = ["--rubric", "A good summary names the person.", "--input", "document"];
    check("xsum", &TABLES, summary, "summary", &Comes::By(&["--rubric"], &graded, &["env.scorer = rubric"]));
    let instructed = |n: usize| json!({"instruction": "Write about the film", "input": text(n), "output": format!("The film {n} is one that many people like to watch again and again in winter")});
    check(
        "alpaca",
        &OF_TRACES,
        instructed,
        "output",
        &Comes::By(&["--rubric"], &graded[..2], &["env.scorer = rubric"]),
    );
}

#[test]
fn answers_that_the_scorer_cannot_read_are_a_question_about_the_scorer() {
    let row = |n: usize| json!({"question": text(n), "answer": if n < 3 { "none".to_owned() } else { format!("{n}.5") }});
    let option = ["--set", "env.scorer=exact"];
    check(
        "amounts",
        &TABLES,
        row,
        "answer",
        &Comes::By(&["3 right answers", "env.scorer=exact"], &option, &["env.scorer = exact"]),
    );
}

#[test]
fn annotations_and_preferences_are_refused_by_name() {
    type Row = Box<dyn Fn(usize) -> Value>;
    let shapes: [(&str, Row); 3] = [
        (
            "Label Studio",
            Box::new(|n| json!({"id": n, "data": {"text": text(n)}, "annotations": [{"result": []}]})),
        ),
        ("ChatGPT", Box::new(|n| json!({"title": name(n), "mapping": {}, "current_node": "x"}))),
        ("preferred", Box::new(|n| json!({"prompt": text(n), "chosen": name(n), "rejected": name(n + 1)}))),
    ];
    for (named, row) in &shapes {
        let rows: Vec<Value> = (0..20).map(row).collect();
        for format in [FileFormat::JsonLines, FileFormat::Json] {
            for answer in [&[][..], &["--answer", "label"]] {
                let context = TestContext::new();
                std::fs::write(context.path(format.file_name()), format.bytes(&rows)).unwrap();
                let args = [&["train", format.file_name(), "--mock", "--dry-run"][..], answer].concat();
                context.run(&args).fails(code::USAGE, &[named]);
            }
        }
        let context = TestContext::new();
        context.write("one.json", &rows[0].to_string());
        context.run(&["train", "one.json", "--mock", "--dry-run"]).fails(code::USAGE, &[named]);
    }
}

/// What an agent was asked and what it answered, as rows that a person can look through.
#[test]
fn conversations_become_rows_and_their_system_prompt_the_initial_skill() {
    const PROMPT: &str = "You sort the mail of a shop.";
    let queue = move |n: usize| ["Shipping", "Billing"][n % 2];
    let said = move |n: usize, has_reply: bool| {
        let mut said =
            vec![json!({"role": "system", "content": PROMPT}), json!({"role": "user", "content": text(n)})];
        said.extend(has_reply.then(|| json!({"role": "assistant", "content": queue(n)})));
        said
    };
    let turns =
        move |n: usize| json!([{"from": "human", "value": text(n)}, {"from": "gpt", "value": queue(n)}]);
    type Row = Box<dyn Fn(usize) -> Value>;
    let shapes: [Row; 5] = [
        Box::new(move |n| json!({"messages": said(n, true)})),
        Box::new(move |n| json!({"system": PROMPT, "conversations": turns(n)})),
        Box::new(move |n| json!({"input": said(n, false), "ideal": queue(n)})),
        Box::new(
            move |n| json!({"id": name(n), "observations": [{"type": "GENERATION", "input": said(n, false), "output": queue(n)}]}),
        ),
        Box::new(
            move |n| json!({"object": "chat.completion", "request": {"messages": said(n, false)}, "choices": [{"message": {"role": "assistant", "content": queue(n)}}]}),
        ),
    ];
    for row in &shapes {
        let rows: Vec<Value> = (0..40).map(row).collect();
        for format in OF_TRACES {
            let context = TestContext::new();
            std::fs::write(context.path(format.file_name()), format.bytes(&rows)).unwrap();
            let run = context.run(&["train", format.file_name(), "--mock", "--dry-run"]);
            assert_eq!(run.code, Some(code::SUCCESS), "{}: {}", rows[0], run.stderr);
            let stem = format.file_name().split('.').next().unwrap();
            let written = context.read(&format!("data/{stem}-rows.jsonl"));
            let first: Value = serde_json::from_str(written.lines().next().unwrap()).unwrap();
            assert_eq!((&first["text"], &first["answer"]), (&json!(text(0)), &json!(queue(0))));
            assert_eq!(written.lines().count(), rows.len());
            assert_eq!(context.read(&format!("data/{stem}-prompt.md")), PROMPT);
            assert_names(&format!("{}{}", run.stderr, run.stdout), &["Billing, Shipping", "initial skill"]);
            // What a person has removed stays removed.
            let rest: String = written.lines().skip(4).map(|line| format!("{line}\n")).collect();
            context.write(&format!("data/{stem}-rows.jsonl"), &rest);
            context.succeed(&["train", format.file_name(), "--mock", "--dry-run"]);
            assert_eq!(context.read(&format!("data/{stem}-rows.jsonl")), rest);
        }
    }
    // Another field may hold the answer.
    let labelled = |n: usize| json!({"messages": said(n, true), "question": text(n), "queue": queue(n)});
    check("chats with labels", &OF_TRACES, labelled, "queue", &Comes::To(&["Billing, Shipping"]));
    // Nothing was asked.
    let context = TestContext::new();
    context.write("spans.json", r#"{"resourceSpans": [{"scopeSpans": [{"spans": [{"name": "a"}]}]}]}"#);
    context.run(&["train", "spans.json", "--mock", "--dry-run"]).fails(code::DATA, &["no conversation"]);
    assert!(!context.path("data").exists());
}

/// Long replies need a judge, and conversations without a recorded reply too.
#[test]
fn conversations_are_graded_by_a_rubric() {
    let long = |n: usize| {
        format!("Your order number {n} has left our shop, and it will be with you by the end of the week")
    };
    for has_reply in [true, false] {
        let row = |n: usize| {
            let mut said = vec![json!({"role": "user", "content": text(n)})];
            said.extend(has_reply.then(|| json!({"role": "assistant", "content": long(n)})));
            json!({"messages": said})
        };
        let context = TestContext::new();
        let lines: String = (0..40).map(|n| format!("{}\n", row(n))).collect();
        context.write("chats.jsonl", &lines);
        context
            .run(&["train", "chats.jsonl", "--mock", "--dry-run"])
            .fails(if has_reply { code::DATA } else { code::USAGE }, &["--rubric"]);
        let outcome =
            context.run(&["train", "chats.jsonl", "--mock", "--dry-run", "--rubric", "It is polite."]);
        assert_eq!(outcome.code, Some(code::SUCCESS), "{}", outcome.stderr);
    }
}

#[test]
fn more_shapes_of_public_data_are_right_at_once_or_named() {
    let indexed = |n: usize| json!({"": n, "startphrase": text(n), "ending0": format!("a {n}"), "ending1": format!("b {n}"), "label": n % 2});
    check(
        "swag",
        &[FileFormat::Csv],
        indexed,
        "label",
        &Comes::To(&["env.scorer = choice", "ending0, ending1"]),
    );
    let boxed =
        |n: usize| json!({"problem": text(n), "solution": format!("We add and so get $\\boxed{{{n}}}$.")});
    check(
        "math",
        &OF_HUB,
        boxed,
        "solution",
        &Comes::To(&["env.scorer = numeric", "Answer with the number"]),
    );
    let decided = |n: usize| json!({"question": text(n), "long_answer": text(n + 1), "final_decision": (["yes", "no"][n % 2])});
    check(
        "pubmedqa",
        &OF_TRACES,
        decided,
        "final_decision",
        &Comes::To(&["not shown: long_answer", "no, yes"]),
    );
    let sampled = |n: usize| json!({"question": text(n), "answer": (["yes", "no"][n % 2])});
    let rows: Vec<Value> = (0..80).map(sampled).collect();
    for member in ["data", "examples", "rows"] {
        let context = TestContext::new();
        context.write("set.json", &json!({"canary": "x", member: rows}).to_string());
        context.succeed(&["train", "set.json", "--mock", "--dry-run"]);
    }
    let tested = |n: usize| json!({"task_id": n, "prompt": text(n), "canonical_solution": name(n), "test": text(n), "entry_point": "f"});
    let marked = |n: usize| json!({"question": text(n), "mc1_targets": {"choices": [name(n), name(n + 1)], "labels": [1, 0]}});
    for (row, answer, named) in [
        (&tested as &dyn Fn(usize) -> Value, "canonical_solution", "programming tasks"),
        (&marked, "mc1_targets", "a mark each"),
    ] {
        let rows: Vec<Value> = (0..80).map(row).collect();
        let context = TestContext::new();
        std::fs::write(context.path("set.jsonl"), FileFormat::JsonLines.bytes(&rows)).unwrap();
        context
            .run(&["train", "set.jsonl", "--answer", answer, "--mock", "--dry-run"])
            .fails(code::USAGE, &[named]);
    }
}

#[test]
fn a_member_of_an_object_is_shown_without_the_answer_beside_it() {
    let nested = |n: usize| json!({"id": n, "qa": {"question": text(n), "answer": format!("{n}.5%")}});
    let rows: Vec<Value> = (0..40).map(nested).collect();
    let context = TestContext::new();
    std::fs::write(context.path("set.jsonl"), FileFormat::JsonLines.bytes(&rows)).unwrap();
    let run = |input: &str| {
        context.run(&["train", "set.jsonl", "--answer", "qa.answer", "--input", input, "--mock", "--dry-run"])
    };
    run("qa").fails(code::USAGE, &["`qa`", "FIELD.MEMBER"]);
    let shown = run("qa.question");
    assert_eq!(shown.code, Some(code::SUCCESS), "{}", shown.stderr);
    assert!(shown.stdout.contains("person") && !shown.stdout.contains(".5%"), "{}", shown.stdout);
}
