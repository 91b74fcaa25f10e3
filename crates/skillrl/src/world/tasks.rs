//! From `[env]` with `kind = "tasks"` to its environment.

use super::{Around, wrong};
use crate::config::key::declare::Fill as _;
use crate::config::{ConfigPath, TasksConfig as Asked, TasksExtract, TasksScorer};
use crate::error::Error;
use skill_core::{RatioSplit, python_json};
use skill_envs::Split;
use skill_envs::choices::SandboxKind;
use skill_envs::score::NumericOptions;
use skill_envs::tasks::{
    CommandConfig, Extraction, FILES_PROMPT_NAME, FileTool, FilesConfig, JUDGE_PROMPT_NAME, NamedPrompt,
    Preset, ROLLOUT_PROMPT_NAME, RubricConfig, ScorerConfig, Splitting, TasksConfig, TasksEnv, TasksSettings,
};
use skill_llm::{ChatModel, ToolSpec, text_file};
use std::sync::Arc;
use std::time::Duration;

/// The rubric of a judge, from its file if there is one.
pub(super) fn rubric(text: Option<&str>, file: Option<&ConfigPath>) -> Result<String, Error> {
    match file {
        Some(path) => read("rubric", path),
        None => Ok(text.unwrap_or_default().to_owned()),
    }
}

/// The environment of a person's own data.
pub(super) fn load(
    config: &TasksConfig,
    judge: Option<Arc<dyn ChatModel>>,
    around: &Around<'_>,
) -> Result<TasksEnv, Error> {
    let env = TasksEnv::load(config).map_err(|error| around.error(error))?;
    Ok(match judge {
        Some(judge) => env.with_judge(judge),
        None => env,
    })
}

/// The settings of the environment.
pub(super) fn config(asked: &Asked, around: &Around<'_>) -> Result<TasksConfig, Error> {
    let preset = asked.preset;
    let mut config = TasksConfig {
        splitting: match (&asked.split_field, &asked.split_ids) {
            (Some(field), _) => Splitting::Field(field.clone()),
            (None, Some(lists)) => Splitting::Ids(lists.to_path()),
            (None, None) => Splitting::PartsOrRatio(RatioSplit {
                ratio: asked.split_ratio,
                rule: asked.split_rule,
                seed: asked.split_seed,
            }),
        },
        optional: if around.test_is_optional { vec![Split::Test] } else { Vec::new() },
        image_dir: asked.image_dir.as_ref().map(ConfigPath::to_path),
        files: files(asked, preset, around)?,
        choice_seed: asked.shuffle_choices.then_some(asked.choice_seed),
        settings: TasksSettings {
            prompt: prompt(asked, preset, around)?,
            tools: tools(asked)?,
            max_tokens: asked.max_tokens,
            extraction: extraction(asked),
            scorer: scorer(asked.scorer, asked, around)?,
            guard: guard(asked, around)?,
        },
        ..TasksConfig::new(asked.data.to_path())
    };
    asked.fill(&mut config);
    Ok(config)
}

/// What the agent may look into.
fn files(asked: &Asked, preset: Option<Preset>, around: &Around<'_>) -> Result<Option<FilesConfig>, Error> {
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
        prompt: around.replaced(FILES_PROMPT_NAME)?,
        ..FilesConfig::new(dir.to_path())
    }))
}

/// What replaces the built-in prompt: `env.prompt`, `env.user_prompt`, or a file of its name in `prompts.dir`.
fn prompt(asked: &Asked, preset: Option<Preset>, around: &Around<'_>) -> Result<Option<NamedPrompt>, Error> {
    if let Some(path) = &asked.prompt {
        let name = path.to_path().display().to_string();
        return Ok(Some(NamedPrompt { name, source: read("prompt", path)? }));
    }
    if let Some(text) = &asked.user_prompt {
        let source = format!(
            "{{% block system %}}{{{{ skill }}}}{{% endblock %}}{{% block user %}}{text}{{% endblock %}}"
        );
        return Ok(Some(NamedPrompt { name: "env.user_prompt".to_owned(), source }));
    }
    let name = preset.map_or(ROLLOUT_PROMPT_NAME, Preset::prompt_name);
    Ok(around.replaced(name)?.map(|source| NamedPrompt { name: name.to_owned(), source }))
}

fn tools(asked: &Asked) -> Result<Vec<ToolSpec>, Error> {
    let Some(path) = &asked.tools else { return Ok(Vec::new()) };
    let text = read("list of tools", path)?;
    python_json::read(&text).map_err(|error| {
        wrong(format!(
            "`env.tools` names {}, which is not a JSON list of objects with name, description and parameters: {error}",
            path.to_path().display()
        ))
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

/// The second scorer that `gate.guard` names.
fn guard(asked: &Asked, around: &Around<'_>) -> Result<Option<ScorerConfig>, Error> {
    let Some(name) = around.guard else { return Ok(None) };
    let can_guard = |kind: &TasksScorer| *kind != asked.scorer;
    let found = TasksScorer::parse(name).filter(can_guard).ok_or_else(|| {
        let known = TasksScorer::ALL.iter().filter(|kind| can_guard(kind)).map(|kind| kind.as_str());
        let known: Vec<&str> = known.collect();
        wrong(format!("`gate.guard` is {name:?}; a second scorer is one of {}", known.join(", ")))
    })?;
    scorer(found, asked, around).map(Some)
}

fn scorer(kind: TasksScorer, asked: &Asked, around: &Around<'_>) -> Result<ScorerConfig, Error> {
    Ok(match kind {
        TasksScorer::EmF1 => ScorerConfig::EmF1,
        TasksScorer::Contains => ScorerConfig::Contains,
        TasksScorer::LabelSet => ScorerConfig::LabelSet,
        TasksScorer::Exact => ScorerConfig::Exact { ignore_case: asked.ignore_case },
        TasksScorer::Choice => ScorerConfig::Choice { by: asked.choice_by },
        TasksScorer::Numeric => ScorerConfig::Numeric(NumericOptions {
            tolerance: asked.tolerance,
            relative_tolerance: asked.relative_tolerance,
            units: asked.units,
            percent: asked.percent,
        }),
        TasksScorer::Anls => ScorerConfig::Anls { threshold: asked.anls_threshold },
        TasksScorer::Regex => ScorerConfig::Regex { pattern: asked.pattern.clone() },
        TasksScorer::JsonFields => ScorerConfig::JsonFields {
            fields: asked.json_fields.clone(),
            tolerance: asked.tolerance,
            ignore_case: asked.ignore_case,
        },
        TasksScorer::Rules => ScorerConfig::Rules { rules: asked.rules.clone() },
        TasksScorer::Rubric => ScorerConfig::Rubric(RubricConfig {
            rubric: rubric(asked.rubric.as_deref(), asked.rubric_file.as_ref())?,
            pass_score: asked.pass_score,
            prompt: around.replaced(JUDGE_PROMPT_NAME)?,
        }),
        TasksScorer::Command => ScorerConfig::Command(CommandConfig {
            command: asked.command.clone(),
            dir: around.dir.clone(),
            pass_env: asked.pass_env.clone(),
            timeout: Duration::from_secs(asked.command_timeout_s),
            sandbox: match asked.sandbox {
                None | Some(SandboxKind::Off) => false,
                Some(SandboxKind::Auto) => true,
                Some(SandboxKind::Container) => {
                    return Err(wrong(
                        "`env.sandbox` is \"container\", and the command of a scorer runs in bwrap (\"auto\") or outside"
                            .to_owned(),
                    ));
                }
            },
            secrets: around.secrets.clone(),
        }),
        TasksScorer::OfficeQa => ScorerConfig::OfficeQa,
    })
}

fn read(what: &'static str, path: &ConfigPath) -> Result<String, Error> {
    let path = path.to_path();
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
            assert_eq!(config(asked, &Around::of(&loaded)).unwrap(), preset.config("d"));
            // What the preset sets can be read back, and is said to be its.
            let shown = loaded.display_with_origins();
            assert!(shown.contains("# preset"), "{shown}");
            assert_eq!(Config::parse(&shown, "x", &[]).unwrap().config, loaded.config);
        }
    }
}
