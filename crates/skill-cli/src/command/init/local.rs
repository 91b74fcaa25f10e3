//! A configuration whose models run on this machine.

use std::path::Path;

/// The settings of both models; paths in the file are relative to the directory that it is in.
#[cfg(feature = "weights")]
pub(super) fn settings(model: &Path, parent: &Path) -> crate::Result<Vec<String>> {
    use crate::error::OfFile as _;
    if !model.exists() {
        let message = format!("{} does not exist", model.display());
        let hint = "name a GGUF file, or a folder with safetensors";
        return Err(crate::command::CommandError::new(message).with_hint(hint).into());
    }
    let is_here = parent.as_os_str().is_empty();
    let path =
        if is_here { model.to_path_buf() } else { std::path::absolute(model).reading(model.display())? };
    let path = path.display();
    let of_role = |role: &str| {
        [
            format!("models.{role}.kind=local"),
            format!("models.{role}.path={path}"),
            // A stage that asks for JSON reads what comes as well as it can.
            format!("models.{role}.response_schema=ignore"),
        ]
    };
    Ok(["target", "optimizer"].into_iter().flat_map(of_role).collect())
}

#[cfg(not(feature = "weights"))]
pub(super) fn settings(_: &Path, _: &Path) -> crate::Result<Vec<String>> {
    Err(crate::command::not_built_in("local models"))
}
