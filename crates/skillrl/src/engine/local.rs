//! From the configuration of a local model to its weights, where the build has them.
//!
//! Models of one configuration that name the same files share the weights.

use crate::config::{EmbeddingConfig, LocalConfig, ModelRole};
use crate::error::Error;
use skill_llm::{ChatModel, EmbeddingModel};
use std::sync::Arc;

/// The local models of a run that were asked for until now.
#[cfg(feature = "weights")]
#[derive(Default)]
pub(super) struct Locals {
    opened: Vec<(skill_train::chat_model::LocalModelOptions, Arc<skill_train::chat_model::LocalModel>)>,
}

/// This build has none.
#[cfg(not(feature = "weights"))]
#[derive(Default)]
pub(super) struct Locals(());

#[cfg(feature = "weights")]
impl Locals {
    /// The model of these files; its weights are loaded with the first call.
    pub(super) fn model(
        &mut self,
        role: ModelRole,
        asked: &LocalConfig,
        seed: u64,
    ) -> Result<Arc<dyn ChatModel>, Error> {
        use crate::config::LocalSchema;
        use skill_train::chat_model::{ChatDefaults, LocalChatModel, SchemaRule};
        let model = self.opened(role, asked)?;
        let standard = ChatDefaults::default();
        let defaults = ChatDefaults {
            temperature: asked.temperature.unwrap_or(standard.temperature),
            top_p: asked.top_p.unwrap_or(standard.top_p),
            top_k: asked.top_k.map(size),
            max_tokens: asked.max_tokens,
            seed: asked.seed.unwrap_or(seed),
            thinking: asked.thinking,
            schema: match asked.response_schema {
                LocalSchema::Refuse => SchemaRule::Refuse,
                LocalSchema::Ignore => SchemaRule::Ignore,
            },
        };
        Ok(Arc::new(LocalChatModel::new(model, defaults)))
    }

    fn opened(
        &mut self,
        role: ModelRole,
        asked: &LocalConfig,
    ) -> Result<Arc<skill_train::chat_model::LocalModel>, Error> {
        use skill_llm::LlmError;
        use skill_llm::error::with_causes;
        use skill_train::chat_model::LocalModel;
        let options = options(asked);
        if let Some((_, model)) = self.opened.iter().find(|(found, _)| *found == options) {
            return Ok(Arc::clone(model));
        }
        let model = LocalModel::open(options.clone()).map_err(|error| Error::Model {
            role: role.as_str(),
            source: LlmError::Configuration { message: with_causes(&error) },
        })?;
        tracing::info!("{}", description(&model));
        let model = Arc::new(model);
        self.opened.push((options, Arc::clone(&model)));
        Ok(model)
    }
}

#[cfg(feature = "weights")]
fn options(asked: &LocalConfig) -> skill_train::chat_model::LocalModelOptions {
    const MEGABYTE: u64 = 1_000_000;
    skill_train::chat_model::LocalModelOptions {
        adapter: asked.adapter.as_ref().map(crate::config::ConfigPath::to_path),
        context: size(asked.context),
        max_rows: size(asked.batch_rows),
        prefix_cache_bytes: u64::from(asked.prefix_cache_mb) * MEGABYTE,
        ..skill_train::chat_model::LocalModelOptions::new(asked.path.to_path())
    }
}

#[cfg(feature = "weights")]
fn size(number: u32) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

/// Name, size, quantization, context and memory of a model, as one line.
#[cfg(feature = "weights")]
fn description(model: &skill_train::chat_model::LocalModel) -> String {
    use skill_train::chat_model::{available_memory, shown_bytes};
    let (files, need) = (model.files(), model.need());
    let available = available_memory().map_or_else(
        || "how much is available is not known here".to_owned(),
        |bytes| format!("{} are available", shown_bytes(bytes)),
    );
    format!(
        "{}: {} on disk, {}, a context of {} tokens; it needs {} of memory ({} for weights, {} for replies, {} for \
         kept beginnings), {available}",
        files.name(),
        shown_bytes(files.n_bytes()),
        files.quantization(),
        model.context(),
        shown_bytes(need.total()),
        shown_bytes(need.weights),
        shown_bytes(need.replies),
        shown_bytes(need.prefixes),
    )
}

/// The vector instructions of this processor that products of matrices use; they are chosen when the program runs.
#[cfg(feature = "weights")]
fn instructions() -> Vec<&'static str> {
    #[cfg(target_arch = "x86_64")]
    let found = [
        (std::arch::is_x86_feature_detected!("avx2"), "AVX2"),
        (std::arch::is_x86_feature_detected!("fma"), "FMA"),
        (std::arch::is_x86_feature_detected!("avx512f"), "AVX-512"),
        (std::arch::is_x86_feature_detected!("avx512vnni"), "AVX-512 VNNI"),
    ];
    #[cfg(not(target_arch = "x86_64"))]
    let found = [(cfg!(target_feature = "neon"), "NEON")];
    found.into_iter().filter(|(has, _)| *has).map(|(_, name)| name).collect()
}

/// The lines that `doctor` shows of a local model: its files with the memory that it needs, and the instructions of
/// the processor that are used.
#[cfg(feature = "weights")]
pub(crate) fn findings(asked: &LocalConfig) -> Vec<String> {
    use skill_train::chat_model::LocalModel;
    let model = LocalModel::open(options(asked));
    let about = model.as_ref().map(description).ok();
    let instructions = match instructions().as_slice() {
        [] => "the baseline of this architecture".to_owned(),
        found => found.join(", "),
    };
    let cpu = format!("instructions of this processor that its products use: {instructions}");
    about.into_iter().chain([cpu, "its calls cost nothing".to_owned()]).collect()
}

#[cfg(not(feature = "weights"))]
pub(crate) fn findings(_: &LocalConfig) -> Vec<String> {
    Vec::new()
}

#[cfg(not(feature = "weights"))]
impl Locals {
    /// Refuses the model: this build has no local ones.
    #[expect(clippy::unused_self, reason = "the build with local models keeps those that are open")]
    pub(super) fn model(
        &mut self,
        role: ModelRole,
        _: &LocalConfig,
        _: u64,
    ) -> Result<Arc<dyn ChatModel>, Error> {
        let what = format!("`models.{}.kind = \"local\"`", role.as_str());
        Err(Error::LeftOut { what, feature: "weights" })
    }
}

/// The embedding model of a folder.
#[cfg(feature = "weights")]
pub(super) fn embedding(asked: &EmbeddingConfig) -> Result<Arc<dyn EmbeddingModel>, Error> {
    use skill_llm::LlmError;
    use skill_llm::error::with_causes;
    let failed =
        |message: String| Error::Model { role: "embedding", source: LlmError::Configuration { message } };
    let path = asked.path.as_ref().ok_or_else(|| failed("`path` is not set".to_owned()))?;
    let model = skill_train::embedding::LocalEmbedding::open(&path.to_path());
    Ok(Arc::new(model.map_err(|error| failed(with_causes(&error)))?))
}

/// Refuses the model: this build has no local ones.
#[cfg(not(feature = "weights"))]
pub(super) fn embedding(_: &EmbeddingConfig) -> Result<Arc<dyn EmbeddingModel>, Error> {
    Err(Error::LeftOut { what: "`models.embedding.kind = \"local\"`".to_owned(), feature: "weights" })
}

#[cfg(all(test, not(feature = "weights")))]
mod tests {
    use crate::config::{Config, ModelRole};
    use crate::engine::Engine;
    use crate::error::Error;

    #[test]
    fn left_out_models_name_their_feature() {
        let text = "[models]\ntarget = { kind = \"local\", path = \"m.gguf\" }\noptimizer = { kind = \"simulated\" }\n\
                    [env]\nkind = \"qa\"\ndata = \"d\"\n";
        let loaded = Config::parse(text, "skillrl.toml", &[]).unwrap();
        match Engine::new(&loaded).model(ModelRole::Target) {
            Err(error @ Error::LeftOut { feature: "weights", .. }) => {
                assert!(error.hint().contains("--features full"), "{}", error.hint());
            }
            Err(error) => panic!("{error:?}"),
            Ok(_) => panic!("a model was made"),
        }
    }
}
