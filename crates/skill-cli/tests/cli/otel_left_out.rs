//! A program that was built without traces.

use crate::context::{TestContext, code};

/// Whoever names a collector waits for traces that do not come.
#[test]
fn it_says_that_no_traces_are_sent() {
    let context = TestContext::with_demo();
    let said = |arguments: &[&str], variables: &[(&str, &str)]| {
        let mut command = context.command(arguments);
        let output = command.envs(variables.iter().copied()).output().unwrap();
        assert_eq!(output.status.code(), Some(code::SUCCESS));
        String::from_utf8(output.stderr).unwrap().contains("built without the feature `otel`")
    };
    let collector = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9");
    let train = ["train", "demo/skillrl.toml", "--quiet"];
    assert!(said(&train, &[collector]));
    assert!(!said(&train, &[collector, ("OTEL_SDK_DISABLED", "true")]));
    assert!(!said(&train, &[]));
    // Nothing of it would be traced.
    assert!(!said(&["status", "demo/run"], &[collector]));
}
