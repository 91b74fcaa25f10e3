//! Traces for a collector, by OpenTelemetry's protocol over HTTP: what the library crates say in spans.
//!
//! A run never waits for a collector: spans go into a queue with a limit, a thread of its own sends them, and what
//! finds no room, or a collector that does not answer, is counted and left out.
//!
//! # Invariants
//!
//! - A collector of traces that is slow or gone changes no file of a run and no exit code, and no prompt, reply or
//!   key reaches it unless texts were requested. Held by the tests in `tests/cli/otel.rs`.

mod conventions;
mod transport;

use crate::traces_asked::{self, is_true, value};
use conventions::{Conventions, Counts};
use opentelemetry::KeyValue;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_otlp::{Protocol, SpanExporter, WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::trace::{BatchConfigBuilder, BatchSpanProcessor, SdkTracerProvider};
use skillrl::llm::telemetry;
use std::sync::Arc;
use std::time::Duration;
use tracing::level_filters::LevelFilter;
use tracing::subscriber::Interest;
use tracing::{Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, Filter};
use tracing_subscriber::registry::LookupSpan;

/// The environment variables of OpenTelemetry that are read here, besides those that ask for traces; the exporter
/// reads those for headers and the timeout.
mod variable {
    pub(super) const PROTOCOL: &str = "OTEL_EXPORTER_OTLP_PROTOCOL";
    pub(super) const TRACES_PROTOCOL: &str = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL";
    pub(super) const SERVICE_NAME: &str = "OTEL_SERVICE_NAME";
    pub(super) const RESOURCE: &str = "OTEL_RESOURCE_ATTRIBUTES";
    pub(super) const QUEUE: &str = "OTEL_BSP_MAX_QUEUE_SIZE";
    pub(super) const CONTENT: &str = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT";
}

/// What the service is called, where nobody says.
const SERVICE: &str = "skillrl";
/// Spans that wait to be sent, where nobody says: many end at once when a stage has many workers.
const QUEUE: usize = 16_384;
/// How long the end of the program waits for what is not sent yet.
const LAST_WAIT: Duration = Duration::from_secs(5);

/// Sends spans until it is finished.
pub(crate) struct Export {
    provider: SdkTracerProvider,
    counts: Arc<Counts>,
}

impl Export {
    /// Sends what is left, for a while, and says what could not be sent.
    pub(crate) fn finish(self) {
        drop(self.provider.shutdown_with_timeout(LAST_WAIT));
        if let Some(lost) = self.counts.lost() {
            tracing::warn!(
                "{lost} spans did not reach the collector at the address of {}",
                traces_asked::ENDPOINT
            );
        }
    }
}

/// A layer that sends spans to the collector that the environment names; none if it names none.
///
/// What is wrong with it is said, and is no reason to stop: a run does without being traced.
pub(crate) fn layer<S>() -> Result<Option<(impl Layer<S>, Export)>, String>
where
    S: Subscriber + for<'span> LookupSpan<'span>,
{
    if traces_asked::variable().is_none() {
        return Ok(None);
    }
    let is_other = |name: &str| value(name).is_some_and(|protocol| protocol != "http/protobuf");
    if [variable::TRACES_PROTOCOL, variable::PROTOCOL]
        .into_iter()
        .find(|name| value(name).is_some())
        .is_some_and(is_other)
    {
        return Err(format!(
            "traces are sent by `http/protobuf` alone; set {} to it",
            variable::TRACES_PROTOCOL
        ));
    }
    let client = transport::Client::new()?;
    let exporter =
        SpanExporter::builder().with_http().with_protocol(Protocol::HttpBinary).with_http_client(client);
    let exporter = exporter.build().map_err(|error| error.to_string())?;
    let counts = Arc::new(Counts::default());
    let exporter = Conventions::new(exporter, Arc::clone(&counts));
    let config = BatchConfigBuilder::default();
    let config = if value(variable::QUEUE).is_some() { config } else { config.with_max_queue_size(QUEUE) };
    let batches = BatchSpanProcessor::builder(exporter).with_batch_config(config.build()).build();
    let provider = SdkTracerProvider::builder()
        .with_resource(resource())
        .with_span_processor(conventions::Counting(Arc::clone(&counts)))
        .with_span_processor(batches)
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer(SERVICE))
        .with_location(false)
        .with_threads(false)
        .with_target(false)
        .with_tracked_inactivity(false)
        .with_filter(Ours { has_content: is_true(variable::CONTENT) });
    Ok(Some((layer, Export { provider, counts })))
}

fn resource() -> Resource {
    let is_named = value(variable::SERVICE_NAME).is_some()
        || value(variable::RESOURCE).is_some_and(|attributes| attributes.contains("service.name="));
    let resource =
        Resource::builder().with_attribute(KeyValue::new("service.version", env!("CARGO_PKG_VERSION")));
    if is_named { resource.build() } else { resource.with_service_name(SERVICE).build() }
}

/// The spans of our crates, and the texts of calls if somebody asked for them; nothing else that is logged.
struct Ours {
    has_content: bool,
}

impl Ours {
    fn wants(&self, metadata: &Metadata<'_>) -> bool {
        match metadata.is_span() {
            true => metadata.target().starts_with("skill"),
            false => self.has_content && metadata.target() == telemetry::CONTENT,
        }
    }
}

impl<S> Filter<S> for Ours {
    fn enabled(&self, metadata: &Metadata<'_>, _: &Context<'_, S>) -> bool {
        self.wants(metadata)
    }

    fn callsite_enabled(&self, metadata: &'static Metadata<'static>) -> Interest {
        if self.wants(metadata) { Interest::always() } else { Interest::never() }
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Some(LevelFilter::TRACE)
    }
}
