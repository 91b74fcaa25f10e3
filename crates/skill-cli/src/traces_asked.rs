//! Whether the environment asks for traces; [`crate::otel`] sends them, in programs that are built with it.

/// Where the collector is.
pub(crate) const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
/// Where it takes traces.
const TRACES_ENDPOINT: &str = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT";
const DISABLED: &str = "OTEL_SDK_DISABLED";
const EXPORTER: &str = "OTEL_TRACES_EXPORTER";

/// The variable that asks for traces, unless another one says that there shall be none.
pub(crate) fn variable() -> Option<&'static str> {
    let is_off = is_true(DISABLED) || value(EXPORTER).is_some_and(|exporter| exporter != "otlp");
    [TRACES_ENDPOINT, ENDPOINT].into_iter().find(|name| !is_off && value(name).is_some())
}

/// What a variable says; a blank one says nothing.
pub(crate) fn value(name: &str) -> Option<String> {
    std::env::var(name).ok().map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

pub(crate) fn is_true(name: &str) -> bool {
    value(name).is_some_and(|value| value.eq_ignore_ascii_case("true"))
}
