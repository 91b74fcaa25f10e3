//! `list_configurations`.

use crate::caps::Caps;
use crate::error::ToolError;
use crate::places;
use crate::shared::Shared;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use skill_llm::regular_file;
use skillrl::config::Config;
use std::path::Path;
use std::sync::Arc;

pub(super) const DESCRIPTION: &str = "\
Lists the configuration files that a run can be started from: what the tasks are, which run each belongs to, and its \
caps on spending. Reads files and costs nothing.";

/// How far below the directory a configuration may be.
const MAX_DEPTH: usize = 3;
/// The most configurations that are listed.
const MAX_LISTED: usize = 60;
/// The most entries of directories that are looked at.
const MAX_ENTRIES: usize = 20_000;
/// What a configuration has and other files in TOML have not, as a rule.
const MARK: &str = "[models";
/// A longer file is none of ours.
const MAX_BYTES: u64 = 1_000_000;

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {}

#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Output {
    /// The directory below which configurations are.
    directory: String,
    /// The configurations, by name.
    configurations: Vec<Listed>,
    /// There are more than are listed.
    is_cut: bool,
}

/// A configuration file.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct Listed {
    /// Its path below the directory, which estimate_run and start_run take.
    config: String,
    /// What the tasks are.
    environment: Option<String>,
    /// The run that it makes; null if that is outside of the runs directory, where it cannot be started from here.
    run: Option<String>,
    /// What its run may spend.
    caps: Option<Caps>,
    /// What is wrong with it: start_run refuses it.
    problem: Option<String>,
}

pub(super) async fn run(shared: Arc<Shared>, _: Input) -> Result<Output, ToolError> {
    super::blocking(move || {
        let mut search = Search { n_entries: 0, names: Vec::new(), is_cut: false };
        search.look(shared.configs.root(), "", 0);
        search.names.sort();
        let listed = search.names.iter().filter_map(|name| listed(&shared, name));
        Ok(Output {
            directory: shared.configs.root().display().to_string(),
            configurations: listed.collect(),
            is_cut: search.is_cut,
        })
    })
    .await
}

struct Search {
    n_entries: usize,
    names: Vec<String>,
    is_cut: bool,
}

impl Search {
    /// A directory that cannot be read has nothing to offer.
    fn look(&mut self, dir: &Path, name: &str, depth: usize) {
        let Ok(entries) = std::fs::read_dir(dir) else { return };
        for entry in entries.flatten() {
            self.n_entries += 1;
            if self.n_entries > MAX_ENTRIES || self.names.len() >= MAX_LISTED {
                self.is_cut = true;
                return;
            }
            let file_name = entry.file_name();
            let (Some(own), Ok(kind)) = (file_name.to_str(), entry.file_type()) else { continue };
            let below = if name.is_empty() { own.to_owned() } else { format!("{name}/{own}") };
            // A run keeps a copy of its configuration, which is not there to be started from.
            let is_of_run = own == "config.toml" && dir.join("config.json").exists();
            if own.starts_with('.') || is_of_run {
                continue;
            } else if kind.is_dir() && depth < MAX_DEPTH {
                self.look(&entry.path(), &below, depth + 1);
            } else if kind.is_file() && own.ends_with(".toml") && has_mark(&entry.path()) {
                self.names.push(below);
            }
        }
    }
}

fn has_mark(path: &Path) -> bool {
    let is_short = std::fs::metadata(path).is_ok_and(|metadata| metadata.len() <= MAX_BYTES);
    is_short && regular_file::read_to_string(path).is_ok_and(|text| text.contains(MARK))
}

fn listed(shared: &Shared, name: &str) -> Option<Listed> {
    let path = shared.configs.find(name).ok()?;
    Some(match Config::load(&path, &[]) {
        Ok(loaded) => {
            let run = places::name_of_run(shared.runs.root(), &loaded.run_dir());
            let problem = run.is_none().then(|| places::outside(shared.runs.root(), &loaded.run_dir()));
            Listed {
                config: name.to_owned(),
                environment: Some(loaded.config.env.kind().to_owned()),
                run,
                caps: Some(loaded.config.budget.into()),
                problem,
            }
        }
        Err(error) => Listed {
            config: name.to_owned(),
            environment: None,
            run: None,
            caps: None,
            problem: Some(skill_llm::error::with_causes(&error)),
        },
    })
}
