//! Where what the library crates tell goes: to standard error for people, and to a collector of traces if one is named.

use crate::args::LogFormat;
use skillrl::env_vars;
use skillrl::llm::telemetry;
use std::fmt;
use std::io::Write as _;
use std::sync::atomic::{AtomicBool, Ordering};
use tracing::{Dispatch, Level, Subscriber};
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt as _;
use tracing_subscriber::{Layer, Registry};

/// Where messages for people are from, in a log of JSON lines.
const SAID: &str = "skillrl_cli::said";

/// Whether standard error has JSON lines alone.
static IS_JSON: AtomicBool = AtomicBool::new(false);

/// True if standard error has one JSON object per event.
pub(crate) fn is_json() -> bool {
    IS_JSON.load(Ordering::Relaxed)
}

/// Tells a message as an event, by the word with which it begins.
pub(crate) fn tell(text: &str) {
    let without = |kind: &str| text.strip_prefix(kind).map(str::trim);
    if let Some(text) = without("error:") {
        tracing::error!(target: SAID, "{text}");
    } else if let Some(text) = without("warning:") {
        tracing::warn!(target: SAID, "{text}");
    } else {
        tracing::info!(target: SAID, "{}", without("note:").unwrap_or(text));
    }
}

/// The form of the lines on standard error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lines {
    /// For people who did not ask for a log.
    Plain,
    /// With times and modules.
    Full,
    /// One JSON object per event.
    Json,
}

/// A log that was started.
#[must_use = "what is not sent yet is sent when it is finished"]
pub(crate) struct Log {
    #[cfg(feature = "otel")]
    export: Option<crate::otel::Export>,
}

impl Log {
    /// Sends what is not sent yet; the program ends afterwards.
    pub(crate) fn finish(self) {
        #[cfg(feature = "otel")]
        if let Some(export) = self.export {
            export.finish();
        }
    }
}

/// Starts the log of a command, which may be one that calls models, and so one that there may be traces of.
#[cfg_attr(feature = "otel", expect(unused_variables, reason = "whoever calls models is traced"))]
pub(crate) fn start((verbose, format): (u8, LogFormat), calls_models: bool) -> Log {
    IS_JSON.store(format == LogFormat::Json, Ordering::Relaxed);
    let default = match verbose {
        // How much memory a local model will take is told before its weights are read. Warnings of rmcp repeat what a
        // client sent, which may be anything, to a client that may not read it.
        0 => "skillrl::engine::local=info,rmcp=error,warn",
        1 => {
            "skill_core=info,skill_llm=info,skill_envs=info,skill_pipeline=info,skill_weights=info,skillrl=info,skill_report=info,skill_serve=info,skill_mcp=info,skill_nats=info,warn"
        }
        2 => {
            "skill_core=debug,skill_llm=debug,skill_envs=debug,skill_pipeline=debug,skill_weights=debug,skillrl=debug,skill_report=debug,skill_serve=debug,skill_mcp=debug,skill_nats=debug,info"
        }
        _ => "trace",
    };
    let lines = match format {
        LogFormat::Json => Lines::Json,
        LogFormat::Text if verbose == 0 && asked_filter().is_none() => Lines::Plain,
        LogFormat::Text => Lines::Full,
    };
    // Warnings about the filter come before those about the collector.
    let mut filter = filter(default);
    if let (Lines::Json, Ok(said)) = (lines, format!("{SAID}=info").parse()) {
        filter = filter.add_directive(said);
    }
    #[cfg(feature = "otel")]
    {
        let traces = crate::otel::layer().unwrap_or_else(|problem| {
            say(&format!("warning: no traces are sent: {problem}"));
            None
        });
        let (traces, export) = traces.unzip();
        subscriber(traces, filter, lines).init();
        Log { export }
    }
    #[cfg(not(feature = "otel"))]
    {
        subscriber(NO_TRACES, filter, lines).init();
        if let Some(variable) = crate::traces_asked::variable().filter(|_| calls_models) {
            say(&format!(
                "warning: {variable} is set, and no traces are sent: this program was built without the feature `otel`"
            ));
        }
        Log {}
    }
}

/// No collector, for a program or a test without one.
#[cfg(any(test, not(feature = "otel")))]
const NO_TRACES: Option<tracing_subscriber::layer::Identity> = None;

/// Everything that reads spans and events: the collector, if there is one, and people, by this filter.
fn subscriber(
    traces: Option<impl Layer<Registry> + Send + Sync>,
    filter: EnvFilter,
    lines: Lines,
) -> Dispatch {
    match traces {
        Some(traces) => Registry::default().with(traces).with(people(filter, lines)).into(),
        // Not an absent layer: a registry takes that for one that wants all spans and events.
        None => Registry::default().with(people(filter, lines)).into(),
    }
}

/// What people read on standard error.
fn people<S>(filter: EnvFilter, lines: Lines) -> impl Layer<S>
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
{
    let is_coloured = anstream::AutoStream::choice(&std::io::stderr()) != anstream::ColorChoice::Never;
    let people = tracing_subscriber::fmt::layer().with_ansi(is_coloured).with_writer(std::io::stderr);
    let people = match lines {
        Lines::Plain => people.event_format(Plain).boxed(),
        Lines::Full => people.boxed(),
        Lines::Json => people.with_ansi(false).json().boxed(),
    };
    people
        // Prompts and replies are in the journal; nobody wants them in a log.
        .with_filter(filter_fn(|metadata| metadata.target() != telemetry::CONTENT))
        .with_filter(filter)
}

/// What the environment asks for, or else the default.
fn filter(default: &str) -> EnvFilter {
    let Some(asked) = asked_filter() else { return EnvFilter::new(default) };
    EnvFilter::try_new(&asked).unwrap_or_else(|problem| {
        say(&format!("warning: {} is not a valid log filter and has no effect: {problem}", env_vars::LOG));
        EnvFilter::new(default)
    })
}

fn asked_filter() -> Option<String> {
    std::env::var(env_vars::LOG).ok().filter(|asked| !asked.trim().is_empty())
}

/// Lines such as `warning: a game is left out`, for people who did not ask for a log: without times and modules.
struct Plain;

impl<S, N> FormatEvent<S, N> for Plain
where
    S: Subscriber + for<'lookup> LookupSpan<'lookup>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        ctx: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &tracing::Event<'_>,
    ) -> fmt::Result {
        let kind = match *event.metadata().level() {
            Level::ERROR => "error",
            Level::WARN => "warning",
            _ => "note",
        };
        write!(writer, "{kind}: ")?;
        ctx.field_format().format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// Tells a person something before there is a log; a closed standard error is no reason to stop.
fn say(text: &str) {
    if is_json() {
        let level = if text.starts_with("warning") { "WARN" } else { "INFO" };
        let line = serde_json::json!({"level": level, "fields": {"message": text}, "target": SAID});
        return writeln!(std::io::stderr(), "{line}").unwrap_or_default();
    }
    writeln!(anstream::stderr(), "{text}").unwrap_or_default();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_nobody_reads_is_not_made() {
        let log = subscriber(NO_TRACES, EnvFilter::new("skillrl::engine::local=info,warn"), Lines::Plain);
        // One that sets no highest level, as libraries bring along: levels alone must not be what keeps spans away.
        let _without_level = Dispatch::new(tracing::subscriber::NoSubscriber::default());
        tracing::dispatcher::with_default(&log, || {
            assert!(!tracing::enabled!(target: telemetry::CONTENT, Level::TRACE));
            assert!(tracing::debug_span!("chat").is_disabled());
            assert!(tracing::enabled!(Level::WARN));
        });
    }
}
