//! `skillrl export`: a skill as a package to give away, a run as a bundle, or a trained policy for servers of models.

use crate::args::package::ExportArgs;
use crate::table::{counted, grouped};
use serde_json::json;
use skillrl::bundle::BundleOptions;
use skillrl::core::estimate_tokens;
use skillrl::export::{ExportOptions, export};
use std::path::Path;

pub(crate) fn run(args: &ExportArgs) -> crate::Result {
    match (&args.bundle, &args.policy, &args.to) {
        (Some(file), ..) => bundle(args, file),
        (None, Some(to), _) => policy(args, to),
        (None, None, Some(to)) => package(args, to),
        // The parser of arguments requires one of them.
        (None, None, None) => Ok(()),
    }
}

#[cfg(feature = "weights")]
fn policy(args: &ExportArgs, to: &Path) -> crate::Result {
    let options = skillrl::merged::MergeOptions {
        from: args.from.clone(),
        to: to.to_owned(),
        base: args.base.clone(),
        force: args.force,
    };
    let merged = skillrl::merged::merge(&options)?;
    if args.json {
        return super::print_json(&merged);
    }
    let of = match &merged.base {
        Some(base) => format!("{} merged into {}", merged.policy.display(), base.display()),
        None => merged.policy.display().to_string(),
    };
    super::print(&format!("wrote {} ({of}, {} bytes of weights)\n", to.display(), grouped(merged.bytes)))
}

#[cfg(not(feature = "weights"))]
fn policy(_: &ExportArgs, _: &Path) -> crate::Result {
    Err(skillrl::Error::LeftOut { what: "exporting policies".to_owned(), feature: "weights" }.into())
}

fn bundle(args: &ExportArgs, file: &Path) -> crate::Result {
    let options = BundleOptions {
        run: args.from.clone(),
        to: file.to_owned(),
        has_data: !args.no_data,
        force: args.force,
    };
    let bundled = skillrl::bundle::write(&options)?;
    for (key, file) in &bundled.left_out {
        super::say(&format!(
            "note: {} is not in the bundle; a replay elsewhere needs `--set {key}=PATH`",
            file.display()
        ));
    }
    super::say("note: the bundle holds the journal, and so everything that was sent to models");
    if args.json {
        return super::print_json(&bundled);
    }
    let files = counted(bundled.n_files as u64, "file");
    super::print(&format!("wrote {} ({files}, {} bytes)\n", file.display(), grouped(bundled.bytes)))
}

fn package(args: &ExportArgs, to: &Path) -> crate::Result {
    let options = ExportOptions {
        from: args.from.clone(),
        to: to.to_owned(),
        name: args.name.clone(),
        description: args.description.clone(),
        force: args.force,
    };
    let exported = export(&options)?;
    for warning in &exported.warnings {
        super::say(&format!("warning: SKILL.md:{}: {}", warning.line, warning.message));
    }
    let files: Vec<&str> = exported.package.files().map(|(path, ..)| path).collect();
    let n_tokens = estimate_tokens(exported.package.body());
    let (shown, hash) = (to.display(), exported.skill.hash());
    if args.json {
        let value = json!({"path": to, "skill_hash": hash, "files": files, "body_tokens": n_tokens});
        return super::print(&format!("{value}\n"));
    }
    let n_files = files.len();
    super::print(&format!(
        "wrote {shown} ({n_files} file{}, about {n_tokens} tokens of instructions, {hash})\n",
        if n_files == 1 { "" } else { "s" }
    ))
}
