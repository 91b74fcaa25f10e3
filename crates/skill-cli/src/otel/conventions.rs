//! What spans look like when they are sent, and how many are.

use opentelemetry::{Array, Context, StringValue, Value};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{Span, SpanData, SpanExporter, SpanProcessor};
use skillrl::llm::telemetry::FINISH_REASONS;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Spans that ended, and those that the collector took.
#[derive(Debug, Default)]
pub(super) struct Counts {
    ended: AtomicU64,
    sent: AtomicU64,
}

impl Counts {
    /// How many did not reach the collector, if any.
    pub(super) fn lost(&self) -> Option<u64> {
        let (ended, sent) = (self.ended.load(Ordering::Relaxed), self.sent.load(Ordering::Relaxed));
        Some(ended.saturating_sub(sent)).filter(|lost| *lost > 0)
    }
}

/// Counts spans that end.
#[derive(Debug)]
pub(super) struct Counting(pub(super) Arc<Counts>);

impl SpanProcessor for Counting {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, _: SpanData) {
        self.0.ended.fetch_add(1, Ordering::Relaxed);
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// An exporter that gives spans the last of the conventions' form, and counts what is taken.
#[derive(Debug)]
pub(super) struct Conventions<E> {
    inner: E,
    counts: Arc<Counts>,
}

impl<E> Conventions<E> {
    pub(super) fn new(inner: E, counts: Arc<Counts>) -> Self {
        Self { inner, counts }
    }
}

impl<E: SpanExporter> SpanExporter for Conventions<E> {
    async fn export(&self, mut batch: Vec<SpanData>) -> OTelSdkResult {
        let n_spans = u64::try_from(batch.len()).unwrap_or(u64::MAX);
        batch.iter_mut().for_each(conform);
        let outcome = self.inner.export(batch).await;
        match &outcome {
            Ok(()) => {
                self.counts.sent.fetch_add(n_spans, Ordering::Relaxed);
            }
            Err(error) => tracing::debug!(%error, n_spans, "spans could not be sent"),
        }
        outcome
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.inner.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.inner.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.inner.set_resource(resource);
    }
}

/// A field of a span holds one value, where the conventions want a list.
fn conform(span: &mut SpanData) {
    for attribute in span.attributes.iter_mut().filter(|attribute| attribute.key.as_str() == FINISH_REASONS) {
        if let Value::String(reason) = &attribute.value {
            let reasons: Vec<StringValue> = vec![reason.clone()];
            attribute.value = Value::Array(Array::String(reasons));
        }
    }
}
