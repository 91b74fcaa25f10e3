//! `skillrl skill`: skills where people use them.

mod body;
mod cases;
mod check;
mod ended;
mod eval;
mod loads;
mod optimizer;
mod plugin;
mod session;
mod train;
mod triggers;
mod wait;

use crate::args::skill::SkillCommand;

pub(crate) fn run(command: &SkillCommand) -> crate::Result {
    match command {
        SkillCommand::Check(args) => check::run(args),
        SkillCommand::Triggers(args) => triggers::run(args),
        SkillCommand::Plugin(args) => plugin::run(args),
        SkillCommand::Train(args) => train::run(args),
        SkillCommand::Eval(args) => eval::run(args),
        SkillCommand::Cases(args) => cases::run(args),
        SkillCommand::Loads(args) => loads::run(args),
    }
}
