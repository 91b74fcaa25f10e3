//! Models of a matrix by their names.

use crate::args::{DataArgs, Start};
use crate::command::CommandError;
use crate::data_start::further_settings;
use crate::start::load_start;
use skillrl::config::LoadedConfig;
use skillrl::matrix::{NamedModel, plain_name};
use skillrl::pipeline::OWN_TARGET;

/// The target of the configuration under this name.
pub(super) fn own(name: &str) -> NamedModel {
    NamedModel { name: name.to_owned(), target: OWN_TARGET.to_owned() }
}

/// The configuration with these models too: those of `[models.targets]`, models of the target's server, and those of other
/// providers by `PROVIDER/MODEL`.
///
/// # Errors
///
/// A name that means no model, and a configuration that is not valid with it, such as one without a price under a cap.
pub(super) fn add(
    (start, loaded): (Start, LoadedConfig),
    mut models: Vec<NamedModel>,
    names: &[String],
    data: &DataArgs,
) -> crate::Result<(Start, LoadedConfig, Vec<NamedModel>)> {
    let mut overrides = Vec::new();
    for name in names {
        let of_target = loaded.config.models.target.served().map(|target| target.model.as_str());
        if name == OWN_TARGET || of_target == Some(name) {
            models.push(own(name));
            continue;
        }
        if loaded.config.models.targets.contains_key(name) {
            models.push(NamedModel { name: name.clone(), target: name.clone() });
            continue;
        }
        // A dot would end the name of the section.
        let target = plain_name(name).replace('.', "-");
        let is_taken = models.iter().any(|model| model.target == target)
            || loaded.config.models.targets.contains_key(&target);
        if is_taken || target == OWN_TARGET {
            return Err(CommandError::new(format!(
                "`{name}` cannot be told from another model of the matrix"
            ))
            .with_hint("name it in a section [models.targets.NAME]")
            .into());
        }
        overrides.extend(further_settings(&loaded, (&target, name), data)?);
        models.push(NamedModel { name: name.clone(), target });
    }
    if overrides.is_empty() {
        return Ok((start, loaded, models));
    }
    let overrides = start.overrides.iter().cloned().chain(overrides).collect();
    let start = Start { overrides, ..start };
    let loaded = load_start(&start, true)?;
    Ok((start, loaded, models))
}
