//! Embeddings of the dialect: requests, replies and errors.

use crate::support::{Canned, KEY, block_on, only, response};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use serde_json::{Value, json};
use skill_llm::{
    ApiKey, CallCtx, EmbeddingModel as _, EmbeddingReply, EmbeddingRequest, ErrorClass, HttpResponse,
    LengthSource, LlmError, OpenAiEmbeddings, OpenAiEmbeddingsConfig, Transport, TransportError, Usage,
};
use std::sync::Arc;
use std::time::Duration;

fn config() -> OpenAiEmbeddingsConfig {
    OpenAiEmbeddingsConfig::new("http://llm.example/v1", "vectors").with_key(ApiKey::new(KEY).unwrap())
}

fn texts() -> EmbeddingRequest {
    EmbeddingRequest::new(["heat an egg", "cool a \"cup\"\n"])
}

/// Two vectors in the wrong order.
fn body() -> Value {
    json!({
        "object": "list",
        "data": [
            {"object": "embedding", "index": 1, "embedding": [0.5, -0.25]},
            {"object": "embedding", "index": 0, "embedding": [1, 1e-3]},
        ],
        "model": "vectors-0125",
        "usage": {"prompt_tokens": 9, "total_tokens": 9},
    })
}

/// The address, the body and the headers of the request that these texts become.
fn sent(config: OpenAiEmbeddingsConfig, request: &EmbeddingRequest) -> Value {
    let transport = Canned::new(Ok(response(500, "")));
    let model =
        OpenAiEmbeddings::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
    block_on(model.embed(request, &CallCtx::default())).unwrap_err();
    let asked = only(&transport);
    let shown = format!("{asked:?}");
    assert!(!shown.contains(KEY), "{shown}");
    json!({
        "url": asked.url,
        "timeout": asked.timeout.map(|timeout| timeout.as_secs()),
        "body": serde_json::from_slice::<Value>(&asked.body).unwrap(),
    })
}

fn outcome_of(
    config: OpenAiEmbeddingsConfig,
    answer: Result<HttpResponse, TransportError>,
) -> Result<EmbeddingReply, LlmError> {
    let model = OpenAiEmbeddings::with_transport(config, Canned::new(answer)).unwrap();
    block_on(model.embed(&texts(), &CallCtx::default()))
}

fn outcome(body: &Value) -> Result<EmbeddingReply, LlmError> {
    outcome_of(config(), Ok(response(200, body.to_string())))
}

#[test]
fn requests() {
    insta::assert_json_snapshot!("embeddings_plain", sent(config(), &texts()));
    let mut all =
        config().with_dimensions(256).with_extra("user", "me").with_extra("encoding_format", "base64");
    all.server.base_url = "https://llm.example/openai/?tenant=7".to_owned();
    all.server.api_version = Some("2024-10-21".to_owned());
    all.server.timeout = Duration::from_secs(7);
    insta::assert_json_snapshot!("embeddings_everything", sent(all, &texts()));
}

#[test]
fn vectors_are_in_the_order_of_their_texts() {
    let reply = outcome(&body()).unwrap();
    assert_eq!(reply.vectors, [vec![1.0, 1e-3], vec![0.5, -0.25]]);
    assert_eq!(reply.usage, Usage { input: 9, ..Usage::default() });
}

#[test]
fn vectors_may_be_base_64() {
    let encoded = |numbers: &[f32]| {
        STANDARD.encode(numbers.iter().flat_map(|number| number.to_le_bytes()).collect::<Vec<u8>>())
    };
    let mut reply = body();
    reply["data"][0]["embedding"] = encoded(&[0.5, -0.25]).into();
    reply["data"][1]["embedding"] = encoded(&[1.0, 1e-3]).into();
    assert_eq!(outcome(&reply).unwrap(), outcome(&body()).unwrap());
    for (numbers, expect) in [(&[f32::NAN, 1.0][..], "is not finite"), (&[1.0], "has 1"), (&[], "empty")] {
        reply["data"][1]["embedding"] = encoded(numbers).into();
        let error = outcome(&reply).unwrap_err();
        assert!(error.class() == ErrorClass::InvalidReply && error.to_string().contains(expect), "{error}");
    }
}

#[test]
fn tokens() {
    for (usage, expect) in [
        (json!({"prompt_tokens": 3, "total_tokens": 5}), 3),
        (json!({"total_tokens": 5}), 5),
        (json!({"prompt_tokens": 0, "total_tokens": 5}), 5),
        (json!({"prompt_tokens": -1}), 0),
        (json!({"prompt_tokens": "many"}), 0),
        (json!(null), 0),
    ] {
        let mut reply = body();
        reply["usage"] = usage;
        assert_eq!(outcome(&reply).unwrap().usage, Usage { input: expect, ..Usage::default() }, "{reply}");
    }
}

#[test]
fn replies_that_cannot_be_used_are_faults_of_the_provider() {
    #[track_caller]
    fn check(change: impl FnOnce(&mut Value), expect: &str) {
        let mut reply = body();
        change(&mut reply);
        let error = outcome(&reply).unwrap_err();
        assert!(matches!(error, LlmError::InvalidReply { .. }) && error.is_retryable(), "{error:?}");
        assert!(error.to_string().contains(expect), "{error}");
    }
    check(|reply| *reply = json!([]), "no `data`");
    check(|reply| drop(reply.as_object_mut().unwrap().remove("data")), "no `data`");
    check(|reply| reply["data"] = json!("x"), "`data` is not a list");
    check(|reply| reply["data"] = json!([]), "0 vectors for 2 texts");
    check(|reply| drop(reply["data"].as_array_mut().unwrap().pop()), "1 vectors for 2 texts");
    check(|reply| reply["data"][0]["index"] = json!(2), "index 2 of 2 texts");
    check(|reply| reply["data"][0]["index"] = json!(0), "index 0");
    check(|reply| reply["data"][1]["index"] = json!(null), "`data[1]` has no `index`");
    check(|reply| reply["data"][1]["index"] = json!(-1), "`data[1]` has no `index`");
    check(|reply| reply["data"][1] = json!(null), "`data[1]` has no `index`");
    check(|reply| reply["data"][0]["embedding"] = json!(null), "`data[0].embedding` is missing");
    check(|reply| reply["data"][0]["embedding"] = json!({}), "neither a list nor base 64");
    check(|reply| reply["data"][0]["embedding"] = json!("?"), "is not base 64");
    check(|reply| reply["data"][0]["embedding"] = json!("AAAA"), "3 bytes");
    check(|reply| reply["data"][0]["embedding"] = json!([1, null]), "no number at 1");
    check(|reply| reply["data"][0]["embedding"] = json!([[1, 2]]), "no number at 0");
    check(|reply| reply["data"][0]["embedding"] = json!([]), "empty");
    check(|reply| reply["data"][0]["embedding"] = json!([0, -0.0]), "all zeros");
    check(|reply| reply["data"][0]["embedding"] = json!([1e39, 1]), "not finite");
    check(|reply| reply["data"][0]["embedding"] = json!([1, 2, 3]), "3 numbers");
    let third = json!({"index": 2, "embedding": [1, 2]});
    check(|reply| reply["data"].as_array_mut().unwrap().push(third), "index 2 of 2 texts");
}

/// Some servers write what JSON does not have.
#[test]
fn numbers_that_json_does_not_have_are_faults_of_the_provider() {
    for number in ["NaN", "Infinity", "1e999"] {
        let text = body().to_string().replace("0.5", number);
        let error = outcome_of(config(), Ok(response(200, text))).unwrap_err();
        assert!(matches!(error, LlmError::InvalidReply { .. }), "{error:?}");
    }
}

#[test]
fn statuses_have_the_classes_of_the_dialect() {
    for (status, text, expect) in [
        (401, r#"{"error": {"message": "no"}}"#, ErrorClass::Authentication),
        (429, r#"{"error": {"message": "slow"}}"#, ErrorClass::RateLimited),
        (400, r#"{"error": {"message": "maximum context length is 8192"}}"#, ErrorClass::ContextTooLong),
        (404, "", ErrorClass::BadRequest),
        (500, "", ErrorClass::ServerError),
        (200, r#"{"error": {"message": "down", "code": 503}}"#, ErrorClass::ServerError),
        (200, "<html>", ErrorClass::InvalidReply),
    ] {
        assert_eq!(
            outcome_of(config(), Ok(response(status, text))).unwrap_err().class(),
            expect,
            "{status} {text}"
        );
    }
    let mut limited = response(429, "");
    limited.headers.push(("retry-after".to_owned(), "7".to_owned()));
    let LlmError::RateLimited { retry_after, .. } = outcome_of(config(), Ok(limited)).unwrap_err() else {
        panic!("429 is a rate limit")
    };
    assert_eq!(retry_after, Some(Duration::from_secs(7)));
}

#[track_caller]
fn assert_length(outcome: Result<EmbeddingReply, LlmError>, expect: (usize, usize, LengthSource)) {
    let error = outcome.unwrap_err();
    let shown = match &error {
        LlmError::VectorLength { found, expected, expected_by, .. } => {
            Some((*found, *expected, *expected_by))
        }
        _ => None,
    };
    assert_eq!(shown, Some(expect), "{error:?}");
    assert!(error.class() == ErrorClass::Configuration && !error.is_retryable() && !error.hint().is_empty());
}

#[test]
fn a_length_other_than_the_configured_one_is_refused() {
    assert!(outcome_of(config().with_dimensions(2), Ok(response(200, body().to_string()))).is_ok());
    let other = outcome_of(config().with_dimensions(256), Ok(response(200, body().to_string())));
    assert_length(other, (2, 256, LengthSource::Configured));
}

#[test]
fn a_length_other_than_before_is_refused() {
    let short = json!({"data": [{"index": 0, "embedding": [1]}, {"index": 1, "embedding": [2]}]});
    let answers = [body(), short, body()].map(|body| Ok(response(200, body.to_string())));
    let model = OpenAiEmbeddings::with_transport(config(), Canned::in_turn(answers)).unwrap();
    let outcomes = block_on(async {
        let (request, call) = (texts(), CallCtx::default());
        let mut outcomes = Vec::new();
        for _ in 0..3 {
            outcomes.push(model.embed(&request, &call).await);
        }
        outcomes
    });
    let [first, second, third] = <[_; 3]>::try_from(outcomes).unwrap();
    assert_eq!(first.unwrap(), third.unwrap());
    assert_length(second, (1, 2, LengthSource::EarlierReply));
}

#[test]
fn requests_that_cannot_work_are_refused_before_sending() {
    let embed = |request: EmbeddingRequest| {
        let transport = Canned::new(Ok(response(500, "")));
        let config = config().with_max_texts(2);
        let model =
            OpenAiEmbeddings::with_transport(config, Arc::clone(&transport) as Arc<dyn Transport>).unwrap();
        let call = CallCtx::default();
        let outcome = block_on(model.embed(&request, &call));
        (outcome, call.attempts.take_unsent(), transport.asked().len())
    };
    let (outcome, is_unsent, n_asked) = embed(EmbeddingRequest::new(["a", "\t"]));
    assert!(matches!(outcome, Err(LlmError::EmptyText { index: 1 })), "{outcome:?}");
    assert!(is_unsent && n_asked == 0);
    let (outcome, is_unsent, n_asked) = embed(EmbeddingRequest::new(["a", "b", "c"]));
    assert_eq!(outcome.unwrap_err().class(), ErrorClass::Configuration);
    assert!(is_unsent && n_asked == 0);
    let (outcome, _, n_asked) = embed(EmbeddingRequest::default());
    assert_eq!((outcome.unwrap(), n_asked), (EmbeddingReply::default(), 0));
}

#[test]
fn settings_that_cannot_work_are_refused() {
    for config in [
        config().with_max_texts(0),
        config().with_dimensions(0),
        config().with_extra("input", "x"),
        config().with_extra("dimensions", 7),
        OpenAiEmbeddingsConfig::new("http://llm.example/v1", " "),
        OpenAiEmbeddingsConfig::new("llm.example", "vectors"),
    ] {
        let error = OpenAiEmbeddings::new(config).err().unwrap();
        assert!(matches!(error, LlmError::Configuration { .. }), "{error:?}");
    }
}

#[test]
fn the_identity_holds_what_decides_vectors_and_nothing_else() {
    let of = |config| {
        let model = OpenAiEmbeddings::with_transport(config, Canned::new(Ok(response(500, "")))).unwrap();
        (model.id().to_string(), model.parameters())
    };
    let plain = of(config());
    assert_eq!(plain.0, "vectors at http://llm.example/v1");
    assert_eq!(plain, of(config().with_max_texts(1)));
    assert_ne!(plain, of(config().with_dimensions(2)));
    assert_ne!(plain, of(config().with_extra("truncate", true)));
}

#[test]
fn nothing_shows_the_key() {
    let model = OpenAiEmbeddings::with_transport(config(), Canned::new(Ok(response(500, "")))).unwrap();
    let error = outcome_of(config(), Ok(response(400, format!("your key {KEY} is wrong")))).unwrap_err();
    let unreadable = outcome(&json!({"data": KEY})).unwrap_err();
    for shown in [format!("{model:?}"), format!("{error:?} {error}"), format!("{unreadable:?} {unreadable}")]
    {
        assert!(!shown.contains(KEY), "{shown}");
    }
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        (0_u64..4).prop_map(Value::from),
        ".{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        let name = prop_oneof![Just("data"), Just("index"), Just("embedding"), Just("usage"), Just("error")];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::hash_map(name.prop_map(str::to_owned), inner, 0..5)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn no_json_makes_it_panic(data in any_json(), whole in any_json()) {
        drop(outcome(&json!({"data": data})));
        drop(outcome(&whole));
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), status in 200_u16..600) {
        drop(outcome_of(config(), Ok(response(status, bytes))));
    }

    #[test]
    fn vectors_come_back_whatever_their_order(
        vectors in prop::collection::vec(prop::collection::vec(1_f32..2.0, 3), 2),
        swapped: bool,
    ) {
        let mut data: Vec<Value> =
            vectors.iter().enumerate().map(|(index, vector)| json!({"index": index, "embedding": vector})).collect();
        if swapped {
            data.reverse();
        }
        prop_assert_eq!(outcome(&json!({"data": data})).unwrap().vectors, vectors);
    }
}
