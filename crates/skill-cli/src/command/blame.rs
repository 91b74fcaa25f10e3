//! `skillrl blame`: where each line of a skill comes from.

use crate::args::BlameArgs;
use crate::error::OfFile as _;
use crate::run_text::provenance::described;
use skillrl::core::{SkillDoc, StepIdx};
use skillrl::llm::text_file;
use skillrl::pipeline::RunReader;
use skillrl::pipeline::kind::trains_bank;
use skillrl::pipeline::provenance::{Version, blame};
use std::path::{Path, PathBuf};

pub(crate) fn run(args: &BlameArgs) -> crate::Result {
    let (dir, file) = run_and_file(args)?;
    if trains_bank(&dir) {
        return crate::bank_run::blame(&dir, args.step, args.json);
    }
    let run = RunReader::open(&dir)?;
    let text = file.map(|file| text_file::read(&file).reading(format_args!("the skill {}", file.display())));
    let text = text.transpose()?.map(SkillDoc::new);
    let version = match (&text, args.step) {
        (Some(text), _) => Version::Text(text),
        (None, Some(step)) => Version::After(StepIdx(step)),
        (None, None) => Version::Best,
    };
    let blame = blame(&run, version)?;
    if args.json {
        return super::print_pretty_json(&blame);
    }
    super::print_wrapped(&described(&blame, args.full))
}

/// The run that is asked about, and the file if it is a file that is asked about.
fn run_and_file(args: &BlameArgs) -> crate::Result<(PathBuf, Option<PathBuf>)> {
    if let Some(run) = &args.run {
        return Ok((run.clone(), Some(args.path.clone())));
    }
    if !args.path.is_file() {
        return Ok((args.path.clone(), None));
    }
    let holds_run = |dir: &&Path| dir.join("config.json").is_file();
    let parents = args.path.ancestors().skip(1);
    let parents = parents.map(|dir| if dir.as_os_str().is_empty() { Path::new(".") } else { dir });
    match parents.take(3).collect::<Vec<_>>().iter().find(|dir| holds_run(dir)) {
        Some(dir) => Ok((dir.to_path_buf(), Some(args.path.clone()))),
        None => {
            let message = format!("{} is not in a run; name the run with --run DIR", args.path.display());
            Err(super::CommandError::new(message).into())
        }
    }
}
