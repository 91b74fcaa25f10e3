//! `skillrl export`: a skill as a package to give away.

use crate::args::package::ExportArgs;
use serde_json::json;
use skillrl::core::estimate_tokens;
use skillrl::export::{ExportOptions, export};
use std::io::Write as _;

pub(crate) fn run(args: &ExportArgs) -> crate::Result {
    let options = ExportOptions {
        from: args.from.clone(),
        to: args.to.clone(),
        name: args.name.clone(),
        description: args.description.clone(),
        force: args.force,
    };
    let exported = export(&options)?;
    for warning in &exported.warnings {
        writeln!(anstream::stderr(), "warning: SKILL.md:{}: {}", warning.line, warning.message)
            .unwrap_or_default();
    }
    let files: Vec<&str> = exported.package.files().map(|(path, ..)| path).collect();
    let n_tokens = estimate_tokens(exported.package.body());
    let (to, hash) = (args.to.display(), exported.skill.hash());
    if args.json {
        let value = json!({"path": args.to, "skill_hash": hash, "files": files, "body_tokens": n_tokens});
        return super::print(&format!("{value}\n"));
    }
    let n_files = files.len();
    super::print(&format!(
        "wrote {to} ({n_files} file{}, about {n_tokens} tokens of instructions, {hash})\n",
        if n_files == 1 { "" } else { "s" }
    ))
}
