//! Arguments of the commands about skill packages.

use super::NEWEST;
use clap::Args;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// A run, whose best skill is taken, or a skill: a folder with a SKILL.md, or a Markdown file.
    ///
    /// Without it, the newest run.
    #[arg(value_name = "RUN|SKILL", default_value = NEWEST, hide_default_value = true)]
    pub(crate) from: PathBuf,

    /// The folder of the package; the specification wants it to have the skill's name.
    #[arg(long = "out", visible_alias = "to", value_name = "DIR", required_unless_present_any = ["bundle", "policy"])]
    pub(crate) to: Option<PathBuf>,

    /// Write the whole run into this archive (.tar.gz), with its data.
    ///
    /// It has skill, report, journal, and the data that its configuration names. `skillrl check FILE` and
    /// `skillrl replay FILE` take it on another machine.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["to", "name", "description"])]
    pub(crate) bundle: Option<PathBuf>,

    /// Write the trained policy into this folder, merged as safetensors (f16).
    ///
    /// It has tokenizer and chat template, as vLLM, llama.cpp and transformers load it. RUN may be a
    /// policy's folder.
    #[arg(long, value_name = "DIR", conflicts_with_all = ["to", "name", "description", "bundle"])]
    pub(crate) policy: Option<PathBuf>,

    /// The model that the policy's adapter was trained on, if it was moved.
    #[arg(long, value_name = "DIR", requires = "policy")]
    pub(crate) base: Option<PathBuf>,

    /// Leave the data out of the bundle; the journal still holds what was sent to models.
    #[arg(long, requires = "bundle")]
    pub(crate) no_data: bool,

    /// The skill's name; without it the one that it has, or else that of the folder.
    #[arg(long)]
    pub(crate) name: Option<String>,

    /// What the skill does and when to use it; without it the description that it has.
    #[arg(long, value_name = "TEXT")]
    pub(crate) description: Option<String>,

    /// Replace a package that is there.
    #[arg(long)]
    pub(crate) force: bool,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct LintArgs {
    /// A skill: a folder with a SKILL.md, or a Markdown file; or a run, whose best skill is taken.
    ///
    /// Without it, the newest run.
    #[arg(value_name = "PATH", default_value = NEWEST, hide_default_value = true)]
    pub(crate) path: PathBuf,

    /// A configuration, whose training items the skill must not be copied from; a run brings its own.
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Ask the optimizer of this configuration for contradictions: one call, whose size is said first.
    #[arg(long, value_name = "FILE")]
    pub(crate) with_model: Option<PathBuf>,

    /// Override one setting of these configurations; may be given more than once.
    #[arg(long = "set", value_name = "KEY=VALUE")]
    pub(crate) overrides: Vec<String>,

    /// Fail on warnings too.
    #[arg(long)]
    pub(crate) strict: bool,

    /// Write one JSON object.
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ImportArgs {
    /// Configuration of SkillOpt or krill, run of SkillOpt or skillrl 1.0, or GEPA candidate.
    #[arg(value_name = "FROM")]
    pub(crate) from: PathBuf,

    /// Directory to write; a name ending in .toml or .md is a configuration or a skill.
    #[arg(long = "out", visible_alias = "to", value_name = "PATH")]
    pub(crate) to: PathBuf,

    /// Which of several candidates of GEPA, counted from 0; without it the one with the best score.
    #[arg(long, value_name = "N")]
    pub(crate) candidate: Option<usize>,

    /// Replace files that are there; a run directory never is.
    #[arg(long)]
    pub(crate) force: bool,

    /// Write one JSON object with everything that was mapped, and everything that has no counterpart.
    #[arg(long)]
    pub(crate) json: bool,
}
