//! The demo's files: a small task written for this project, with a configuration that trains on it.

/// A file of the demo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DemoFile {
    /// Its path inside the demo's directory.
    pub path: &'static str,
    /// Its text.
    pub text: &'static str,
}

/// The configuration among the demo's files.
pub const CONFIG_FILE: &str = "skillrl.toml";

/// The skill that the demo starts from, among its files.
pub const SKILL_FILE: &str = "initial_skill.md";

/// All files of the demo.
pub const FILES: [DemoFile; 6] = [
    DemoFile { path: CONFIG_FILE, text: include_str!("../demo/skillrl.toml") },
    DemoFile { path: SKILL_FILE, text: include_str!("../demo/initial_skill.md") },
    DemoFile { path: "README.md", text: include_str!("../demo/README.md") },
    DemoFile { path: "data/train.jsonl", text: include_str!("../demo/data/train.jsonl") },
    DemoFile { path: "data/val.jsonl", text: include_str!("../demo/data/val.jsonl") },
    DemoFile { path: "data/test.jsonl", text: include_str!("../demo/data/test.jsonl") },
];

/// The two lines of the configuration that make the demo's models simulated, each with one that names a real model.
pub const REAL_MODEL_LINES: [(&str, &str); 2] = [
    (
        "target = { kind = \"simulated\", sim_seed = 7 }",
        "target = { kind = \"openai\", model = \"gpt-5-mini\" }",
    ),
    (
        "optimizer = { kind = \"simulated\", sim_seed = 24 }",
        "optimizer = { kind = \"openai\", model = \"gpt-5\" }",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lines_stand_in_the_configuration() {
        let config = FILES.iter().find(|file| file.path == CONFIG_FILE).unwrap();
        for (simulated, _) in REAL_MODEL_LINES {
            assert!(config.text.lines().any(|line| line.trim_end() == simulated), "{simulated}");
        }
    }
}
