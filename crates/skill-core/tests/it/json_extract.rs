//! JSON out of model text, case by case.
#![expect(clippy::panic, reason = "a test fails by panicking")]

use serde_json::{Value, json};
use skill_core::json::{MAX_DEPTH, Repair, extract, extract_answer, extract_json};

#[track_caller]
fn check(text: &str, expect: Value) {
    assert_eq!(extract_json(text), Some(expect), "in {text:?}");
}

#[track_caller]
fn nothing(text: &str) {
    assert_eq!(extract_json(text), None, "in {text:?}");
}

/// The value and the repairs that reading it takes.
#[track_caller]
fn repaired(text: &str, expect: Value, repairs: &[Repair]) {
    let found = extract(text, |_| true).unwrap_or_else(|| panic!("nothing in {text:?}"));
    assert_eq!(found.value, expect, "in {text:?}");
    assert_eq!(found.repairs, repairs, "in {text:?}");
    assert!(!found.truncated, "in {text:?}");
}

/// What is kept of a text that was cut off.
#[track_caller]
fn cut(text: &str, expect: Value) {
    let found = extract(text, |_| true).unwrap_or_else(|| panic!("nothing in {text:?}"));
    assert_eq!(found.value, expect, "in {text:?}");
    assert!(found.truncated, "in {text:?}");
    nothing(text);
}

#[test]
fn values_as_the_reference_reads_them() {
    check(r#"The result is {"answer": "yes", "score": 0.95}."#, json!({"answer": "yes", "score": 0.95}));
    check(
        "```json\n{\"source\": \"fence\"}\n```\nThen also {\"source\": \"bare\"}",
        json!({"source": "fence"}),
    );
    nothing("A bare mapping {op: delete} in prose.");
    nothing(r#"{"first": true,} noise {"second": true,}"#);
    nothing("{\"a\":1}\n{\"b\":2}");
    check("```json\n[1,2]\n```", json!([1, 2]));
    check("```json\n{\"a\": 1,}\n```", json!({"a": 1}));
    check(r#"text {"a": {"b": [1,2]}} tail } "#, json!({"a": {"b": [1, 2]}}));
    check(r#"{"a":1,"a":2}"#, json!({"a": 2}));
    check(r#"{"a":1,"a":2,"b":3,"b":4,"a":5}"#, json!({"a": 5, "b": 4}));
    check(r#"{"a":1,"a":2,"b":3,"b":4,"a":5,}"#, json!({"a": 5, "b": 4}));
    check("```json\n{\"x\":\"has ``` inside\"}\n```", json!({"x": "has ``` inside"}));
}

#[test]
fn fences_and_prose() {
    nothing("");
    nothing("no braces at all");
    nothing("only { and } and {} {}");
    check("```json\n\"text\"\n```", json!("text"));
    check("```json\nnot json\n```\n```json\n{\"a\":1}\n```", json!({"a": 1}));
    check("```JSON\n{\"a\":1,}\n``` and {\"b\":2}", json!({"a": 1}));
    check("```\n{\"a\":1}\n```", json!({"a": 1}));
    check("~~~json\n{\"a\":1,}\n~~~ {\"b\":1}", json!({"a": 1}));
    check("```javascript\n{\"a\":1,}\n```", json!({"a": 1}));
    check("```json {\"a\":1,} ```", json!({"a": 1}));
    check("```json\r\n{\"a\":1,}\r\n```\r\n{\"b\":1}", json!({"a": 1}));
    check("\u{feff}{\"a\":1}", json!({"a": 1}));
    check("{\u{a0}\"a\":\u{a0}1}", json!({"a": 1}));
    check("Set {x} and {y}: {\"a\": 1,} for {z}.", json!({"a": 1}));
    check("{{\"a\":1}}", json!({"a": 1}));
    check("[{\"a\":1}]", json!({"a": 1}));
    nothing("{\"a\": 1,} and {\"b\": 2");
    nothing("{\"a\": @} and {\"b\": 2,}");
    nothing("{\"a\": {\"b\": 1}, \"c\": @}");
}

#[test]
fn reasoning_is_a_draft() {
    check("<think>{\"a\":1}</think>{\"b\":2}", json!({"b": 2}));
    check("<think>\nmaybe {\"a\":1}\n</think>\n\n```json\n{\"b\":2}\n```", json!({"b": 2}));
    check("\n<THINKING>{\"a\":1}</thinking> {\"b\":2}", json!({"b": 2}));
    check("[THINK]{\"a\":1}[/THINK]{\"b\":2}", json!({"b": 2}));
    check("<think>x</think><think>{\"a\":1}</think>{\"b\":2}", json!({"b": 2}));
    check("I think {\"a\":1}\n</think>\n{\"b\":2}", json!({"b": 2}));
    check("{\"a\":1}\n</think>\nThat was it.", json!({"a": 1}));
    check("{\"a\":\"```json 1```\"}", json!({"a": "```json 1```"}));
    check("{\"a\":\"close with </think> always\"}", json!({"a": "close with </think> always"}));
    nothing("<think>{\"a\":1}");
    nothing("<think>{\"a\":1}</think>");
}

#[test]
fn drafts_of_other_forms_are_drafts() {
    check("Well. <think>{\"a\":1}</think>{\"b\":2}", json!({"b": 2}));
    check("{\"a\":\"x \n</think>\n{\"b\":2}", json!({"b": 2}));
    check("{\"a\":1}\n</reasoning>{\"b\":2}", json!({"b": 2}));
    check("```\n{\"a\":1\n</think>\n```json\n{\"b\":2}\n```", json!({"b": 2}));
    check("{\"a\":\"<think>x</think>\"}", json!({"a": "<think>x</think>"}));
    check("{\"a\":\"Reply with \"<think>\" first.\"}", json!({"a": "Reply with \"<think>\" first."}));
    nothing("{\"a\":1} <think>{\"b\":2}</think> {\"c\":3}");
}

#[test]
fn an_answer_is_the_last_whole_value() {
    let check = |text: &str, expect: Value, repairs: &[Repair]| {
        let found = extract_answer(text, Value::is_object).unwrap_or_else(|| panic!("nothing in {text:?}"));
        assert_eq!((found.value, found.repairs.as_slice()), (expect, repairs), "in {text:?}");
    };
    let several = [Repair::SeveralObjects];
    check("{\"a\":1}", json!({"a": 1}), &[]);
    check("Draft: {\"a\":1}\nFinal: {\"a\":2}", json!({"a": 2}), &several);
    check("{\"a\":1}\n{\"a\":1}", json!({"a": 1}), &[]);
    check("[{\"a\":1}]", json!({"a": 1}), &[]);
    check("{a: \"x\", b: 1}", json!({"a": "x", "b": 1}), &[Repair::UnquotedKey]);
    check("Final: {a: 1}", json!({"a": 1}), &[Repair::UnquotedKey]);
    check("```json\n{\"a\":1}\n```\nBetter:\n```json\n{\"a\":2}\n```", json!({"a": 2}), &several);
    check("<think>{\"a\":1}</think>{\"a\":2}", json!({"a": 2}), &[]);
    check("{\"a\":\"\\frac{1}{2}\"}", json!({"a": "\\frac{1}{2}"}), &[]);
    for text in ["", "none", "17", "{\"a\":1", "Set {x} and {y}.", "<think>{\"a\":1}"] {
        assert_eq!(extract_answer(text, Value::is_object), None, "in {text:?}");
    }
    assert_eq!(extract_answer("17", |_| true).map(|found| found.value), Some(json!(17)));
}

#[test]
fn backslashes_of_latex_are_put_back() {
    use Repair::{LatexBackslash, TrailingComma};
    let text = r#"{"a":"\boxed{}, \frac{a}{b}, \text{a}; \times, \neq, \rho and \\alpha"}"#;
    let expect = json!({"a": r"\boxed{}, \frac{a}{b}, \text{a}; \times, \neq, \rho and \alpha"});
    check(text, expect.clone());
    repaired(text, expect, &[LatexBackslash]);
    check("```json\n{\"a\":\"\\frac\"}\n```", json!({"a": "\\frac"}));
    repaired("{\"a\":[\"\\beta\"],}", json!({"a": ["\\beta"]}), &[TrailingComma, LatexBackslash]);
    repaired("{\"a\":\"x\\ny\\tz\"}", json!({"a": "x\ny\tz"}), &[]);
}

#[test]
fn commas() {
    use Repair::{ExtraComma, MissingComma, TrailingComma};
    repaired(r#"{"a":1,}"#, json!({"a": 1}), &[TrailingComma]);
    repaired(r#"{"a":[1,2,],}"#, json!({"a": [1, 2]}), &[TrailingComma]);
    repaired(r#"{"a":1 "b":2}"#, json!({"a": 1, "b": 2}), &[MissingComma]);
    repaired(r#"{"a":"x" "b":"y"}"#, json!({"a": "x", "b": "y"}), &[MissingComma]);
    repaired("{\"a\":\"x\"\n\"b\":\"y\"}", json!({"a": "x", "b": "y"}), &[MissingComma]);
    repaired(r#"{"a":["x" "y"]}"#, json!({"a": ["x", "y"]}), &[MissingComma]);
    repaired(r#"{"a":[{"b":1} {"b":2}]}"#, json!({"a": [{"b": 1}, {"b": 2}]}), &[MissingComma]);
    repaired(r#"{"a":[{"b":"x"} {"b":"y"}]}"#, json!({"a": [{"b": "x"}, {"b": "y"}]}), &[MissingComma]);
    repaired(r#"{"a":1,,"b":2}"#, json!({"a": 1, "b": 2}), &[ExtraComma]);
    repaired(r#"{"a":[,1],"b":2}"#, json!({"a": [1], "b": 2}), &[ExtraComma]);
}

#[test]
fn quotes_without_backslash() {
    use Repair::UnescapedQuote;
    let one = |content: &str| {
        repaired(&format!("{{\"a\":\"{content}\"}}"), json!({"a": content}), &[UnescapedQuote]);
    };
    one(r#"say "hi""#);
    one(r#""hi" he said"#);
    one(r#"say "yes", and then "no": fine"#);
    one(r#"use "x"] here"#);
    one(r#"answer as {"answer": "x"} only"#);
    one(r#"answer as {"answer": "x", "why": "y"}."#);
    one(r#"answer as {"answer": {"is": "x", "b": 1}, "why": "y"}"#);
    one(r#"a "b": c"#);
    one(r#"return ["a", "b"] always"#);
    let list = r#"{"a":["He said "yes", and left", "b"]}"#;
    repaired(list, json!({"a": ["He said \"yes\", and left", "b"]}), &[UnescapedQuote]);
    let member = r#"{"a":"the "first" one","b":"the "second", too","c":1}"#;
    repaired(
        member,
        json!({"a": "the \"first\" one", "b": "the \"second\", too", "c": 1}),
        &[UnescapedQuote],
    );
    let brackets = r#"{"e":[{"c":"use "x"] or "y"} here"}]}"#;
    repaired(brackets, json!({"e": [{"c": "use \"x\"] or \"y\"} here"}]}), &[UnescapedQuote]);
    let nested = r#"{"e":[{"c":"ask "why"?"},{"c":"say "so""}],"r":"x"}"#;
    repaired(nested, json!({"e": [{"c": "ask \"why\"?"}, {"c": "say \"so\""}], "r": "x"}), &[UnescapedQuote]);
}

#[test]
fn strings() {
    use Repair::{ControlCharacter, CurlyQuotes, InvalidEscape, LoneSurrogate, MissingQuote, OtherQuotes};
    repaired("{\"a\":\"x\ny\tz\"}", json!({"a": "x\ny\tz"}), &[ControlCharacter]);
    repaired(r#"{"a":"snake\_case it\'s \`x\`"}"#, json!({"a": "snake_case it's `x`"}), &[InvalidEscape]);
    repaired(r#"{"a":"\d+\.\d C:\Users"}"#, json!({"a": r"\d+\.\d C:\Users"}), &[InvalidEscape]);
    repaired(r#"{"a":"\users"}"#, json!({"a": r"\users"}), &[InvalidEscape]);
    repaired(r#"{"a":"\ud800x"}"#, json!({"a": "\u{fffd}x"}), &[LoneSurrogate]);
    repaired(r#"{"a":"\ud83d\ude00",}"#, json!({"a": "😀"}), &[Repair::TrailingComma]);
    repaired(
        "{'a': 'don't', 'b': \"it's\"}",
        json!({"a": "don't", "b": "it's"}),
        &[OtherQuotes, Repair::UnescapedQuote],
    );
    repaired("{“a”: “b”, “c”: “d’s”}", json!({"a": "b", "c": "d’s"}), &[CurlyQuotes, Repair::UnescapedQuote]);
    repaired(r#"{"a":"b, "c":1}"#, json!({"a": "b", "c": 1}), &[Repair::UnescapedQuote, MissingQuote]);
    repaired("{\"a\":\"\"\"x \"y\"\nz\"\"\"}", json!({"a": "x \"y\"\nz"}), &[Repair::TripleQuotes]);
    repaired(r#"{"a":"x" + "y", "b":1}"#, json!({"a": "xy", "b": 1}), &[Repair::JoinedStrings]);
    repaired("{\"a\":\"x\\n\"\n  \"y\"}", json!({"a": "x\ny"}), &[Repair::JoinedStrings]);
    repaired("{\"a\":`x\ny`}", json!({"a": "x\ny"}), &[OtherQuotes, ControlCharacter]);
}

#[test]
fn scalars_keys_and_comments() {
    use Repair::{
        Comment, Ellipsis, ForeignLiteral, MissingValue, NotANumber, NumberForm, UnquotedKey, UnquotedText,
    };
    repaired(
        r#"{"a":True,"b":None,"c":FALSE}"#,
        json!({"a": true, "b": null, "c": false}),
        &[ForeignLiteral],
    );
    repaired(r#"{"a":NaN,"b":-Infinity,"c":1e999}"#, json!({"a": null, "b": null, "c": null}), &[NotANumber]);
    repaired(r#"{"a":+1,"b":.5,"c":5.,"d":007}"#, json!({"a": 1, "b": 0.5, "c": 5.0, "d": 7}), &[NumberForm]);
    repaired(r#"{"a":1,b:{c:2}}"#, json!({"a": 1, "b": {"c": 2}}), &[UnquotedKey]);
    repaired(
        r#"{"a":[{op: append, "c":1}]}"#,
        json!({"a": [{"op": "append", "c": 1}]}),
        &[UnquotedKey, UnquotedText],
    );
    repaired(r#"{"a":[{op: "x", c: "y"}]}"#, json!({"a": [{"op": "x", "c": "y"}]}), &[UnquotedKey]);
    repaired("```json\n{a: 1}\n```", json!({"a": 1}), &[UnquotedKey]);
    repaired("{\"a\":1, // one\n\"b\":/* two */2}", json!({"a": 1, "b": 2}), &[Comment]);
    repaired("{\"a\":\"x\", # one\n\"b\":\"http://y\"}", json!({"a": "x", "b": "http://y"}), &[Comment]);
    repaired(r#"{"a":,"b":}"#, json!({"a": null, "b": null}), &[MissingValue]);
    repaired(r#"{"a":[1, ...]}"#, json!({"a": [1]}), &[Ellipsis]);
    repaired(r#"{"a":[1, ..., 9]}"#, json!({"a": [1, 9]}), &[Ellipsis]);
    repaired("{\"a\":12345678901234567890123}", json!({"a": 1.2345678901234568e22}), &[]);
}

#[test]
fn brackets() {
    use Repair::{DoubledBrace, MissingBracket, StrayBracket};
    repaired(r#"{"a":[{"b":1}}"#, json!({"a": [{"b": 1}]}), &[MissingBracket]);
    repaired(r#"{"a":[{"b":"x"]}"#, json!({"a": [{"b": "x"}]}), &[MissingBracket]);
    repaired(
        r#"{"a":[{"b":"x"},{"b":"y",{"b":"z"}]}"#,
        json!({"a": [{"b": "x"}, {"b": "y"}, {"b": "z"}]}),
        &[MissingBracket],
    );
    repaired(r#"{"a":["x","y"}"#, json!({"a": ["x", "y"]}), &[MissingBracket]);
    repaired(r#"{"a":[1]],"b":2}"#, json!({"a": [1], "b": 2}), &[StrayBracket]);
    repaired(r#"{"a":[{"b":1}},{"b":2}]}"#, json!({"a": [{"b": 1}, {"b": 2}]}), &[StrayBracket]);
    repaired(
        r#"{"a":[{{"b":1}},{{"b":2}}]}"#,
        json!({"a": [{"b": 1}, {"b": 2}]}),
        &[DoubledBrace, StrayBracket],
    );
}

#[test]
fn cut_off_texts_keep_what_is_whole() {
    cut(r#"{"a":1,"b":"hal"#, json!({"a": 1}));
    cut(r#"{"a":1,"b":"hal\"#, json!({"a": 1}));
    cut(r#"{"a":1,"b":"hal\u00"#, json!({"a": 1}));
    cut(r#"{"a":1,"b":12"#, json!({"a": 1}));
    cut(r#"{"a":1,"b":tru"#, json!({"a": 1}));
    cut(r#"{"a":1,"b":"#, json!({"a": 1}));
    cut(r#"{"a":1,"b"#, json!({"a": 1}));
    cut(r#"{"a":1,"b""#, json!({"a": 1}));
    cut(r#"{"a":"whole""#, json!({"a": "whole"}));
    cut(r#"{"a":[{"b":1},{"b":2"#, json!({"a": [{"b": 1}]}));
    cut(r#"{"a":[{"b":1},{"b":2}"#, json!({"a": [{"b": 1}, {"b": 2}]}));
    cut(r#"{"a":{"b":{"c":1,"d":2"#, json!({"a": {"b": {"c": 1}}}));
    cut(r#"{"a":[[1,2],[3,"#, json!({"a": [[1, 2]]}));
    cut("{\"a\":[{\"b\":1}]\n```\nDone!", json!({"a": [{"b": 1}]}));
}

#[test]
fn the_object_that_fits_is_taken() {
    let fits = |value: &Value| value.get("edits").is_some();
    let take = |text: &str| extract(text, fits).map(|found| (found.value["edits"].clone(), found.repairs));
    assert_eq!(take(r#"{"draft":1} {"edits":[1]} {"x":2}"#), Some((json!([1]), vec![])));
    assert_eq!(take(r#"{"edits":[1]} then {"edits":[2]}"#), Some((json!([2]), vec![Repair::SeveralObjects])));
    assert_eq!(take(r#"{"edits":[1]} again {"edits":[1]}"#), Some((json!([1]), vec![])));
    let fenced = "```json\n{\"edits\":[1]}\n```\nnot {\"edits\":[2]}";
    assert_eq!(take(fenced), Some((json!([1]), vec![Repair::SeveralObjects])));
    let whole = r#"{"edits":[1]} as in {"edits":["#;
    assert_eq!(take(whole), Some((json!([1]), vec![Repair::SeveralObjects])));
    for broken_before in [r#"see {"a": "open. Then {"edits":[1]}"#, r#"{"x": @ {"edits":[1]}}"#] {
        assert_eq!(take(broken_before).map(|found| found.0), Some(json!([1])), "{broken_before}");
    }
    assert_eq!(take(r#"{"x": {"edits":[1]}}"#), None);
    assert_eq!(take(r#""{\"edits\": [\"a\\nb\"]}""#), Some((json!(["a\nb"]), vec![Repair::EncodedTwice])));
    assert_eq!(take(r#"{\"edits\": [1]}"#), Some((json!([1]), vec![Repair::EncodedTwice])));
}

#[test]
fn json_to_the_letter_is_read_to_the_letter_whatever_stands_behind_it() {
    let whole = |text: &str, expect: Value| repaired(text, expect, &[]);
    // A quote right behind the value looks as if the string before it went on.
    let quoted = r#"I answer "{"a": "x"}" and that is "all"."#;
    check(quoted, json!({"a": "x"}));
    whole(quoted, json!({"a": "x"}));
    let cited = r#"{"a": "say \"hi\"", "b": "x"} "as you said"}"#;
    check(cited, json!({"a": "say \"hi\"", "b": "x"}));
    whole(cited, json!({"a": "say \"hi\"", "b": "x"}));
    let two = r#""{"a": "x"}" or "{"b": "y"}""#;
    nothing(two);
    repaired(two, json!({"b": "y"}), &[Repair::SeveralObjects]);
    // A key too long to be recognised ahead does not start the next member.
    let long = "key ".repeat(100);
    let text = format!("Here: {{\"a\": \"x\", \"{long}\": \"y\"}} \"done\"}}");
    check(&text, json!({"a": "x", long.clone(): "y"}));
    whole(&text, json!({"a": "x", long: "y"}));
}

#[test]
fn objects_after_refused_ones_are_their_own() {
    let third = |text: &str| {
        let n_seen = std::cell::Cell::new(0);
        let found = extract(text, |_| n_seen.replace(n_seen.get() + 1) == 2);
        found.map(|found| found.value.to_string())
    };
    let check = |text: &str, expect: &str| assert_eq!(third(text).as_deref(), Some(expect), "in {text:?}");
    check(r#"{"a":1} {"a":2} {"a":3}"#, r#"{"a":3}"#);
    check(r#"{"a":1,"b":2} {"b":3} {"a":4}"#, r#"{"a":4}"#);
    check(r#"{"a":1,"b":2} {"a":3,"b":4} {"b":5,"a":6}"#, r#"{"b":5,"a":6}"#);
    check(r#"{"a":1,"b":2} {"a":3,"b":4} {"a":5,"c":6}"#, r#"{"a":5,"c":6}"#);
    check(r#"{"a":1,"b":2} {"a":3,"b":4} {"a":5,"a":6}"#, r#"{"a":6}"#);
    check(r#"{"a":1} {"a":2,"a":3} {"b":4,"a":5,"b":6}"#, r#"{"b":6,"a":5}"#);
    check(r#"{"a":{"b":1}} {"a":"x"} {"a":{"c":"y"}}"#, r#"{"a":{"c":"y"}}"#);
    check(r#"{"a":1} {} {"a":{}}"#, r#"{"a":{}}"#);
    check(r#"[{"a":1}] {"a":2}"#, r#"{"a":2}"#);
    let many: Vec<String> = (0..40).map(|member_idx| format!("\"k{member_idx}\":{member_idx}")).collect();
    check(&format!("{{\"k0\":0}} {{{}}} {{\"k1\":1}}", many.join(",")), r#"{"k1":1}"#);
}

#[test]
fn depth_is_bounded() {
    let nested = |depth: usize| format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1));
    assert!(extract_json(&nested(MAX_DEPTH)).is_some());
    assert!(extract(&nested(MAX_DEPTH), |_| true).is_some());
    nothing(&nested(MAX_DEPTH + 1));
    assert_eq!(extract(&nested(MAX_DEPTH + 1), |_| true), None);
    nothing(&nested(100_000));
}
