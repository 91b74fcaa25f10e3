//! Every environment variable that the program looks at, in one place, and as a page for people.

use skill_llm::process::BASE_VARIABLES;
use skill_llm::provider::PROVIDERS;
use std::fmt::Write as _;

/// A filter for the log on standard error, as `tracing` has them.
pub const LOG: &str = "SKILLRL_LOG";

/// The address of the Hugging Face Hub, as for its own tools.
pub const HUB_ENDPOINT: &str = "HF_ENDPOINT";

/// A variable, and what it is for.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Variable {
    /// Its name, or several that mean the same.
    name: &'static str,
    /// What it does, as a sentence without a full stop.
    meaning: String,
    /// Whether it holds a secret.
    is_secret: bool,
}

/// What the program and the libraries below it read, where nothing in the configuration names it.
fn variables() -> Vec<Variable> {
    let open = |name, meaning: &str| Variable { name, meaning: meaning.to_owned(), is_secret: false };
    let mut variables = vec![open(
        LOG,
        "a filter for the log on standard error, such as `skill_llm=debug`; with it `-v` has no effect",
    )];
    variables.extend(PROVIDERS.iter().filter_map(|provider| {
        let without = match provider.name {
            "openai" => ", or for `kind = \"openai\"` without a provider",
            _ => "",
        };
        let meaning = format!(
            "the key for `provider = \"{}\"`{without} at the provider's own address, if no `api_key_env` or `api_key_command` is set",
            provider.name
        );
        Some(Variable { name: provider.key_variable?, meaning, is_secret: true })
    }));
    variables.extend([
        open("HTTPS_PROXY, HTTP_PROXY, ALL_PROXY", "proxies for requests to models and to live servers, but not to this machine; lower case means the same. A proxy can read what is sent to addresses with `http`: prompts and keys"),
        open("NO_PROXY", "hosts that are asked without a proxy"),
        open("NO_COLOR, CLICOLOR, CLICOLOR_FORCE, TERM", "whether output is coloured; without them it is where a terminal shows it"),
        open(
            "OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
            "where [traces](../serve.md#traces) go, in programs that are built with the feature `otel`; that page has the other variables of OpenTelemetry",
        ),
        Variable {
            name: "OTEL_EXPORTER_OTLP_HEADERS, OTEL_EXPORTER_OTLP_TRACES_HEADERS",
            meaning: "headers for the collector of traces, such as its token".to_owned(),
            is_secret: true,
        },
        open("XDG_CACHE_HOME, HOME", "where `skillrl worker` keeps the files of runs, without `--cache`, and where results of sandboxed programs and indexes of passages are kept"),
        open(HUB_ENDPOINT, "the address of the Hugging Face Hub, or of a mirror, for data named `hf://OWNER/NAME`"),
        open("PATH", "where programs are found: agents, environments, scorers, commands that print a key"),
    ]);
    variables
}

/// The page of the documentation.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Environment variables\n\n\
         This page is made from the program's own table by `cargo xtask gen`.\n\
         Settings have no variables: what decides a run is in its configuration, or on the command line with `--set`.\n\n\
         ## What is read\n\n| variable | holds a secret | |\n|---|---|---|\n",
    );
    for Variable { name, meaning, is_secret } in variables() {
        let names: Vec<String> = name.split(", ").map(|name| format!("`{name}`")).collect();
        let secret = if is_secret { "yes" } else { "" };
        let _ = writeln!(text, "| {} | {secret} | {meaning} |", names.join(", "));
    }
    text.push_str(
        "\n## What the configuration names\n\n| key | |\n|---|---|\n\
         | `api_key_env` of a model | the variable with the key of that model |\n\
         | `pass_env` of a model of kind `agent`, and of `[env]` with kind `exec` or a scorer `command` | variables that the program gets besides those below |\n\
         | `password_env` and `nkey_env` of `[run.nats]`, `--password-env` and `--nkey-env` of `skillrl worker` | the variable with the password of the user at the broker, or with the seed of an nkey |\n\
         | `--token-env NAME` of `skillrl serve` | the variable with the token that a browser must have |\n\n\
         A key has no place in the configuration: one that is found there is refused, since the file is copied into the run directory.\n\
         The value of a variable that holds a key is kept in memory, and is taken out of everything that servers and programs send.\n\n\
         ## What programs get\n\n\
         A program that plays a model, is the environment or scores answers (`env.command`) sees the variables below, where they are set, and those that `pass_env` names.\n\
         It sees no others, and so no key of a model.\n\
         An environment also gets `PYTHONUNBUFFERED=1` and `PYTHONUTF8=1`, what `set_env` says, and, where the engine answers the calls of its agent, the address and the token of [the endpoint](../agent-endpoint.md).\n\
         They also find `SKILLRL_PROCESS`, by which skillrl recognises what they have started; an `api_key_command` does not, and may leave an agent running that keeps a session.\n\
         An `api_key_command` alone is started with the whole environment of skillrl: what logs in may need any part of it.\n\n",
    );
    let base: Vec<String> = BASE_VARIABLES.iter().map(|name| format!("`{name}`")).collect();
    let _ = writeln!(text, "{}.", base.join(", "));
    text
}
