//! Writes a small data set in every format of `export` into a folder, so that the real trainers can be asked whether
//! they take it, and reads each file back with its checker: `cargo run -p skill-train --features parquet --example write_exports -- FOLDER`.

#![expect(clippy::print_stdout, reason = "the example prints what it has checked")]

use skill_core::Role;
use skill_train::export::{Checked, TaskPrompt, Turn, llama_factory, trl, verl};
use std::error::Error;
use std::path::{Path, PathBuf};

fn main() -> Result<(), Box<dyn Error>> {
    let folder: PathBuf = std::env::args_os().nth(1).ok_or("a folder is missing")?.into();
    let conversations = conversations();
    let tasks: Vec<TaskPrompt> = conversations.iter().enumerate().map(task).collect();
    let source = verl::Source {
        data_source: "skillrl/games".to_owned(),
        ability: "agent".to_owned(),
        split: "train".to_owned(),
    };
    let files = llama_factory::write("games", &conversations)?;
    let written: [(&str, &str, Vec<u8>); 7] = [
        ("trl", "sft-messages.jsonl", trl::messages(&conversations)?.into_bytes()),
        ("trl", "sft-prompt-completion.jsonl", trl::prompt_completion(&conversations)?.into_bytes()),
        ("trl", "grpo.jsonl", trl::prompts(&tasks)?.into_bytes()),
        ("llamafactory", llama_factory::INFO_FILE, files.info.into_bytes()),
        ("llamafactory", &files.data_name, files.data.into_bytes()),
        ("verl", "sft.parquet", verl::messages(&conversations)?),
        ("verl", "train.parquet", verl::prompts(&tasks, &source)?),
    ];
    for (of_trainer, name, content) in written {
        std::fs::create_dir_all(folder.join(of_trainer))?;
        std::fs::write(folder.join(of_trainer).join(name), content)?;
    }
    check(&folder)
}

/// What lies on the disk, by the checkers of this project.
fn check(folder: &Path) -> Result<(), Box<dyn Error>> {
    let checked =
        |name: &str, checked: Checked| println!("{name}: {} rows of {:?}", checked.n_rows, checked.kind);
    for name in ["trl/sft-messages.jsonl", "trl/sft-prompt-completion.jsonl", "trl/grpo.jsonl"] {
        checked(name, trl::check(&std::fs::read_to_string(folder.join(name))?)?);
    }
    let of_llama_factory = folder.join("llamafactory");
    let info = std::fs::read_to_string(of_llama_factory.join(llama_factory::INFO_FILE))?;
    let read = |name: &str| std::fs::read_to_string(of_llama_factory.join(name)).ok();
    for found in llama_factory::check(&info, read)? {
        checked("llamafactory", found);
    }
    for name in ["verl/sft.parquet", "verl/train.parquet"] {
        checked(name, verl::check(&std::fs::read(folder.join(name))?)?);
    }
    Ok(())
}

fn conversations() -> Vec<Vec<Turn>> {
    let turn = |role, content: &str| Turn::new(role, content);
    vec![
        vec![
            turn(
                Role::System,
                "You play a game.\n\n### Experience\n- Look into boxes before you leave a room.",
            ),
            turn(Role::User, "There is a box. «é» 日本 😀 \"quoted\""),
            turn(Role::Assistant, "open the box"),
            turn(Role::User, "It holds a key.\r\n\tWhat now?"),
            turn(Role::Assistant, "take the key\n"),
        ],
        vec![turn(Role::User, "2 + 2?"), turn(Role::Assistant, "4")],
    ]
}

/// The first question of a conversation as a task.
fn task((place, turns): (usize, &Vec<Turn>)) -> TaskPrompt {
    let asked = turns.iter().take_while(|turn| turn.role != Role::Assistant);
    let answer = turns.iter().find(|turn| turn.role == Role::Assistant);
    TaskPrompt {
        turns: asked.cloned().collect(),
        task_id: format!("task-{place}"),
        ground_truth: answer.map(|turn| turn.content.clone()).unwrap_or_default(),
    }
}
