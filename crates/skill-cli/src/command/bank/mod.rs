//! `skillrl bank`: looks at skill banks, and changes them as a person wants.

mod change;
pub(crate) mod collect;
mod diff;
pub(crate) mod distill;
mod log;
mod show;
mod task;
mod transfer;

use crate::args::bank::BankCommand;
use crate::banks::blame::of_bank;
use change::Action;

pub(crate) fn run(command: &BankCommand) -> crate::Result {
    match command {
        BankCommand::Collect(args) => collect::run(args),
        BankCommand::Distill(args) => distill::run(args),
        BankCommand::Show(args) => show::run(args),
        BankCommand::Log(args) => log::run(args),
        BankCommand::Diff(args) => diff::run(args),
        BankCommand::Blame(args) => of_bank(&args.bank.bank, args.id.as_deref(), args.json),
        BankCommand::Pin(args) => change::run(args, Action::Pin),
        BankCommand::Unpin(args) => change::run(args, Action::Unpin),
        BankCommand::Retire(args) => change::run(args, Action::Retire),
        BankCommand::Restore(args) => change::run(args, Action::Restore),
        BankCommand::Import(args) => transfer::import(args),
        BankCommand::Export(args) => transfer::export(args),
    }
}
