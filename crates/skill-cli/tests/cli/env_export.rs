//! `skillrl env export`.

use crate::context::{TestContext, code};

#[cfg(not(feature = "weights"))]
#[test]
fn a_program_without_the_formats_says_how_to_get_them() {
    let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
    context
        .run(&["env", "export", "task/skillrl.toml", "--out", "tasks.jsonl"])
        .fails(code::USAGE, &["--features full"]);
}

#[cfg(feature = "weights")]
mod built_in {
    use super::{TestContext, code};
    use serde_json::{Value, json};

    fn rows(context: &TestContext, file: &str) -> Vec<Value> {
        context.read(file).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    #[test]
    fn tasks_are_prompts_with_the_skill_and_the_right_answer() {
        let context = TestContext::with_task("{ kind = \"simulated\" }", "{ kind = \"simulated\" }");
        let skill = context.read("task/skill.md");
        let export = ["env", "export", "task/skillrl.toml", "--out", "tasks.jsonl"];
        context.succeed(&export);
        let rows = rows(&context, "tasks.jsonl");
        assert!(!rows.is_empty());
        for row in &rows {
            let text = |place: usize| row["prompt"][place]["content"].as_str().unwrap();
            assert_eq!(row["prompt"][0]["role"], "system");
            assert!(text(0).contains(skill.trim()), "{row}");
            assert_eq!(row["prompt"].as_array().unwrap().last().unwrap()["role"], "user");
            assert!(row["ground_truth"].as_str().is_some_and(|truth| !truth.is_empty()), "{row}");
        }
        // Nothing is replaced by accident.
        context.run(&export).assert_code(code::USAGE);
        context.succeed(&[&export[..], &["--force", "--split", "test"]].concat());
    }

    #[test]
    fn a_world_shows_each_task_the_skills_of_the_bank() {
        let context = TestContext::new();
        let bank = json!({
            "general_skills": [{"skill_id": "gen_001", "title": "Look around", "principle": "Go to each place once.",
                                "when_to_apply": ""}],
            "task_specific_skills": {"pick_and_place": [{"skill_id": "pnp_001", "title": "Put it down",
                "principle": "Go to the place that the task names.", "when_to_apply": ""}]},
            "common_mistakes": [],
        });
        context.write("skills.json", &bank.to_string());
        context.write(
            "world.toml",
            "[models.target]\nkind = \"simulated\"\n[models.optimizer]\nkind = \"simulated\"\n\
             [env]\nkind = \"alfworld\"\nmax_train = 6\nmax_val = 1\nmax_test = 1\n[train]\nmode = \"bank\"\n",
        );
        context.succeed(&["env", "export", "world.toml", "--bank", "skills.json", "--out", "tasks.jsonl"]);
        let rows = rows(&context, "tasks.jsonl");
        assert_eq!(rows.len(), 6);
        let shown = |row: &Value, part: &str| row["prompt"][0]["content"].as_str().unwrap().contains(part);
        assert!(rows.iter().all(|row| shown(row, "Go to each place once.") && row["ground_truth"] == ""));
        let is_of_type = |row: &&Value| row["task_id"].as_str().unwrap().contains("pick_and_place");
        assert!(rows.iter().filter(is_of_type).all(|row| shown(row, "Go to the place that the task names.")));
        let is_of_light = |row: &&Value| row["task_id"].as_str().unwrap().contains("look_at");
        let of_light: Vec<&Value> = rows.iter().filter(is_of_light).collect();
        assert!(!of_light.is_empty());
        assert!(!of_light.iter().any(|row| shown(row, "Go to the place that the task names.")));
    }
}
