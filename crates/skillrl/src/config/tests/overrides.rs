use super::{MINIMAL, lookup, parse};
use crate::config::{Config, ConfigError, EnvConfig, default_file};
use std::path::{Path, PathBuf};

#[test]
fn the_last_override_wins_over_the_file() {
    let loaded = parse(&format!("{MINIMAL}[train]\nepochs = 2\n"), &["train.epochs=3", "train.epochs=5"]);
    assert_eq!(loaded.config.train.epochs, 5);
}

#[test]
fn a_field_of_a_free_table_leaves_the_others() {
    let text = format!("{MINIMAL}[models.target.extra_body]\na = 1\nb.c = 2\nb.d = 3\n");
    let loaded = parse(&text, &["models.target.extra_body.b.c=9"]);
    assert_eq!(
        lookup(&loaded.config, "models.target.extra_body").to_string(),
        r#"{"a":1,"b":{"c":9,"d":3}}"#
    );
}

#[test]
fn dotted_keys_and_inline_tables_are_sections_too() {
    let text = "models.target.model = \"m\"\nmodels.optimizer = { model = \"n\" }\nenv.data = \"d\"\ntrain.epochs = 2\n";
    let loaded = parse(text, &[]);
    assert_eq!(loaded.config.train.epochs, 2);
    assert_eq!(lookup(&loaded.config, "models.optimizer.model"), "n");
}

#[test]
fn line_ends_and_a_byte_order_mark_do_not_matter() {
    let text = format!("\u{feff}{}", MINIMAL.replace('\n', "\r\n"));
    assert_eq!(parse(&text, &[]).config, parse(MINIMAL, &[]).config);
}

#[test]
fn paths_are_relative_to_who_gave_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("skillrl.toml");
    std::fs::write(&path, MINIMAL).unwrap();
    let load = |overrides: &[&str]| {
        let overrides: Vec<_> = overrides.iter().map(|text| (*text).to_owned()).collect();
        Config::load(&path, &overrides).unwrap()
    };
    let loaded = load(&[]);
    let EnvConfig::Qa(qa) = &loaded.config.env else { panic!("not of kind qa") };
    assert_eq!(qa.data.to_path(), directory.path().join("data"));
    assert_eq!(loaded.run_dir(), directory.path().join("runs/my-task"));
    let loaded = load(&["env.data=data", "run.dir=/absolute"]);
    let EnvConfig::Qa(qa) = &loaded.config.env else { panic!("not of kind qa") };
    assert_eq!(qa.data.to_path(), PathBuf::from("data"));
    assert_eq!(loaded.run_dir(), Path::new("/absolute"));
    assert!(!loaded.config.to_json().to_string().contains(&directory.path().display().to_string()));
}

#[test]
fn paths_that_are_not_there_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("skillrl.toml");
    std::fs::create_dir(directory.path().join("data")).unwrap();
    let text = format!("{MINIMAL}[skill]\ninitial = \"skill.md\"\n[prompts]\ndir = \"skillrl.toml\"\n");
    std::fs::write(&path, text).unwrap();
    let error = Config::load(&path, &[]).unwrap().check_paths().unwrap_err();
    let message = error.to_string().replace(&directory.path().display().to_string(), "DIR");
    insta::assert_snapshot!(message, @"
    DIR/skillrl.toml:8:1: `skill.initial` names DIR/skill.md, which does not exist
    DIR/skillrl.toml:10:1: `prompts.dir` names DIR/skillrl.toml, which is not a directory
    ");
    std::fs::write(directory.path().join("skill.md"), "").unwrap();
    std::fs::create_dir(directory.path().join("prompts")).unwrap();
    let dir = directory.path().join("prompts").display().to_string();
    Config::load(&path, &[format!("prompts.dir={dir}")]).unwrap().check_paths().unwrap();
}

#[test]
fn files_that_cannot_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("skillrl.toml");
    let load = || Config::load(&path, &[]).unwrap_err();
    assert!(matches!(load(), ConfigError::Read { .. }));
    assert!(load().hint().contains("skillrl init"));
    std::fs::write(&path, b"a = 1\nb = \"\xff\"\n").unwrap();
    assert!(matches!(load(), ConfigError::NotText { fault, .. } if fault.line() == 2));
    let text = default_file(&[]).unwrap();
    let wide = "\u{feff}".encode_utf16().chain(text.encode_utf16()).flat_map(u16::to_le_bytes);
    for bytes in [[b"\xef\xbb\xbf", text.as_bytes()].concat(), wide.collect()] {
        std::fs::write(&path, bytes).unwrap();
        Config::load(&path, &[]).unwrap();
    }
    std::fs::write(&path, " ".repeat(1024 * 1024 + 1)).unwrap();
    assert!(matches!(load(), ConfigError::TooLarge { .. }));
    std::fs::write(&path, default_file(&[]).unwrap()).unwrap();
    Config::load(&path, &[]).unwrap();
}
