//! `skillrl bank diff`: what changed between two banks, or between two versions of a skill.

use crate::args::bank::BankDiffArgs;
use crate::banks::diff::{of_banks, of_versions};
use crate::banks::{self, skill_and_version};
use skillrl::bank::Bank;
use std::path::Path;

pub(super) fn run(args: &BankDiffArgs) -> crate::Result {
    let before = banks::read(&args.bank)?.bank;
    match &args.to {
        Some(to) => of_versions(&before, &args.bank, [&args.other, to], args.json),
        None => banks(args, &before),
    }
}

fn banks(args: &BankDiffArgs, before: &Bank) -> crate::Result {
    let other = Path::new(&args.other);
    if !other.exists() && skill_and_version(before, &args.bank, &args.other).is_ok() {
        let message = format!("`{}` is a version of a skill, and is compared with another one", args.other);
        let hint = format!("skillrl bank diff {} {} VERSION", args.bank.display(), args.other);
        return Err(crate::error::CommandError::new(message).with_hint(hint).into());
    }
    of_banks(before, &banks::read(other)?.bank, args.json)
}
