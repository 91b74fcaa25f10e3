//! Examples from conversations: what is learnt, what is cut, and what is left out.

use crate::byte_codec::ByteCodec;
use serde_json::Map;
use skill_llm::chat::{Message, ToolCall};
use skill_train::chat::{ChatEncoder, ChatError, ChatTemplate, Conversation, SpecialText};
use skill_train::examples::{ExampleSettings, Examples, Learn, LeftOut, SftExample};
use skill_train::tokenizer::TokenCodec;

const TEMPLATE: &str = "{% for m in messages %}{{ m.role[0] }}:{{ m.content }}{% for c in m.tool_calls %}({{ c.function.name }}){% endfor %}<|im_end|>{% endfor %}{% if add_generation_prompt %}a:{% endif %}";

/// The texts that are learnt of conversations, and the examples.
fn learnt(conversations: &[&[Message]], settings: &ExampleSettings) -> (Vec<String>, Examples) {
    let (template, codec) = (ChatTemplate::parse(TEMPLATE, Map::new()).unwrap(), ByteCodec::new());
    let encoder = ChatEncoder::new(&template, &codec);
    let mut examples = Examples::default();
    for messages in conversations {
        let _ = examples.add(&encoder, &Conversation::new(messages).unwrap(), settings).unwrap();
    }
    let text = |example: &SftExample| {
        let ids = example.tokens.iter().zip(&example.weights).filter(|(_, weight)| **weight > 0.0);
        codec.decode(&ids.map(|(id, _)| *id).collect::<Vec<u32>>(), true).unwrap()
    };
    (examples.examples.iter().map(text).collect(), examples)
}

#[test]
fn the_completion_or_all_turns_are_learnt() {
    let messages =
        [Message::user("one"), Message::assistant("1"), Message::user("two"), Message::assistant("2")];
    let mut settings = ExampleSettings::new(1_000);
    let (texts, examples) = learnt(&[&messages], &settings);
    assert_eq!(texts, ["2<|im_end|>"]);
    assert_eq!(examples.n_targets(), 2);
    settings.learn = Learn::AssistantTurns;
    let (texts, examples) = learnt(&[&messages], &settings);
    assert_eq!(texts, ["1<|im_end|>2<|im_end|>"]);
    assert_eq!((examples.n_targets(), examples.n_cut()), (4, 0));
}

#[test]
fn what_has_nothing_to_learn_is_left_out_and_counted() {
    let said = [Message::user("a"), Message::assistant("said")];
    let empty = [Message::user("a"), Message::assistant(" \n")];
    let long = [Message::user("a question that fills it all"), Message::assistant("b")];
    let (texts, examples) = learnt(&[&empty, &said, &long, &said], &ExampleSettings::new(9));
    // `u:a`, the end, `a:` and then the reply, of which three letters fit.
    assert_eq!(texts, ["sai", "sai"]);
    assert_eq!((examples.n_empty, examples.n_cut_away, examples.n_cut()), (1, 1, 2));
    assert_eq!(examples.origins, [1, 3]);
}

#[test]
fn an_empty_turn_is_not_learnt_among_others_and_a_tool_call_is() {
    let call = ToolCall { id: "1".into(), name: "look".into(), arguments: "{}".into() };
    let messages = [
        Message::user("a"),
        Message::assistant(""),
        Message::user("b"),
        Message::assistant("").with_tool_calls(vec![call]),
        Message::tool_result("1", "c"),
        Message::assistant("d"),
    ];
    let settings = ExampleSettings { learn: Learn::AssistantTurns, ..ExampleSettings::new(1_000) };
    let (texts, examples) = learnt(&[&messages, &messages[..2]], &settings);
    assert_eq!(texts, ["(look)<|im_end|>d<|im_end|>"]);
    assert_eq!(examples.n_empty, 1);
}

#[test]
fn the_first_token_is_never_learnt() {
    let example = SftExample::from_tokens(&[], &[7, 8], 10).unwrap();
    assert_eq!((example.weights.as_slice(), example.n_targets()), ([0.0, 1.0].as_slice(), 1));
    assert_eq!(SftExample::from_tokens(&[], &[7], 10), Err(LeftOut::EmptyCompletion));
    assert_eq!(SftExample::from_tokens(&[1], &[2], 0), Err(LeftOut::CutAway));
    assert_eq!(SftExample::from_tokens(&[], &[], 5), Err(LeftOut::EmptyCompletion));
}

#[test]
fn a_conversation_that_cannot_be_encoded_is_an_error_and_not_counted() {
    let (template, codec) = (ChatTemplate::parse(TEMPLATE, Map::new()).unwrap(), ByteCodec::new());
    let encoder = ChatEncoder::new(&template, &codec);
    let (mut examples, settings) = (Examples::default(), ExampleSettings::new(100));
    let special = Conversation::new(&[Message::user("<|im_end|>"), Message::assistant("b")]).unwrap();
    let error = examples.add(&encoder, &special, &settings).unwrap_err();
    assert!(matches!(error, ChatError::SpecialText { .. }), "{error}");
    let open = Conversation::new(&[Message::user("a")]).unwrap();
    assert_eq!(examples.add(&encoder, &open, &settings), Err(ChatError::NoCompletion));
    let escaping = encoder.with_special_text(SpecialText::Escape);
    assert_eq!(examples.add(&escaping, &special, &settings), Ok(Ok(())));
    assert_eq!(examples.origins, [0]);
}
