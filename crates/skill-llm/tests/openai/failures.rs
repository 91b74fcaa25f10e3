//! The class and the words of every failure, and that none of them shows a key.

use crate::replies::check_body;
use crate::support::{KEY, block_on, config, outcome, question, response};
use skill_llm::{ApiKey, CallCtx, ChatModel as _, HttpResponse, LlmError, OpenAiChat, TransportError};
use std::time::Duration;

#[track_caller]
fn check_status(status: u16, body: &str, expect: &str) {
    let error = outcome(Ok(response(status, body))).unwrap_err();
    let message = error.to_string();
    let words = message.split_once("): ").map_or(message.as_str(), |(_, words)| words);
    assert_eq!(format!("{:?}: {words}", error.class()), expect, "{status} {body}");
}

#[test]
fn limits_and_quotas() {
    check_status(
        429,
        r#"{"error": {"message": "slow down", "code": "rate_limit_exceeded"}}"#,
        "RateLimited: slow down",
    );
    check_status(429, "", "RateLimited: it gave no reason");
    check_status(429, "Too Many Requests", "RateLimited: Too Many Requests");
    check_status(
        429,
        r#"{"error": {"message": "no quota left", "type": "insufficient_quota", "code": null}}"#,
        "QuotaExhausted: no quota left",
    );
    check_status(
        429,
        r#"{"error": {"message": "check your plan and billing details"}}"#,
        "QuotaExhausted: check your plan and billing details",
    );
    check_status(
        429,
        r#"[{"error": {"code": 429, "message": "5 requests per minute; see billing", "status": "RESOURCE_EXHAUSTED"}}]"#,
        "RateLimited: 5 requests per minute; see billing",
    );
    check_status(
        402,
        r#"{"error": {"message": "Insufficient Balance"}}"#,
        "QuotaExhausted: Insufficient Balance",
    );
    check_status(
        403,
        r#"{"error": {"message": "Key limit exceeded"}}"#,
        "QuotaExhausted: Key limit exceeded",
    );
}

#[test]
fn keys_and_policies() {
    check_status(401, r#"{"error": {"message": "wrong key"}}"#, "Authentication: wrong key");
    check_status(
        401,
        r#"{"error": {"message": "see billing, flagged"}}"#,
        "Authentication: see billing, flagged",
    );
    check_status(403, "forbidden", "Authentication: forbidden");
    check_status(403, r#"{"error": {"message": "Access denied"}}"#, "Authentication: Access denied");
    check_status(403, "Access denied", "BadRequest: Access denied");
    check_status(403, "Your request was blocked.", "BadRequest: Your request was blocked.");
    check_status(
        403,
        r#"{"error": {"message": "Project does not have access to model `m`", "code": "model_not_found"}}"#,
        "BadRequest: Project does not have access to model `m`",
    );
    check_status(
        403,
        r#"{"error": {"code": 403, "message": "moderated", "metadata": {"reasons": ["violence"]}}}"#,
        "Refused: moderated",
    );
    check_status(400, r#"{"error": {"code": "content_policy_violation", "message": "no"}}"#, "Refused: no");
    check_status(400, r#"{"error": {"code": "content_filter", "message": "no"}}"#, "Refused: no");
    check_status(
        400,
        r#"{"error": {"message": "triggered our content management policy"}}"#,
        "Refused: triggered our content management policy",
    );
}

#[test]
fn prompts_that_are_too_long() {
    check_status(
        400,
        r#"{"error": {"message": "too much", "type": "invalid_request_error", "code": "context_length_exceeded"}}"#,
        "ContextTooLong: too much",
    );
    check_status(
        400,
        r#"{"object": "error", "message": "This model's maximum context length is 4096 tokens.", "type": "BadRequestError", "code": 400}"#,
        "ContextTooLong: This model's maximum context length is 4096 tokens.",
    );
    check_status(
        500,
        r#"{"error": {"code": 500, "message": "too big", "type": "exceed_context_size_error", "n_ctx": 256}}"#,
        "ContextTooLong: too big",
    );
    check_status(
        400,
        r#"{"error": {"message": "the request exceeds the available context size"}}"#,
        "ContextTooLong: the request exceeds the available context size",
    );
    check_status(
        413,
        r#"{"error": {"message": "Prompt is too long"}}"#,
        "ContextTooLong: Prompt is too long",
    );
    check_status(
        422,
        r#"{"detail": "Requested tokens (2285) exceed context window of 2048"}"#,
        "ContextTooLong: Requested tokens (2285) exceed context window of 2048",
    );
    check_status(
        400,
        r#"{"error": {"message": "Provider returned error", "metadata": {"raw": "maximum context length is 8"}}}"#,
        "ContextTooLong: Provider returned error: maximum context length is 8",
    );
    check_status(
        500,
        r#"{"error": {"code": 500, "message": "Context size has been exceeded.", "type": "server_error"}}"#,
        "ContextTooLong: Context size has been exceeded.",
    );
    check_status(
        503,
        r#"{"error": "the prompt exceeds the context of 512"}"#,
        "ContextTooLong: the prompt exceeds the context of 512",
    );
    check_status(
        500,
        r#"{"error": "cannot allocate a context window"}"#,
        "ServerError: cannot allocate a context window",
    );
    check_status(413, "too large", "BadRequest: too large");
}

#[test]
fn a_body_with_a_mark_or_of_python_is_read() {
    let reply = "{\"choices\": [{\"message\": {\"content\": \"a\\ud83d\"}, \"finish_reason\": \"length\", \"score\": NaN}]}";
    let marked = format!("\u{feff}{reply}");
    for body in [reply.as_bytes(), marked.as_bytes()] {
        assert_eq!(outcome(Ok(response(200, body))).unwrap().text, "a\u{fffd}");
    }
}

#[test]
fn bytes_that_are_not_text_are_not_shown() {
    let noise: Vec<u8> = (0..200_u8).map(|byte| byte.wrapping_mul(7_u8).wrapping_add(128)).collect();
    for status in [200, 500] {
        let mut answer = response(status, noise.clone());
        answer.headers = vec![("content-encoding".to_owned(), "br".to_owned())];
        for answer in [answer, response(status, noise.clone())] {
            let said = outcome(Ok(answer)).unwrap_err().to_string();
            assert!(said.is_ascii() && said.contains("the body"), "{said}");
        }
    }
    let said = outcome(Ok(response(502, b"Acc\xe8s refus\xe9 par le serveur mandataire".to_vec())))
        .unwrap_err()
        .to_string();
    assert!(said.contains("par le serveur mandataire"), "{said}");
}

#[test]
fn other_failures() {
    check_status(400, r#"{"error": "model is required"}"#, "BadRequest: model is required");
    check_status(400, r#"{"error": {"code": 17}}"#, r#"BadRequest: {"code":17}"#);
    check_status(400, r#""no""#, "BadRequest: no");
    check_status(400, r#"{"error": null}"#, r#"BadRequest: {"error": null}"#);
    check_status(422, r#"{"detail": [{"loc": ["body"]}]}"#, r#"BadRequest: [{"loc":["body"]}]"#);
    check_status(405, "", "BadRequest: it gave no reason");
    check_status(
        404,
        r#"{"error": {"message": "The model does not exist"}}"#,
        "BadRequest: The model does not exist",
    );
    check_status(404, "<html>", "BadRequest: nothing at http://llm.example/v1/chat/completions: <html>");
    check_status(408, "", "Timeout: http://llm.example/v1 gave no reply within 300 s");
    check_status(500, r#"{"error": {"message": "sorry"}}"#, "ServerError: sorry");
    check_status(502, "<html>Bad Gateway</html>", "ServerError: <html>Bad Gateway</html>");
    check_status(
        503,
        r#"{"error": {"code": 503, "message": "Loading model"}}"#,
        "ServerError: Loading model",
    );
    check_status(529, r#"{"error": {"type": "overloaded_error", "message": "busy"}}"#, "ServerError: busy");
    check_status(308, "", "BadRequest: it redirects to nowhere; redirects are not followed");
    check_status(
        101,
        "",
        "InvalidReply: the reply of http://llm.example/v1 cannot be read: HTTP 101 is not an answer",
    );
    check_status(
        204,
        "",
        "InvalidReply: the reply of http://llm.example/v1 cannot be read: the body is empty",
    );
}

#[test]
fn failures_inside_a_success() {
    check_status(200, r#"{"error": {"code": 429, "message": "busy"}}"#, "RateLimited: busy");
    check_status(200, r#"{"error": {"code": "429", "message": "busy"}}"#, "RateLimited: busy");
    check_status(200, r#"{"error": {"code": 402, "message": "pay"}}"#, "QuotaExhausted: pay");
    check_status(200, r#"{"error": {"code": 401, "message": "key"}}"#, "Authentication: key");
    check_status(200, r#"{"error": {"code": 400, "message": "bad"}}"#, "BadRequest: bad");
    check_status(200, r#"{"error": {"code": 502, "message": "down"}}"#, "ServerError: down");
    check_status(
        200,
        r#"{"error": {"code": "insufficient_quota", "message": "pay"}}"#,
        "QuotaExhausted: pay",
    );
    check_status(200, r#"{"error": {"code": "invalid_api_key", "message": "key"}}"#, "Authentication: key");
    check_status(200, r#"{"error": {"type": "permission_error", "message": "no"}}"#, "Authentication: no");
    check_status(200, r#"{"error": {"type": "invalid_request_error", "message": "bad"}}"#, "BadRequest: bad");
    check_status(
        200,
        r#"{"error": {"code": "context_length_exceeded", "message": "long"}}"#,
        "ContextTooLong: long",
    );
    check_status(200, r#"{"error": {"message": "odd"}, "choices": []}"#, "ServerError: odd");
    // Instead of a reply, under other names.
    check_status(200, r#"{"detail": "no worker"}"#, "ServerError: no worker");
    check_status(200, r#"{"success": false, "message": "busy"}"#, "ServerError: busy");
    check_status(200, r#"{"code": 1113, "msg": "busy"}"#, "ServerError: busy");
    check_status(
        200,
        r#"{"choices": null, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}"#,
        "QuotaExhausted: insufficient balance",
    );
    check_status(
        200,
        r#"{"choices": [{"message": {"content": "ha"}, "finish_reason": "stop", "native_finish_reason": "MALFORMED_FUNCTION_CALL"}]}"#,
        "ServerError: it broke the reply off, with finish reason `MALFORMED_FUNCTION_CALL`",
    );
    check_status(200, r#"{"error": "odd"}"#, "ServerError: odd");
    check_status(
        200,
        r#"{"choices": [{"message": {"content": "ha"}, "finish_reason": "error", "error": {"code": 502, "message": "lost"}}]}"#,
        "ServerError: lost",
    );
    check_body(
        r#"{"error": null, "choices": [{"message": {"content": "x"}, "finish_reason": "stop"}]}"#,
        r#"Stop "x" 0/0/0/0"#,
    );
}

#[test]
fn the_wait_that_the_server_asks_for_is_kept() {
    for (status, seconds) in [(429, 7), (503, 9)] {
        let headers = vec![("retry-after".to_owned(), seconds.to_string())];
        let error = outcome(Ok(HttpResponse { headers, ..response(status, "") })).unwrap_err();
        let (LlmError::RateLimited { retry_after, .. } | LlmError::ServerError { retry_after, .. }) = error
        else {
            panic!("{error:?}");
        };
        assert_eq!(retry_after, Some(Duration::from_secs(seconds)));
    }
}

#[test]
fn a_redirect_names_its_target_without_the_query() {
    let headers = vec![("Location".to_owned(), "https://elsewhere/v2?key=1".to_owned())];
    let error = outcome(Ok(HttpResponse { headers, ..response(301, "") })).unwrap_err();
    let shown = error.to_string();
    assert!(shown.contains("HTTP 301") && shown.contains("https://elsewhere/v2"), "{shown}");
    assert!(!shown.contains("key=1"), "{shown}");
}

#[test]
fn failures_of_the_transport() {
    #[track_caller]
    fn check(error: TransportError, expect: fn(&LlmError) -> bool, part: &str) {
        let error = outcome(Err(error)).unwrap_err();
        let shown = error.to_string();
        assert!(expect(&error), "{error:?}");
        assert!(shown.contains("http://llm.example/v1") && shown.contains(part), "{shown}");
    }
    let text = |message: &str| message.to_owned();
    let after = Duration::from_millis(1500);
    let timeout = |error: &LlmError| matches!(error, LlmError::Timeout { .. });
    check(TransportError::Timeout { after }, timeout, "1.5 s");
    let unreachable = |error: &LlmError| matches!(error, LlmError::Unreachable { .. });
    check(TransportError::Connect { message: text("connection refused") }, unreachable, "connection refused");
    let connection = |error: &LlmError| matches!(error, LlmError::Connection { .. });
    check(TransportError::Broken { message: text("reset") }, connection, "reset");
    let truncated = |error: &LlmError| matches!(error, LlmError::Truncated { .. });
    check(TransportError::Truncated { message: text("reset") }, truncated, "reset");
    let invalid = |error: &LlmError| matches!(error, LlmError::InvalidReply { .. });
    check(TransportError::TooLarge { limit: 5 }, invalid, "5 bytes");
    let configuration = |error: &LlmError| matches!(error, LlmError::Configuration { .. });
    check(TransportError::Unusable { message: text("bad header") }, configuration, "bad header");
}

#[test]
fn nothing_shows_the_key() {
    let echo = format!("you sent\u{0} {KEY} and {KEY}");
    let long = format!("{}{KEY}", "x".repeat(495));
    let mut seen = Vec::new();
    for text in [echo, long] {
        for status in [101, 200, 301, 400, 401, 402, 403, 404, 408, 413, 422, 429, 500] {
            for body in [
                text.clone(),
                serde_json::json!({ "error": text }).to_string(),
                serde_json::json!({"error": {"message": text, "metadata": {"raw": text}}}).to_string(),
                serde_json::json!({ "detail": [text] }).to_string(),
                serde_json::json!({"choices": [{"error": {"message": text}}]}).to_string(),
            ] {
                let headers = vec![("location".to_owned(), text.clone())];
                seen.push(outcome(Ok(HttpResponse { headers, ..response(status, body) })).unwrap_err());
            }
        }
        for error in [
            TransportError::Connect { message: text.clone() },
            TransportError::Broken { message: text.clone() },
            TransportError::Truncated { message: text.clone() },
            TransportError::Unusable { message: text.clone() },
        ] {
            seen.push(outcome(Err(error)).unwrap_err());
        }
    }
    for error in seen {
        let shown = format!("{error} {error:?}");
        assert!(!shown.contains(KEY) && !shown.contains("sk-t"), "{shown}");
        assert!(error.to_string().chars().count() < 700, "{shown}");
    }
    let mut config = config();
    config.server.extra_headers.push(("X-Api-Key".to_owned(), KEY.to_owned()));
    let model = OpenAiChat::new(config.clone()).unwrap();
    for shown in [format!("{config:?}"), format!("{model:?}"), format!("{:?}", ApiKey::new(KEY))] {
        assert!(!shown.contains(KEY), "{shown}");
    }
}

#[test]
fn the_value_of_a_secret_header_is_scrubbed_too() {
    let mut config = config();
    config.server.key = skill_llm::KeySource::None;
    config.server.extra_headers.push(("api-key".to_owned(), "azure-secret".to_owned()));
    let transport = crate::support::Canned::new(Ok(response(401, "not azure-secret")));
    let model = OpenAiChat::with_transport(config, transport).unwrap();
    let error = block_on(model.chat(&question(), &CallCtx::default())).unwrap_err();
    assert!(error.to_string().ends_with("not [key]"), "{error}");
}
