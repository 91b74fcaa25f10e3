//! The demo's files: small tasks made for this project, each with a configuration that trains on it.

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

/// The configuration that trains a bank, among the files of the worlds that have one.
pub const BANK_CONFIG_FILE: &str = "bank.toml";

const HOUSEHOLD_FILES: [DemoFile; 4] = [
    DemoFile { path: CONFIG_FILE, text: include_str!("../demo/alfworld/skillrl.toml") },
    DemoFile { path: BANK_CONFIG_FILE, text: include_str!("../demo/alfworld/bank.toml") },
    DemoFile { path: SKILL_FILE, text: include_str!("../demo/alfworld/initial_skill.md") },
    DemoFile { path: "README.md", text: include_str!("../demo/alfworld/README.md") },
];

const SHOP_FILES: [DemoFile; 3] = [
    DemoFile { path: CONFIG_FILE, text: include_str!("../demo/webshop/skillrl.toml") },
    DemoFile { path: SKILL_FILE, text: include_str!("../demo/webshop/initial_skill.md") },
    DemoFile { path: "README.md", text: include_str!("../demo/webshop/README.md") },
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

skill_core::named_enum! {
    /// What the demo is played on.
    #[derive(Default)]
    pub enum DemoWorld {
        /// Questions about the records of a harbour desk.
        #[default]
        Notes = "notes",
        /// Chores in generated households.
        Alfworld = "alfworld",
        /// Purchases in a shop with a bundled catalogue.
        Webshop = "webshop",
    }
}

impl DemoWorld {
    /// Whether the demo of this world can train a bank.
    pub fn has_bank(self) -> bool {
        self.files().iter().any(|file| file.path == BANK_CONFIG_FILE)
    }

    /// All files of the demo in this world.
    pub fn files(self) -> &'static [DemoFile] {
        match self {
            Self::Notes => &FILES,
            Self::Alfworld => &HOUSEHOLD_FILES,
            Self::Webshop => &SHOP_FILES,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_two_lines_stand_in_the_configuration() {
        for world in DemoWorld::ALL {
            let config = world.files().iter().find(|file| file.path == CONFIG_FILE).unwrap();
            for (simulated, _) in REAL_MODEL_LINES {
                assert!(config.text.lines().any(|line| line.trim_end() == simulated), "{simulated}");
            }
        }
    }
}
