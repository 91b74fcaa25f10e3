//! From `[env]` with `kind = "search-agent"` to its questions and its retriever.

use super::{Around, wrong};
use crate::caches::cache_dir;
use crate::config::{ConfigPath, SearchAgentConfig};
use crate::error::Error;
use skill_envs::World;
use skill_envs::search_agent::{PassageSource, SearchConfig, SearchWorld};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The questions, with the index of their passages opened or built.
pub(super) fn world(asked: &SearchAgentConfig, around: &Around<'_>) -> Result<Arc<dyn World>, Error> {
    let config = SearchConfig {
        data: asked.questions.as_ref().map(ConfigPath::to_path),
        source: source(asked, around)?,
        index_dir: asked.index_dir.as_ref().map_or_else(index_dir, ConfigPath::to_path),
        n_passages: asked.passages,
        timeout: Duration::from_secs(asked.retriever_timeout_s),
        split_ratio: asked.split_ratio,
        split_rule: asked.split_rule,
        split_seed: asked.split_seed,
        test_is_optional: around.test_is_optional,
        limits: [asked.max_train, asked.max_val, asked.max_test],
    };
    let mut progress = |n_passages: usize| tracing::info!(n_passages, "passages are indexed");
    Ok(Arc::new(SearchWorld::load(&config, &mut progress).map_err(Error::Env)?))
}

/// Where passages come from: one source at most is named.
fn source(asked: &SearchAgentConfig, around: &Around<'_>) -> Result<PassageSource, Error> {
    let command = (!asked.retriever_command.is_empty()).then(|| asked.retriever_command.clone());
    match (&asked.corpus, &asked.retriever, command) {
        (None, None, None) => Ok(PassageSource::Questions),
        (Some(corpus), None, None) => Ok(PassageSource::Corpus(corpus.to_path())),
        (None, Some(address), None) => Ok(PassageSource::Server(address.clone())),
        (None, None, Some(command)) => Ok(PassageSource::Command(command, around.dir.clone())),
        _ => Err(wrong(
            "passages come from one place; keep one of `env.corpus`, `env.retriever` and `env.retriever_command`"
                .to_owned(),
        )),
    }
}

/// Where indexes are kept without a setting.
fn index_dir() -> PathBuf {
    cache_dir("index").unwrap_or_else(|| std::env::temp_dir().join("skillrl").join("index"))
}
