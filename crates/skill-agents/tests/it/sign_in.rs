//! What a run takes over of a person's home and project.

use crate::simulated::{setup, skill};
use skill_agents::measure::{Setup, named_files, prepare, prepare_plain, servers};
use skill_agents::{agent, agents};
use std::fs;
use std::path::{Path, PathBuf};

/// What no run may find unasked: the names of servers, hooks, plugins, permissions and memories.
const ACTS: &str = "delete_ticket";

/// A home in which every settings file has the sign-in and all that acts.
fn home_of(name: &str, home: &Path) {
    let put = |path: &str, text: &str| {
        let path = home.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text.replace("ACTS", ACTS)).unwrap();
    };
    let json = |sign_in: &str, servers: &str| {
        format!(
            "// my settings\n{{{sign_in}, \"{servers}\": {{\"ACTS\": {{\"command\": \"x\"}}}},\n \
             \"hooks\": {{\"BeforeTool\": [{{\"command\": \"ACTS\"}}]}}, \"plugins\": [\"ACTS\"], \"plugin\": [\"ACTS\"],\n \
             \"permissions\": {{\"allow\": [\"ACTS\"]}}, \"tools\": {{\"allowed\": [\"ACTS\"]}}, \"context\": {{\"fileName\": \"ACTS\"}},}}"
        )
    };
    match name {
        "claude-code" => {
            put(".claude.json", &json("\"oauthAccount\": \"token-1\"", "mcpServers"));
        }
        "codex" => {
            put(".codex/auth.json", "{\"key\": \"token-1\"}");
            let text = "model = \"token-1\"\nnotify = [\"ACTS\"]\napproval_policy = \"never\"\n\
                        [model_providers.own]\nbase_url = \"token-1\"\n[mcp_servers.ACTS]\ncommand = \"x\"\n\
                        [plugins.ACTS]\nenabled = true\n[profiles.ACTS]\nmodel = \"m\"\n";
            put(".codex/config.toml", text);
            put(".codex/hooks.json", "ACTS");
            put(".codex/memories/m.md", "ACTS");
        }
        "gemini-cli" => {
            put(".gemini/oauth_creds.json", "{\"key\": \"token-1\"}");
            put(
                ".gemini/settings.json",
                &json("\"security\": {\"auth\": \"token-1\", \"ACTS\": 1}", "mcpServers"),
            );
            put(".gemini/GEMINI.md", "ACTS");
            put(".gemini/extensions/e/gemini-extension.json", "ACTS");
        }
        "qwen-code" => {
            put(".qwen/oauth_creds.json", "{\"key\": \"token-1\"}");
            put(".qwen/settings.json", &json("\"modelProviders\": \"token-1\"", "mcpServers"));
            put(".qwen/QWEN.md", "ACTS");
        }
        "opencode" => {
            put(".local/share/opencode/auth.json", "{\"key\": \"token-1\"}");
            for file in [".config/opencode/opencode.json", ".config/opencode/opencode.jsonc", "own.json"] {
                put(file, &json("\"provider\": \"token-1\"", "mcp"));
            }
            put(".config/opencode/plugins/p.ts", "ACTS");
        }
        "copilot-cli" => {
            put(".copilot/config.json", &json("\"loggedInUsers\": \"token-1\"", "installed"));
            put(".copilot/mcp-config.json", &json("\"x\": 1", "mcpServers"));
        }
        "pi" => put(".pi/agent/extensions/e.ts", "ACTS"),
        other => panic!("{other} has no home here"),
    }
}

/// All files below a directory that hold a word, by their contents or names.
fn holding(at: &Path, word: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(at).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(holding(&path, word));
        } else if String::from_utf8_lossy(&fs::read(&path).unwrap()).contains(word) {
            found.push(path);
        }
    }
    found
}

fn with_home(name: &str, home: &Path, with_mcp: bool) -> Setup {
    let row = agent(name).unwrap().unwrap();
    let named = named_files(row, |_| Some(home.join("own.json")));
    let setup = setup(vec![skill("invoice", "Does it.")]);
    Setup { agent: row, home: home.to_owned(), named_files: named, with_mcp, ..setup }
}

#[test]
fn a_run_takes_over_the_sign_in_and_nothing_that_acts() {
    for row in agents().unwrap() {
        let home = tempfile::tempdir().unwrap();
        home_of(&row.name, home.path());
        let setup = with_home(&row.name, home.path(), false);
        for plain in [false, true] {
            let at = tempfile::tempdir().unwrap();
            let prepared = match plain {
                true => prepare_plain(&setup, "Delete ticket 17.", at.path()).unwrap(),
                false => prepare(&setup, "Delete ticket 17.", at.path()).unwrap(),
            };
            assert_eq!(holding(at.path(), ACTS), Vec::<PathBuf>::new(), "{}", row.name);
            let words = prepared.launch.command.join(" ");
            assert!(!words.contains("--mcp-config"), "{words}");
            match row.name.as_str() {
                // These run in the person's home: arguments leave out what is there.
                "claude-code" => assert!(words.contains("--strict-mcp-config"), "{words}"),
                "pi" => assert!(words.contains("--no-extensions --no-context-files"), "{words}"),
                _ => assert!(!holding(&prepared.home, "token-1").is_empty(), "{}", row.name),
            }
            for named in row.start.settings_of_user.iter().filter_map(|settings| settings.variable.as_ref()) {
                assert!(prepared.launch.hidden_env.contains(named), "{named} would name the file as it is");
            }
        }
    }
}

#[test]
fn servers_follow_where_a_person_asks_for_them() {
    for row in agents().unwrap().iter().filter(|row| row.name != "pi") {
        let (home, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        home_of(&row.name, home.path());
        let setup = with_home(&row.name, home.path(), true);
        assert_eq!(servers(&setup).unwrap().into_keys().collect::<Vec<_>>(), [ACTS], "{}", row.name);
        let prepared = prepare(&setup, "Delete ticket 17.", at.path()).unwrap();
        let found = holding(at.path(), ACTS);
        assert!(!found.is_empty(), "{}", row.name);
        for path in found {
            let text = fs::read_to_string(&path).unwrap();
            assert!(
                !text.contains("hooks") && !text.contains("plugin") && !text.contains("notify"),
                "{text}"
            );
        }
        if row.name == "claude-code" {
            assert!(prepared.launch.command.iter().any(|word| word == "--mcp-config"));
        }
    }
}

/// OpenCode merges the file that `OPENCODE_CONFIG` names over its global settings.
#[test]
fn a_file_that_a_variable_names_is_merged_over_the_global_settings() {
    let named = [
        (Some(r#"{"model": "named", "provider": {"b": 2}}"#), "named", 2),
        (Some(" "), "global", 1),
        (None, "global", 1),
    ];
    for (text, model, n_providers) in named {
        let (home, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let file = ".config/opencode/opencode.jsonc";
        fs::create_dir_all(home.path().join(".config/opencode")).unwrap();
        fs::write(home.path().join(file), r#"{"model": "global", "provider": {"a": 1}}"#).unwrap();
        if let Some(text) = text {
            fs::write(home.path().join("own.json"), text).unwrap();
        }
        let prepared = prepare(&with_home("opencode", home.path(), false), "x", at.path()).unwrap();
        let written = fs::read_to_string(prepared.home.join(file)).unwrap();
        let written: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(written["model"], model);
        assert_eq!(written["provider"].as_object().unwrap().len(), n_providers);
    }
}

#[test]
fn settings_that_cannot_be_read_are_refused_and_not_taken_whole() {
    let (home, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(home.path().join(".codex")).unwrap();
    fs::write(home.path().join(".codex/config.toml"), "model = = delete_ticket").unwrap();
    let error = prepare(&with_home("codex", home.path(), false), "x", at.path()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidData);
    assert!(error.to_string().contains("config.toml"), "{error}");
}

/// A project that is copied may have settings of its own, which start servers and hooks.
#[test]
fn a_copied_project_brings_files_and_no_settings_of_agents() {
    let (from, at) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let files = [
        ".mcp.json",
        ".claude/settings.json",
        ".claude/settings.local.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".qwen/settings.json",
        ".opencode/plugins/p.ts",
        "opencode.json",
        "opencode.jsonc",
        ".vscode/mcp.json",
        ".github/hooks/h.json",
        ".pi/extensions/e.ts",
    ];
    for file in files {
        fs::create_dir_all(from.path().join(file).parent().unwrap()).unwrap();
        fs::write(from.path().join(file), ACTS).unwrap();
    }
    fs::write(from.path().join(".claude/notes.md"), "kept").unwrap();
    for row in agents().unwrap() {
        let run = at.path().join(&row.name);
        let setup = with_home(&row.name, at.path(), false);
        let setup = Setup { project: Some(from.path().to_owned()), ..setup };
        let prepared = prepare(&setup, "x", &run).unwrap();
        assert_eq!(holding(&prepared.project, ACTS), Vec::<PathBuf>::new(), "{}", row.name);
        assert!(prepared.project.join(".claude/notes.md").is_file());
    }
}
