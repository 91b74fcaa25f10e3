//! The program that `init --kind exec` writes: an agent with tasks and scores, to be replaced by a person's own.

use std::path::Path;

/// What a configuration of this program says besides: its agent asks the model that it is served.
pub(super) const AROUND: [&str; 2] = ["env.endpoint=true", "env.skill_delivery=inline"];

/// The program; also the setting of a person who accepts what is proposed.
pub(super) const PROGRAM_SETTING: &str = "env.program=[\"python3\",\"env.py\"]";

/// The helper is that of `examples/exec-python/`.
const FILES: [(&str, &str); 2] =
    [("env.py", include_str!("exec/env.py")), ("skillrl_env.py", include_str!("exec/skillrl_env.py"))];

/// Writes the files that are not there, and returns their names as the end of a sentence.
pub(super) fn write(dir: &Path) -> crate::Result<String> {
    let missing: Vec<(&str, &str)> = FILES.into_iter().filter(|(name, _)| !dir.join(name).exists()).collect();
    crate::command::write_files(dir, missing.iter().copied(), false)?;
    Ok(missing.iter().map(|(name, _)| format!(", {name}")).collect())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_helper_is_that_of_the_examples() {
        let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/exec-python/skillrl_env.py");
        assert_eq!(std::fs::read_to_string(example).unwrap(), include_str!("exec/skillrl_env.py"));
    }
}
