use super::*;
use crate::call::CallPlace;
use crate::chat::Message;
use crate::layer::{Retried, RetryPolicy};
use crate::scripted::ScriptedModel;
use async_trait::async_trait;
use parking_lot::Mutex;
use skill_core::Usage;
use std::io;
use std::sync::{atomic::AtomicBool, atomic::Ordering};
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::fmt::format::FmtSpan;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

/// The line that is written when the span of a call closes.
async fn closing_line(model: Arc<dyn ChatModel>) -> String {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_span_events(FmtSpan::CLOSE)
        .with_ansi(false)
        .with_writer(log.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);
    let mut request = ChatRequest::new(vec![Message::user("a secret question")]);
    request.sampling.temperature = Some(0.5);
    let call = CallCtx::new(CallPlace::new("step 1"));
    drop(Traced::new(model).chat(&request, &call).await);
    drop(guard);
    let lines = String::from_utf8(log.0.lock().clone()).unwrap();
    let line = lines.lines().find(|line| line.contains(" close ")).unwrap_or_else(|| panic!("{lines}"));
    assert!(!line.contains("secret"), "{line}");
    line.to_owned()
}

#[track_caller]
fn assert_has(line: &str, fields: &[&str]) {
    for field in fields {
        assert!(line.contains(field), "{field} in {line}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_span_names_the_call_its_tokens_and_its_attempts() {
    let failed = AtomicBool::new(false);
    let inner = ScriptedModel::from_fn("small", move |_, _| {
        if !failed.swap(true, Ordering::Relaxed) {
            return Err(LlmError::Truncated { provider: "p".into(), message: String::new() });
        }
        Ok(ChatReply::text("a secret answer", Usage { input: 9, cached: 4, output: 3, ..Usage::default() }))
    });
    let model = Retried::new(Arc::new(inner), RetryPolicy::default(), Arc::default());
    let line = closing_line(Arc::new(model)).await;
    assert_has(
        &line,
        &[
            r#"gen_ai.operation.name="chat""#,
            r#"gen_ai.provider.name="scripted""#,
            r#"gen_ai.request.model="small""#,
            "gen_ai.request.temperature=0.5",
            r#"gen_ai.response.finish_reasons="stop""#,
            "gen_ai.usage.input_tokens=9",
            "gen_ai.usage.cache_read.input_tokens=4",
            "gen_ai.usage.output_tokens=3",
            r#"skillrl.call.place="step 1""#,
            "skillrl.call.attempts=2",
        ],
    );
    assert!(!line.contains("error.type") && !line.contains("top_p"), "{line}");
}

#[tokio::test(start_paused = true)]
async fn a_span_names_the_class_of_an_error() {
    let inner = ScriptedModel::from_fn("small", |_, _| {
        Err(LlmError::Refused { provider: "p".into(), status: 400, message: "a secret reason".into() })
    });
    let line = closing_line(Arc::new(inner)).await;
    assert_has(&line, &[r#"error.type="refused""#, "skillrl.call.attempts=0"]);
}

/// Gives every text the same vector, or fails.
struct Embedder(ModelId, bool);

#[async_trait]
impl EmbeddingModel for Embedder {
    fn id(&self) -> &ModelId {
        &self.0
    }

    async fn embed(&self, request: &EmbeddingRequest, _: &CallCtx) -> Result<EmbeddingReply, LlmError> {
        if self.1 {
            return Err(LlmError::Cancelled);
        }
        let usage = Usage { input: 5, ..Usage::default() };
        Ok(EmbeddingReply::new(vec![vec![1.0, 2.0, 3.0]; request.texts.len()], usage))
    }
}

#[tokio::test]
async fn a_span_around_embeddings_has_their_numbers_and_no_text() {
    for fails in [false, true] {
        let log = Log::default();
        let subscriber = tracing_subscriber::fmt()
            .with_max_level(tracing::Level::DEBUG)
            .with_span_events(FmtSpan::CLOSE)
            .with_ansi(false)
            .with_writer(log.clone())
            .finish();
        let guard = tracing::subscriber::set_default(subscriber);
        let model = Traced::embedding(Arc::new(Embedder(ModelId::new("p", "vectors"), fails)));
        let call = CallCtx::new(CallPlace::new("step 1"));
        drop(model.embed(&EmbeddingRequest::new(["a secret", "b"]), &call).await);
        drop(guard);
        let lines = String::from_utf8(log.0.lock().clone()).unwrap();
        let line = lines.lines().find(|line| line.contains(" close ")).unwrap();
        assert!(!lines.contains("secret"), "{lines}");
        let common = ["embeddings{", "gen_ai.operation.name=\"embeddings\"", "skillrl.embedding.texts=2"];
        assert_has(line, &common);
        assert_has(
            line,
            match fails {
                false => &["gen_ai.embeddings.dimension.count=3", "gen_ai.usage.input_tokens=5"],
                true => &["error.type=\"cancelled\"", "otel.status_code=\"ERROR\""],
            },
        );
    }
}
