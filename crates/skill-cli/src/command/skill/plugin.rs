//! `skillrl export DIR --plugin`: skills as a plugin.

use super::session::skills_at;
use crate::args::skill::PluginArgs;
use crate::command::{CommandError, print_wrapped};
use crate::error::OfFile as _;
use skill_agents::plugin::{Plugin, plugin_files, write_plugin};

pub(crate) fn run(args: &PluginArgs) -> crate::Result {
    let skills = skills_at(&args.skills)?;
    let is_taken = args.to.read_dir().is_ok_and(|mut entries| entries.next().is_some());
    if is_taken && !args.force {
        let message = format!("{} is not empty; --force writes into it all the same", args.to.display());
        return Err(CommandError::new(message).into());
    }
    let names: Vec<&str> = skills.iter().map(|skill| skill.folder.as_str()).collect();
    let plugin = Plugin {
        name: args.name.clone().unwrap_or_else(|| skillrl::export::folder_name(&args.to)),
        version: args.version_of_plugin.clone(),
        description: args.description.clone().unwrap_or_else(|| format!("Skills: {}.", names.join(", "))),
    };
    let files = plugin_files(&plugin, &skills)
        .map_err(|fault| CommandError::new(fault.to_string()).with_hint("name it with --name"))?;
    write_plugin(&args.to, &files).writing(&args.to)?;
    print_wrapped(&format!(
        "the plugin {:?} with {} {} is in {}\n",
        plugin.name,
        skills.len(),
        if skills.len() == 1 { "skill" } else { "skills" },
        args.to.display()
    ))
}
