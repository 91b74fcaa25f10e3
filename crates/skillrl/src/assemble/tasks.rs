//! From `[env]` with `kind = "tasks"` to its environment.

use super::{env_error, replaced_prompt};
use crate::config::keys::declare::Fill as _;
use crate::config::{AskedPath, LoadedConfig, TasksConfig as Asked, TasksExtract, TasksScorer};
use crate::error::Error;
use crate::secrets;
use skill_core::{RatioSplit, python_json};
use skill_envs::score::NumericOptions;
use skill_envs::tasks::{
    CommandConfig, Extraction, FILES_PROMPT_NAME, FileTool, FilesConfig, JUDGE_PROMPT_NAME, NamedPrompt,
    Preset, ROLLOUT_PROMPT_NAME, RubricConfig, ScorerConfig, Splitting, TasksConfig, TasksEnv, TasksSettings,
    TasksWorld,
};
use skill_envs::{Env, EnvError, World};
use skill_llm::{ChatModel, ToolSpec, text_file};
use std::sync::Arc;
use std::time::Duration;

/// The environment of a person's own data.
pub(super) fn environment(
    loaded: &LoadedConfig,
    asked: &Asked,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Arc<dyn Env>, Error> {
    Ok(Arc::new(load(loaded, asked, judge)?))
}

/// The same environment for those who look at its data alone: what is wrong with references is listed, not refused.
pub(super) fn environment_to_check(
    loaded: &LoadedConfig,
    asked: &Asked,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Arc<dyn Env>, Error> {
    let config = TasksConfig { lists_faults: true, ..config(loaded, asked)? };
    Ok(Arc::new(load_by(loaded, &config, judge)?))
}

/// The same environment to be played by hand, or by the trainers of others.
pub(super) fn world(
    loaded: &LoadedConfig,
    asked: &Asked,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<Arc<dyn World>, Error> {
    Ok(Arc::new(TasksWorld::new(Arc::new(load(loaded, asked, judge)?))))
}

fn load(loaded: &LoadedConfig, asked: &Asked, judge: Option<Arc<dyn ChatModel>>) -> Result<TasksEnv, Error> {
    load_by(loaded, &config(loaded, asked)?, judge)
}

fn load_by(
    loaded: &LoadedConfig,
    config: &TasksConfig,
    judge: Option<Arc<dyn ChatModel>>,
) -> Result<TasksEnv, Error> {
    let env = TasksEnv::load(config).map_err(|error| env_error(loaded, error))?;
    Ok(match judge {
        Some(judge) => env.with_judge(judge),
        None => env,
    })
}

/// The settings of the environment.
pub(super) fn config(loaded: &LoadedConfig, asked: &Asked) -> Result<TasksConfig, Error> {
    let preset = asked.preset;
    let mut config = TasksConfig {
        splitting: match (&asked.split_field, &asked.split_ids) {
            (Some(field), _) => Splitting::Field(field.clone()),
            (None, Some(lists)) => Splitting::Ids(loaded.resolve(lists)),
            (None, None) => Splitting::PartsOrRatio(RatioSplit {
                ratio: asked.split_ratio,
                rule: asked.split_rule,
                seed: asked.split_seed,
            }),
        },
        test_is_optional: !loaded.config.eval.test,
        image_dir: asked.image_dir.as_ref().map(|dir| loaded.resolve(dir)),
        files: files(loaded, asked, preset)?,
        choice_seed: asked.shuffle_choices.then_some(asked.choice_seed),
        settings: TasksSettings {
            prompt: prompt(loaded, asked, preset)?,
            tools: tools(loaded, asked)?,
            max_tokens: asked.max_tokens,
            extraction: extraction(asked),
            scorer: scorer(loaded, asked)?,
        },
        ..TasksConfig::new(loaded.resolve(&asked.data))
    };
    asked.fill(&mut config);
    Ok(config)
}

/// What the agent may look into.
fn files(loaded: &LoadedConfig, asked: &Asked, preset: Option<Preset>) -> Result<Option<FilesConfig>, Error> {
    let Some(dir) = &asked.files_dir else { return Ok(None) };
    let of_preset = preset.and_then(Preset::files_field).map(str::to_owned);
    let tools = match asked.file_tools.as_slice() {
        [] => FileTool::ALL.to_vec(),
        names => {
            names.iter().map(|name| FileTool::parse(name)).collect::<Result<_, _>>().map_err(Error::Env)?
        }
    };
    Ok(Some(FilesConfig {
        field: asked.files_field.clone().or(of_preset),
        pages_field: asked.pages_field.clone(),
        tools,
        format: asked.file_calls,
        max_turns: asked.max_tool_turns,
        prompt: replaced_prompt(loaded, FILES_PROMPT_NAME)?,
        ..FilesConfig::new(loaded.resolve(dir))
    }))
}

/// What replaces the built-in prompt: `env.prompt`, `env.user_prompt`, or a file of its name in `prompts.dir`.
fn prompt(
    loaded: &LoadedConfig,
    asked: &Asked,
    preset: Option<Preset>,
) -> Result<Option<NamedPrompt>, Error> {
    if let Some(path) = &asked.prompt {
        let name = loaded.resolve(path).display().to_string();
        return Ok(Some(NamedPrompt { name, source: read(loaded, "prompt", path)? }));
    }
    if let Some(text) = &asked.user_prompt {
        let source = format!(
            "{{% block system %}}{{{{ skill }}}}{{% endblock %}}{{% block user %}}{text}{{% endblock %}}"
        );
        return Ok(Some(NamedPrompt { name: "env.user_prompt".to_owned(), source }));
    }
    let name = preset.map_or(ROLLOUT_PROMPT_NAME, Preset::prompt_name);
    Ok(replaced_prompt(loaded, name)?.map(|source| NamedPrompt { name: name.to_owned(), source }))
}

fn tools(loaded: &LoadedConfig, asked: &Asked) -> Result<Vec<ToolSpec>, Error> {
    let Some(path) = &asked.tools else { return Ok(Vec::new()) };
    let text = read(loaded, "list of tools", path)?;
    python_json::read(&text).map_err(|error| {
        let message = format!(
            "`env.tools` names {}, which is not a JSON list of objects with name, description and parameters: {error}",
            loaded.resolve(path).display()
        );
        Error::Env(EnvError::Configuration { message })
    })
}

fn extraction(asked: &Asked) -> Extraction {
    match asked.extract {
        TasksExtract::Whole => Extraction::Whole,
        TasksExtract::LastTag => Extraction::LastTag { tag: asked.extract_tag.clone() },
        TasksExtract::LastLine => Extraction::LastLine,
        TasksExtract::Regex => {
            Extraction::Regex { pattern: asked.extract_pattern.clone().unwrap_or_default() }
        }
        TasksExtract::Json => Extraction::Json { field: asked.extract_field.clone() },
    }
}

fn scorer(loaded: &LoadedConfig, asked: &Asked) -> Result<ScorerConfig, Error> {
    Ok(match asked.scorer {
        TasksScorer::EmF1 => ScorerConfig::EmF1,
        TasksScorer::Contains => ScorerConfig::Contains,
        TasksScorer::Exact => ScorerConfig::Exact { ignore_case: asked.ignore_case },
        TasksScorer::Choice => ScorerConfig::Choice { by: asked.choice_by },
        TasksScorer::Numeric => ScorerConfig::Numeric(numeric(asked)),
        TasksScorer::Anls => ScorerConfig::Anls { threshold: asked.anls_threshold },
        TasksScorer::Regex => ScorerConfig::Regex { pattern: asked.pattern.clone() },
        TasksScorer::JsonFields => ScorerConfig::JsonFields {
            fields: asked.json_fields.clone(),
            tolerance: asked.tolerance,
            ignore_case: asked.ignore_case,
        },
        TasksScorer::Rules => ScorerConfig::Rules { rules: asked.rules.clone() },
        TasksScorer::Rubric => ScorerConfig::Rubric(RubricConfig {
            rubric: match &asked.rubric_file {
                Some(path) => read(loaded, "rubric", path)?,
                None => asked.rubric.clone().unwrap_or_default(),
            },
            pass_score: asked.pass_score,
            prompt: replaced_prompt(loaded, JUDGE_PROMPT_NAME)?,
        }),
        TasksScorer::Command => ScorerConfig::Command(CommandConfig {
            command: asked.command.clone(),
            dir: loaded.base_dir(),
            pass_env: asked.pass_env.clone(),
            timeout: Duration::from_secs(asked.command_timeout_s),
            secrets: secrets::known(loaded),
        }),
        TasksScorer::OfficeQa => ScorerConfig::OfficeQa,
    })
}

fn numeric(asked: &Asked) -> NumericOptions {
    NumericOptions {
        tolerance: asked.tolerance,
        relative_tolerance: asked.relative_tolerance,
        units: asked.units,
        percent: asked.percent,
    }
}

fn read(loaded: &LoadedConfig, what: &'static str, path: &AskedPath) -> Result<String, Error> {
    let path = loaded.resolve(path);
    text_file::read(&path).map_err(|source| Error::Read { what, path, source })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, EnvConfig};

    #[test]
    fn a_preset_of_the_configuration_is_that_of_the_environment() {
        for preset in Preset::ALL {
            let text = format!(
                "[models]\ntarget = {{ kind = \"simulated\" }}\noptimizer = {{ kind = \"simulated\" }}\n\
                 [env]\nkind = \"tasks\"\ndata = \"d\"\npreset = \"{}\"\n",
                preset.as_str()
            );
            let loaded = Config::parse(&text, "x", &[]).unwrap_or_else(|error| panic!("{error}"));
            let EnvConfig::Tasks(asked) = &loaded.config.env else { panic!("not of kind tasks") };
            assert_eq!(config(&loaded, asked).unwrap(), preset.config("d"));
            // What the preset sets can be read back, and is said to be its.
            let shown = loaded.display_with_origins();
            assert!(shown.contains("# preset"), "{shown}");
            assert_eq!(Config::parse(&shown, "x", &[]).unwrap().config, loaded.config);
        }
    }
}
