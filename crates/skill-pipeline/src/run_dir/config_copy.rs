//! `config.toml` of a run: the text of its configuration file, after comments with what else decides its results.

use crate::records::RunIdentity;
use std::fmt::Write as _;

/// The prefix of these comments, by which a resumed run finds and replaces them.
const MARK: &str = "#: ";

/// The text with these settings of the command line, and with the version, the seed and the hashes of the data; those of
/// an earlier copy are left out.
pub fn config_copy(text: &str, set: &[String], identity: &RunIdentity) -> String {
    let mut copy = format!(
        "{MARK}Written by skillrl {}. This file with `config.json` beside it repeats the run in another directory.\n",
        env!("CARGO_PKG_VERSION")
    );
    for (key, value) in identity.iter().filter(|(key, _)| *key == "run.seed" || key.starts_with("data.")) {
        let _ = writeln!(copy, "{MARK}{key}: {value}");
    }
    for setting in set {
        let _ = writeln!(copy, "{MARK}--set {}", setting.replace(['\n', '\r'], " "));
    }
    copy.push_str(&without_comments(text));
    copy
}

/// The text of the configuration file in a copy.
pub fn without_comments(copy: &str) -> String {
    copy.split_inclusive('\n').skip_while(|line| line.starts_with(MARK)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_copy_of_a_copy_has_its_comments_once() {
        let text = "# Mine.\n[run]\ndir = \"r\"\n";
        let identity = RunIdentity::from_iter([
            ("data.val".to_owned(), json!("abc")),
            ("run.seed".to_owned(), json!(7)),
            ("train.epochs".to_owned(), json!(2)),
        ]);
        let copy = config_copy(text, &["train.epochs=2".to_owned()], &identity);
        assert!(copy.ends_with(text), "{copy}");
        for line in ["#: data.val: \"abc\"\n", "#: run.seed: 7\n", "#: --set train.epochs=2\n"] {
            assert!(copy.contains(line), "{copy}");
        }
        assert_eq!(config_copy(&copy, &["train.epochs=2".to_owned()], &identity), copy);
    }
}
