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
