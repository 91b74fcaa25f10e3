//! The variables that a program is passed by their names, and what must not be shown of them.

use super::environment::{inherited, variable};
use crate::secret::ApiKey;
use std::ffi::OsString;

/// Shorter values of variables are words rather than secrets.
const MIN_SECRET_CHARS: usize = 8;

/// What `pass_env` names.
#[derive(Debug, Clone)]
pub struct Passed {
    names: Vec<String>,
    secrets: Vec<ApiKey>,
}

impl Passed {
    /// The variables with these names; those that are not set here are not passed, see [`super::check_passed`].
    pub fn new(names: &[String]) -> Self {
        let values = names.iter().filter_map(|name| variable(name)?.into_string().ok());
        let secrets = values
            .filter(|value| value.trim().chars().count() >= MIN_SECRET_CHARS)
            .filter_map(|value| ApiKey::new(&value).ok())
            .collect();
        Self { names: names.to_vec(), secrets }
    }

    /// All that the program finds in its environment: these variables and [`super::BASE_VARIABLES`].
    pub fn environment(&self) -> impl Iterator<Item = (OsString, OsString)> {
        inherited(self.names.iter().map(String::as_str))
    }

    /// The text with `[key]` for the values of these variables, if they have 8 characters or more.
    ///
    /// A value of several lines stays.
    pub fn scrub(&self, text: String) -> String {
        self.secrets.iter().fold(text, |text, secret| secret.scrub(&text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Cargo sets these, and no test may set others: a process has one environment.
    #[test]
    fn values_of_passed_variables_are_not_shown() {
        let long = env!("CARGO_MANIFEST_DIR");
        let passed = Passed::new(&["CARGO_MANIFEST_DIR".to_owned(), "NO_SUCH_VARIABLE".to_owned()]);
        assert_eq!(passed.scrub(format!("it says {long}, twice {long}")), "it says [key], twice [key]");
        assert!(!format!("{passed:?}").contains(long));
        assert!(passed.environment().any(|(name, _)| name == "CARGO_MANIFEST_DIR"));
        assert!(!passed.environment().any(|(name, _)| name == "NO_SUCH_VARIABLE"));
    }

    #[test]
    fn short_values_are_words() {
        let passed = Passed::new(&["CARGO_PKG_VERSION".to_owned()]);
        let text = format!("version {}", env!("CARGO_PKG_VERSION"));
        assert_eq!(passed.scrub(text.clone()), text);
    }
}
