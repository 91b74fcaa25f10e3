//! What a program finds in its environment.

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
pub fn inherited<'a>(
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

/// The value of a variable; the look-up would panic on some platforms for names that cannot be one.
pub(crate) fn variable(name: &str) -> Option<OsString> {
    if name.is_empty() || name.contains(['=', '\0']) { None } else { std::env::var_os(name) }
}
