//! What a program finds in its environment.
//!
//! # Invariants
//!
//! - A program that plays a model sees only the environment variables that are named, and their values are in no
//!   reply, message or trace. Held by `a_program_sees_the_variables_that_are_named_and_no_others`,
//!   `the_value_of_a_named_variable_is_nowhere_to_be_seen`.

use std::ffi::{OsStr, OsString};

/// The environment variables that every program gets, where they are set: what finds programs, libraries, directories
/// and the language of the user, and no keys.
pub const BASE_VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "TEMP",
    "TMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "VIRTUAL_ENV",
    "CONDA_PREFIX",
    "PYENV_ROOT",
    "PYENV_VERSION",
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_PATH",
    "JAVA_HOME",
    "LD_LIBRARY_PATH",
    "DYLD_LIBRARY_PATH",
    "CUDA_VISIBLE_DEVICES",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    // Windows.
    "SystemRoot",
    "SystemDrive",
    "windir",
    "ComSpec",
    "PATHEXT",
    "APPDATA",
    "LOCALAPPDATA",
    "USERPROFILE",
    "ProgramData",
    "ProgramFiles",
];

/// The variables of [`BASE_VARIABLES`] and those that are named, with the values that they have here.
///
/// A name that cannot be a variable's names none.
pub(super) fn inherited<'a>(
    passed: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = (OsString, OsString)> {
    let names: Vec<&str> = BASE_VARIABLES.iter().copied().chain(passed).collect();
    names
        .into_iter()
        .filter_map(|name| Some((OsString::from(name), variable(name)?)))
        .collect::<Vec<_>>()
        .into_iter()
}

/// A name and a value as the system takes them.
pub fn pair(name: &str, value: &str) -> (OsString, OsString) {
    (OsString::from(name), OsStr::new(value).to_owned())
}

/// Whether a variable can have this name.
pub fn is_variable_name(name: &str) -> bool {
    !name.is_empty() && !name.contains(['=', '\0'])
}

/// Checks the names of variables that a program is to be passed (`pass_env`).
///
/// # Errors
///
/// A name that no variable can have, or a variable that is not set here: the program would miss it silently.
pub fn check_passed(names: &[String]) -> Result<(), String> {
    if let Some(name) = names.iter().find(|name| !is_variable_name(name)) {
        return Err(format!("`pass_env`: {name:?} cannot be the name of an environment variable"));
    }
    match names.iter().find(|name| variable(name).is_none()) {
        Some(name) => Err(format!("`pass_env` names {name}, which is not set")),
        None => Ok(()),
    }
}

/// The value of a variable; the look-up would panic on some platforms for names that cannot be one.
pub(super) fn variable(name: &str) -> Option<OsString> {
    if is_variable_name(name) { std::env::var_os(name) } else { None }
}
