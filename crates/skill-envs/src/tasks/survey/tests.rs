use super::*;
use serde_json::json;

const QUEUES: [&str; 3] = ["Billing", "Returns", "Shipping"];

/// Thirty tickets with these fields; `#` stands for the number, `@` for the label.
fn tickets(fields: &[(&str, &str)]) -> DataSurvey {
    let record = |number: usize| {
        let label = QUEUES[number % 3];
        let value = |text: &str| json!(text.replace('#', &number.to_string()).replace('@', label));
        let own = fields.iter().map(|(name, text)| ((*name).to_owned(), value(text)));
        own.chain([("queue".to_owned(), json!(label))]).collect::<Map<_, _>>()
    };
    DataSurvey::of(&(0..30).map(record).collect::<Vec<_>>(), Some("queue"), &BTreeMap::new())
}

#[test]
fn columns_of_choices_may_be_numbers_and_records_may_lack_one() {
    let record = |number: usize| {
        let mut record = json!({"question": format!("q{number}"), "1": "a", "2": "b", "answer": "2"});
        if number > 0 {
            record["3"] = json!("c");
            record["4"] = json!("d");
            record["answer"] = json!((number % 4 + 1).to_string());
        }
        record.as_object().cloned().unwrap()
    };
    let records: Vec<Map<String, Value>> = (0..30).map(record).collect();
    let found = DataSurvey::of(&records, Some("answer"), &BTreeMap::new());
    assert_eq!(found.choice_fields, ["1", "2", "3", "4"]);
}

#[test]
fn only_long_and_mostly_distinct_texts_are_shown() {
    let found = tickets(&[
        ("Ticket ID", "T-#"),
        ("Subject ", "My order number # is late"),
        ("Body", "Where is it? I wait for order # since May."),
        ("Customer E-Mail", "a#@mail.example"),
        ("Created", "2026-11-# 10:00"),
        ("assigned_team", "team @ Leipzig office"),
        ("Customer name", "Anna Maria the #th of Berlin"),
        ("Priority", "high"),
    ]);
    assert_eq!(found.shown(), ["Subject ", "Body"]);
    assert_eq!(found.id_field.as_deref(), Some("Ticket ID"));
    let pair = tickets(&[("premise", "Ann # has a pen."), ("hypothesis", "She writes #")]);
    assert_eq!(pair.shown(), ["premise", "hypothesis"]);
    // How the answer is found is not a part of the question.
    let told = tickets(&[("question", "Who wrote # of them?"), ("long_answer", "It was # who wrote it")]);
    assert_eq!(told.shown(), ["question"]);
    let only = tickets(&[("explanation", "It was # who wrote it")]);
    assert_eq!(only.shown(), ["explanation"]);
    let post = tickets(&[("Question", "Who?"), ("Body", "Ann # has a pen.")]);
    assert_eq!(post.shown(), ["Question", "Body"]);
    // Many rows may have the same subject.
    let few = tickets(&[("Subject", "My parcel"), ("text", "Where is my order # of May?")]);
    assert_eq!(few.shown(), ["Subject", "text"]);
    assert_eq!(tickets(&[("title", "A book"), ("question", "Who wrote #?")]).shown(), ["question"]);
    // Where nothing is free text, the longest text that is not personal is.
    assert_eq!(tickets(&[("word", "w#"), ("E-Mail", "long#@mail.example")]).shown(), ["word"]);
    // A usual name says that tasks are asked with it, in its usual order.
    assert_eq!(tickets(&[("question", "2+#"), ("context", "c#")]).shown(), ["context", "question"]);
    assert_eq!(tickets(&[("body", "我的订单#还没有到，请帮我查一下")]).shown(), ["body"]);
}

#[test]
fn a_text_that_names_the_label_in_nearly_all_rows_tells_the_answer() {
    for (text, expect) in [
        ("Case # was routed to @ by an agent", true),
        ("Case #: went to the \"@\" team", true),
        ("Case #: not Billing, not Returns, not Shipping", false),
        ("Case # is a question of somebody", false),
    ] {
        let survey = tickets(&[("notes", text)]);
        assert_eq!(survey.field("notes").unwrap().tells_answer(), expect, "{text}");
    }
    // The answer stands in the context of every question that is answered from it.
    let record = |name: &str, n: usize| {
        let answer = format!("answer{n}");
        json!({ name: format!("it says {answer} here"), "answer": answer }).as_object().unwrap().clone()
    };
    let tells = |name: &str| {
        let records: Vec<_> = (0..20).map(|n| record(name, n)).collect();
        DataSurvey::of(&records, Some("answer"), &BTreeMap::new()).field(name).unwrap().tells_answer()
    };
    assert!(tells("solution") && !tells("context"));
}

#[test]
fn addresses_and_telephone_numbers_are_counted() {
    #[track_caller]
    fn check(text: &str, emails: usize, phones: usize) {
        let record = json!({ "body": text }).as_object().unwrap().clone();
        let found = DataSurvey::of(&[record], None, &BTreeMap::new());
        let field = found.field("body").unwrap();
        assert_eq!((field.n_emails, field.n_phones), (emails, phones), "{text}");
    }
    check("Write to anna.m@mail.example.org, please", 1, 0);
    for phone in [
        "+49 30 1234567",
        "+1 (415) 555-2671",
        "030 1234 5678",
        "415-555-2671",
        "(415) 555-2671",
        "555-0123",
        "Tel. 7654321",
    ] {
        check(&format!("Call {phone} now"), 0, 1);
    }
    for other in [
        "order 4711 of 2026-11-26",
        "01-02-2026",
        "T-1234",
        "12.50 EUR",
        "2026-11-26 10:15",
        "ISBN 978-3-16-148410-0",
        "v1.2.3",
        "@anna",
        "10.0.0.1",
        "1,234,567",
    ] {
        check(&format!("It is {other} now"), 0, 0);
    }
}

#[test]
fn labels_that_differ_in_case_and_blanks_are_one() {
    let labels = ["Billing", "BILLING", "billing ", "Billing", "Tech", "Tech", "Tech", " tech"];
    let records: Vec<_> =
        labels.iter().map(|label| json!({ "q": label }).as_object().unwrap().clone()).collect();
    let found = DataSurvey::of(&records, Some("q"), &BTreeMap::new());
    let counts: Vec<_> = found.labels.unwrap().into_iter().collect();
    assert_eq!(counts, [("Billing".to_owned(), 4), ("Tech".to_owned(), 4)]);
    assert_eq!(found.respelled.keys().collect::<Vec<_>>(), ["BILLING", "billing", "tech"]);
}

#[test]
fn answers_that_teach_nothing_are_seen() {
    let of = with_answers;
    assert_eq!(of(&[json!("x"), json!("X "), json!("x")]).only_answer.as_deref(), Some("x"));
    assert_eq!(of(&[json!("x"), json!("y")]).only_answer, None);
    let found = of(&[json!("x"), json!(" "), json!(null), json!("a long answer of words")]);
    assert_eq!((found.n_records, found.n_unanswered, found.answer_words), (4, 2, 5));
}

fn with_answers(answers: &[Value]) -> DataSurvey {
    let records: Vec<_> =
        answers.iter().map(|answer| json!({ "a": answer }).as_object().unwrap().clone()).collect();
    DataSurvey::of(&records, Some("a"), &BTreeMap::new())
}

#[test]
fn the_scorer_follows_from_all_answers() {
    #[track_caller]
    fn check(answers: &[Value], expect: &str) {
        let fields = json!({ "a": answers[0] }).as_object().unwrap().clone();
        let sample = DataSample::of(fields, false, BTreeSet::new());
        assert_eq!(with_answers(answers).scorer(&sample), expect, "{answers:?}");
    }
    check(&[json!("38,80"), json!("1.238,50"), json!("7")], "numeric");
    check(&[json!(null), json!(3), json!(2.5)], "numeric");
    check(&[json!([1, 2]), json!("[\"3\", \"4\"]")], "numeric");
    check(&[json!("01038"), json!("2100")], "exact");
    check(&[json!("5"), json!("Paris"), json!("a text")], "em_f1");
    check(&[json!({"a": 1}), json!({"a": 2})], "json_fields");
    // Numbers are no classes, in whatever form.
    let prices: Vec<Value> = ["38 %", "$5", "(7)"].into_iter().cycle().take(30).map(Value::from).collect();
    assert_eq!(with_answers(&prices).labels, None);
    check(&prices, "numeric");
}

#[test]
fn entries_of_lists_and_truths_are_labels() {
    let names = |answers: &[Value]| -> Option<Vec<String>> {
        Some(with_answers(answers).labels?.into_keys().collect())
    };
    let rows = |values: [Value; 2]| -> Vec<Value> { values.into_iter().cycle().take(24).collect() };
    let lists = rows([json!(["sales", "urgent"]), json!("['billing', 'late']")]);
    assert_eq!(names(&lists).unwrap(), ["billing", "late", "sales", "urgent"]);
    let found = with_answers(&lists);
    assert_eq!((found.n_lists, found.only_answer), (24, None));
    assert_eq!(names(&rows([json!(true), json!(false)])).unwrap(), ["false", "true"]);
    // Who always says `urgent` is always right.
    let common = rows([json!(["sales", "urgent"]), json!(["urgent", "billing"])]);
    assert_eq!(with_answers(&common).only_answer.as_deref(), Some("urgent"));
    // Spellings inside of lists stay apart.
    assert!(with_answers(&rows([json!(["a", "b"]), json!(["A"])])).respelled.is_empty());
}
