//! `skillrl init`: a configuration to start from.

use crate::args::InitArgs;
use skillrl::demo::DemoWorld;
use std::path::Path;

pub(crate) fn run(args: &InitArgs) -> anyhow::Result<()> {
    if let Some(dir) = &args.demo {
        write_demo(dir, args.world(), args.force)?;
        let config = dir.join(skillrl::demo::CONFIG_FILE);
        return super::print(&format!(
            "wrote the demo to {}\nnext: skillrl train {}\n",
            dir.display(),
            config.display()
        ));
    }
    let parent = args.path.parent().unwrap_or(Path::new(""));
    let Some(name) = args.path.file_name().and_then(|name| name.to_str()) else {
        let message = format!("{} is not the path of a file", args.path.display());
        return Err(super::UsageError::new(message).into());
    };
    let kind = match args.kind.as_str() {
        "qa" => Vec::new(),
        kind => vec![format!("env.kind={kind}")],
    };
    let text = skillrl::config::default_file(&kind).map_err(skillrl::Error::Config)?;
    super::write_files(parent, [(name, text.as_str())], args.force)?;
    super::print(&format!(
        "wrote {0}\nnext: say in it where your data is and which models to use, then: skillrl train {0}\n",
        args.path.display()
    ))
}

/// Writes the demo's files.
pub(super) fn write_demo(dir: &Path, world: DemoWorld, force: bool) -> anyhow::Result<()> {
    super::write_files(dir, world.files().iter().map(|file| (file.path, file.text)), force)?;
    Ok(())
}
