//! What a shell wants to have of a command: completions and man pages, made from the command line itself.

use crate::args::Cli;
use crate::error::OfFile as _;
use clap::CommandFactory as _;
use clap_complete::Shell;
use std::path::Path;

pub(crate) fn completions(shell: Shell) -> crate::Result {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "skillrl", &mut script);
    super::print(&String::from_utf8_lossy(&script))
}

pub(crate) fn man_pages(dir: &Path) -> crate::Result {
    std::fs::create_dir_all(dir).trying_to(format_args!("create {}", dir.display()))?;
    clap_mangen::generate_to(Cli::command(), dir)
        .trying_to(format_args!("write man pages into {}", dir.display()))?;
    super::print(&format!("{}\n", dir.join("skillrl.1").display()))
}
