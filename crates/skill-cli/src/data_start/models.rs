//! The models of a run that is started from data: by the options, or by the keys that are set.

use crate::args::{DataArgs, Price};
use crate::coding_agent::model_settings;
use crate::error::CommandError;
use skillrl::config::LoadedConfig;
use skillrl::llm::{PROVIDERS, Provider};
use std::path::Path;

/// The default model of a provider whose key is set.
const USUAL_MODELS: [(&str, &str); 2] = [("openai", "gpt-5-mini"), ("anthropic", "claude-haiku-4-5")];

/// How the names of models begin, and whose they are.
const BEGINNINGS: [(&str, &str); 7] = [
    ("gpt-", "openai"),
    ("o1", "openai"),
    ("o3", "openai"),
    ("o4", "openai"),
    ("claude-", "anthropic"),
    ("gemini-", "gemini"),
    ("deepseek-", "deepseek"),
];

/// What the models are for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Purpose {
    /// They will be called.
    Calls,
    /// Nothing is sent, so that a model may be assumed.
    DryRun,
}

/// The settings of the models.
pub(super) fn settings(
    args: &DataArgs,
    purpose: Purpose,
    is_set: &dyn Fn(&str) -> bool,
) -> crate::Result<Vec<String>> {
    let usual = || {
        let has_key = |provider: &&str| {
            Provider::find(provider).and_then(|found| found.key_variable).is_some_and(is_set)
        };
        let found = USUAL_MODELS.iter().find(|(provider, _)| has_key(provider));
        let found = found.or_else(|| USUAL_MODELS.first().filter(|_| purpose == Purpose::DryRun));
        found.map(|(provider, model)| format!("{provider}/{model}"))
    };
    let both = args.model.clone().or_else(|| usual().filter(|_| args.base_url.is_none()));
    let target = args.target.as_ref().or(both.as_ref());
    let optimizer = args.optimizer.as_ref().or(both.as_ref()).or(target);
    let (Some(target), Some(optimizer)) = (target, optimizer) else {
        let hint = "name one with `--model`, such as `--model gpt-5-mini`; `--mock` tries the command without a model";
        let message = match args.base_url {
            Some(_) => "which model does the server have that `--base-url` names?",
            None => "no model is named, and neither OPENAI_API_KEY nor ANTHROPIC_API_KEY is set",
        };
        return Err(CommandError::new(message).with_hint(hint).into());
    };
    let mut roles = vec![("target", target), ("optimizer", optimizer)];
    roles.extend(args.judge.as_ref().map(|judge| ("judge", judge)));
    let mut settings = Vec::new();
    for (role, name) in roles {
        settings.extend(of_role(role, name, (args.base_url.as_deref(), args.price))?);
    }
    Ok(settings)
}

/// The settings of a role by the name of its model: one of a server of a person's own, weights on this machine, a coding
/// agent, or a model of a provider.
pub(crate) fn of_role(
    role: &str,
    name: &str,
    (base_url, price): (Option<&str>, Option<Price>),
) -> crate::Result<Vec<String>> {
    let key = |key: &str, value: &str| setting(&format!("models.{role}.{key}"), value);
    // Many small servers and local models know no schemas, and JSON is read from any text.
    let reads_json = role != "target";
    let mut settings: Vec<String> = if let Some(url) = base_url {
        let without = reads_json.then(|| key("response_format", "off"));
        [key("base_url", url), key("model", name)].into_iter().chain(without).collect()
    } else if is_local(name) {
        let without = reads_json.then(|| key("response_schema", "ignore"));
        return Ok([key("kind", "local"), key("path", name)].into_iter().chain(without).collect());
    } else if let Some(of_agent) = model_settings(role, name)? {
        return Ok(of_agent);
    } else {
        let (provider, model) = provider_of(name)?;
        vec![key("provider", provider), key("model", model)]
    };
    settings.extend(priced(price, &key));
    Ok(settings)
}

/// The prices of `--price` as settings of a model.
fn priced(price: Option<Price>, key: &impl Fn(&str, &str) -> String) -> impl Iterator<Item = String> {
    price.into_iter().flat_map(move |Price { input, output }| {
        [key("price_input", &format!("{input:?}")), key("price_output", &format!("{output:?}"))]
    })
}

/// The settings of a further model by its name alone, as `[models.targets.TARGET]`: weights on this machine, a model of
/// another provider, or one of the server of the configured target.
pub(crate) fn further_settings(
    loaded: &LoadedConfig,
    (target, name): (&str, &str),
    data: &DataArgs,
) -> Result<Vec<String>, CommandError> {
    let key = |key: &str, value: &str| setting(&format!("models.targets.{target}.{key}"), value);
    if data.base_url.is_none() && is_local(name) {
        return Ok(vec![key("kind", "local"), key("path", name)]);
    }
    let price = priced(data.price, &key);
    let own = loaded.config.models.target.served();
    // A server with such names of its own, such as a router, is asked by them.
    let has_prefix = own.is_some_and(|own| own.model.contains('/'));
    let of_provider = name.split_once('/').filter(|(provider, _)| Provider::find(provider).is_some());
    let named = match of_provider {
        Some(named) if !has_prefix => Some(named),
        Some(_) | None
            if data.base_url.is_none() && loaded.origins.contains_key("models.target.provider") =>
        {
            provider_of(name).ok()
        }
        Some(_) | None => None,
    };
    if let Some((provider, model)) = named {
        return Ok([key("provider", provider), key("model", model)].into_iter().chain(price).collect());
    }
    let of_server = loaded.further_target(target, name).ok_or_else(|| {
        let known: Vec<&str> = loaded.config.models.targets.keys().map(String::as_str).collect();
        let known = if known.is_empty() { "none is configured".to_owned() } else { known.join(", ") };
        CommandError::new(format!(
            "`{name}` is not a model of [models.targets] ({known}), and no server answers for the target"
        ))
        .with_hint("add a section [models.targets.NAME], or write `PROVIDER/MODEL`")
    })?;
    Ok(of_server.into_iter().chain(price).collect())
}

/// True for the weights of a model on this machine: a GGUF file, or a folder of a model.
fn is_local(name: &str) -> bool {
    let path = Path::new(name);
    let is_gguf = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gguf"));
    is_gguf || path.join("config.json").is_file()
}

/// The provider and the model of a name such as `openai/gpt-5-mini` or `gpt-5-mini`.
fn provider_of(name: &str) -> Result<(&str, &str), CommandError> {
    if let Some((provider, model)) = name.split_once('/')
        && Provider::find(provider).is_some()
    {
        return Ok((provider, model));
    }
    let known = BEGINNINGS.into_iter().find(|(beginning, _)| name.starts_with(beginning));
    known.map(|(_, provider)| (provider, name)).ok_or_else(|| {
        let providers: Vec<&str> = PROVIDERS.iter().map(|provider| provider.name).collect();
        CommandError::new(format!("it is not known who serves the model `{name}`")).with_hint(format!(
            "write `PROVIDER/{name}` with one of {}, or name the address of your server with `--base-url`",
            providers.join(", ")
        ))
    })
}

/// A setting in the form `KEY=VALUE`.
pub(crate) fn setting(key: &str, value: &str) -> String {
    format!("{key}={value}")
}
