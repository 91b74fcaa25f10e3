//! `skillrl config prompts`: the built-in prompts as files.

use std::path::Path;

pub(crate) fn export(dir: &Path, force: bool) -> crate::Result {
    let files: Vec<(String, &str)> =
        skillrl::built_in_prompts().map(|(name, source)| (format!("{name}.md"), source)).collect();
    let files = files.iter().map(|(name, source)| (name.as_str(), *source));
    let written = super::write_files(dir, files, force)?;
    let written: String = written.iter().map(|path| format!("wrote {}\n", path.display())).collect();
    super::print(&format!(
        "{written}change them, and name the directory in the configuration:\n\n[prompts]\ndir = \"{}\"\n",
        dir.display()
    ))
}
