//! What holds for every text and every value.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop, prop_assert, prop_assert_eq, prop_oneof, proptest,
};
use serde_json::{Map, Value, json};
use skill_core::json::{extract, extract_json, read_object, read_patch};
use skill_core::{Edit, EditOp};

/// Any text, often with the characters that a reader of JSON trips over.
fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        2 => any::<String>(),
        1 => "[a-z {}\"]{0,40}",
        1 => r#"[{}\[\]",:'` a-c0-2\\/*#+.\n“”-]{0,60}"#,
    ]
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| if number.is_finite() { json!(number) } else { Value::Null }),
        text().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::vec((text(), inner), 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn object() -> impl Strategy<Value = Value> {
    prop::collection::vec((text(), value()), 0..5)
        .prop_map(|members| Value::Object(members.into_iter().collect::<Map<_, _>>()))
}

fn edit() -> impl Strategy<Value = Edit> {
    let op = prop_oneof![
        Just(EditOp::Append),
        Just(EditOp::InsertAfter),
        Just(EditOp::Replace),
        Just(EditOp::Delete),
        Just(EditOp::Unknown("rewrite_everything".to_owned())),
    ];
    (op, text(), text(), prop::option::of(any::<u32>()))
        .prop_map(|(op, target, content, support_count)| {
            let mut edit = Edit::new(op, target, content);
            edit.support_count = support_count;
            edit
        })
        .prop_filter("dots stand for a text that is yet to be written", |edit| {
            let is_dots = |text: &str| text.trim().chars().all(|char| matches!(char, '.' | '…'));
            [&edit.content, &edit.target].into_iter().all(|text| text.trim().is_empty() || !is_dots(text))
        })
}

fn written(value: &Value, pretty: bool) -> String {
    if pretty { serde_json::to_string_pretty(value).unwrap() } else { value.to_string() }
}

/// A damaged text: characters of a good one replaced, removed, doubled, and its end cut off.
fn damaged() -> impl Strategy<Value = String> {
    let wounds = prop::collection::vec(
        (any::<prop::sample::Index>(), prop::option::of(any::<char>()), any::<bool>()),
        0..6,
    );
    (object(), any::<bool>(), wounds, any::<prop::sample::Index>()).prop_map(
        |(value, pretty, wounds, end)| {
            let mut chars: Vec<char> = written(&value, pretty).chars().collect();
            for (place, char, insert) in wounds {
                let at = place.index(chars.len());
                match char {
                    Some(char) if insert => chars.insert(at, char),
                    Some(char) => chars.iter_mut().skip(at).take(1).for_each(|old| *old = char),
                    None if chars.len() > 1 => drop(chars.remove(at)),
                    None => {}
                }
            }
            chars.truncate(end.index(chars.len() * 2) + 1);
            chars.into_iter().collect()
        },
    )
}

/// Reads a text in every way there is; the property is that this returns.
fn read_in_every_way(text: &str) {
    extract_json(text);
    extract(text, |_| true);
    extract(text, |_| false);
    read_patch(text);
    read_object(text, "selected_indices");
}

/// Words, some of them in quotes that nobody escaped.
fn words_in_quotes() -> impl Strategy<Value = String> {
    r#"[a-z]{1,6}( ("[a-z]{1,6}( [a-z]{1,6})?"|[a-z]{1,6}|\{[a-z]{1,4}\})[,.;!?]?){0,8}"#
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn no_text_panics(text in text()) {
        read_in_every_way(&text);
        read_in_every_way(&format!("{{\"edits\": [{{\"op\": {text}"));
        read_in_every_way(&format!("```json\n{text}\n```"));
    }

    #[test]
    fn no_damage_panics(text in damaged()) {
        read_in_every_way(&text);
    }

    #[test]
    fn every_object_comes_back_unchanged(value in object(), pretty in any::<bool>(), prose in "[A-Za-z ,.:'\n]{0,40}") {
        let json = written(&value, pretty);
        for text in [json.clone(), format!("{prose}\n{json} {prose}"), format!("{prose}\n```json\n{json}\n```\n{prose}")] {
            prop_assert_eq!(extract_json(&text), Some(value.clone()));
            let found = extract(&text, |_| true).unwrap();
            prop_assert_eq!(&found.value, &value);
            prop_assert!(found.repairs.is_empty() && !found.truncated);
        }
    }

    #[test]
    fn every_value_in_a_fence_comes_back_unchanged(value in value(), pretty in any::<bool>()) {
        let json = written(&value, pretty);
        if !json.contains("```") {
            let fenced = format!("Here:\n```json\n{json}\n```\n");
            prop_assert_eq!(extract_json(&fenced), Some(value));
        }
    }

    #[test]
    fn a_prefix_gives_no_edit_that_the_whole_has_not(
        edits in prop::collection::vec(edit(), 0..4),
        reasoning in text(),
        (pretty, nested, fenced) in any::<(bool, bool, bool)>(),
    ) {
        let patch = json!({"reasoning": reasoning, "edits": edits});
        let reply = if nested { json!({"batch_size": 4, "patch": patch}) } else { patch };
        let json = written(&reply, pretty);
        let text = if fenced { format!("My patch:\n```json\n{json}\n```\n") } else { json };
        let whole = read_patch(&text).patch.unwrap();
        prop_assert_eq!(&whole.edits, &edits);
        prop_assert_eq!(&whole.reasoning, &reasoning);
        for prefix in text.char_indices().filter_map(|(end, _)| text.get(..end)) {
            let kept = read_patch(prefix).patch.unwrap_or_default().edits;
            prop_assert!(edits.starts_with(&kept), "{kept:?} from {prefix:?}");
        }
    }

    #[test]
    fn quotes_without_backslash_stay_in_their_string(
        contents in prop::collection::vec((words_in_quotes(), words_in_quotes()), 1..4),
        (pretty, trailing) in any::<(bool, bool)>(),
    ) {
        let (gap, comma) = (if pretty { "\n  " } else { " " }, if trailing { "," } else { "" });
        let edits: Vec<String> = contents
            .iter()
            .map(|(target, content)| {
                format!("{{\"op\":{gap}\"replace\",{gap}\"target\": \"{target}\",{gap}\"content\": \"{content}\"{comma}{gap}}}")
            })
            .collect();
        let text = format!("{{\"edits\": [{gap}{}{comma}{gap}]}}", edits.join(","));
        let read = read_patch(&text).patch.unwrap().edits;
        let meant: Vec<Edit> = contents
            .into_iter()
            .map(|(target, content)| Edit::new(EditOp::Replace, target, content))
            .collect();
        prop_assert_eq!(read, meant, "in {}", text);
    }
}
