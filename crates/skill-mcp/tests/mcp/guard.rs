//! What is asked that nobody should get.

use crate::all_files::all_files;
use crate::client::Place;
use crate::runs::finished;
use serde_json::json;

const SECRET: &str = "hidden-from-everybody";

#[tokio::test]
async fn no_name_leads_out_of_the_directories() {
    let place = Place::new();
    place.write_demo();
    finished(&place.path("runs/one"));
    finished(&place.path("outside"));
    place.write("outside/best_skill.md", SECRET);
    place.write("outside.toml", &format!("[models]\n{SECRET}"));
    place.write("configs/notes.txt", SECRET);
    let before = all_files(&place.path("outside"));
    let mut client = place.client().await;
    let absolute = place.path("outside").to_string_lossy().into_owned();
    for name in
        ["../outside", "one/../../outside", &absolute, "", ".", "./one", "one/", "one/steps", "..", "x\0y"]
    {
        for tool in ["read_run", "follow_run", "stop_run", "read_skill", "read_trajectories"] {
            let said = client.refused(tool, json!({"run": name})).await;
            assert!(said.contains("not found") && !said.contains(SECRET), "{tool} {name}: {said}");
        }
    }
    let absolute = place.path("outside.toml").to_string_lossy().into_owned();
    for name in
        ["../outside.toml", &absolute, "/etc/passwd", "notes.txt", "demo", "", "x\0y.toml", "absent.toml"]
    {
        for tool in ["estimate_run", "start_run"] {
            let said = client.refused(tool, json!({"config": name})).await;
            assert!(said.contains("not found") && !said.contains(SECRET), "{tool} {name}: {said}");
        }
    }
    for name in ["../outside.toml", &absolute, "absent.toml"] {
        let said = client.refused("measure", json!({"name": "x", "config": name, "max_calls": 1})).await;
        assert!(said.contains("not found") && !said.contains(SECRET), "{name}: {said}");
    }
    for (field, name) in [("skill", "../outside/best_skill.md"), ("bank", "../outside"), ("skill", "..")] {
        let mut asked = json!({"name": "x", "config": "demo/skillrl.toml", "max_calls": 1});
        asked[field] = name.into();
        let said = client.refused("measure", asked).await;
        assert!(said.contains("not found") && !said.contains(SECRET), "{field} {name}: {said}");
    }
    assert_eq!(all_files(&place.path("outside")), before);
    client.leave().await;
}

#[cfg(unix)]
#[tokio::test]
async fn links_that_leave_the_directories_are_not_followed() {
    use std::os::unix::fs::symlink;
    let place = Place::new();
    place.write_demo();
    finished(&place.path("outside"));
    place.write("outside/skills/skill_v0000.md", SECRET);
    std::fs::copy(place.path("configs/demo/skillrl.toml"), place.path("outside.toml")).unwrap();
    symlink(place.path("outside"), place.path("runs/linked")).unwrap();
    finished(&place.path("runs/deep"));
    std::fs::remove_file(place.path("runs/deep/skills/skill_v0000.md")).unwrap();
    symlink(place.path("outside/skills/skill_v0000.md"), place.path("runs/deep/skills/skill_v0000.md"))
        .unwrap();
    symlink(place.path("outside.toml"), place.path("configs/linked.toml")).unwrap();
    let mut client = place.client().await;
    let listed = client.call("list_configurations", json!({})).await;
    assert!(!listed.to_string().contains("linked"), "{listed}");
    let said = client.refused("estimate_run", json!({"config": "linked.toml"})).await;
    assert!(said.contains("not found"), "{said}");
    let said = client.refused("read_run", json!({"run": "linked"})).await;
    assert!(said.contains("not found"), "{said}");
    for tool in ["read_run", "read_skill", "read_trajectories"] {
        let said = client.refused(tool, json!({"run": "deep"})).await;
        assert!(
            said.contains("is a link that leaves the runs directory") && !said.contains(SECRET),
            "{said}"
        );
    }
    // Nor are those of a measurement, of one that it is compared with, and of a skill.
    for name in ["old", "new"] {
        std::fs::create_dir_all(place.path(&format!("runs/measurements/{name}"))).unwrap();
    }
    symlink(place.path("outside/best_skill.md"), place.path("runs/measurements/old/results.json")).unwrap();
    place.write("configs/package/SKILL.md", "---\nname: package\ndescription: d\n---\n# Skill\n");
    symlink(place.path("outside/best_skill.md"), place.path("configs/package/notes.md")).unwrap();
    for more in [
        json!({"name": "old"}),
        json!({"name": "new", "against": "old"}),
        json!({"name": "new", "skill": "package"}),
        json!({"name": "new", "skill": "deep"}),
    ] {
        let mut asked = json!({"config": "demo/skillrl.toml", "max_calls": 1});
        asked.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let said = client.refused("measure", asked).await;
        assert!(said.contains("link that leaves the") && !said.contains(SECRET), "{more}: {said}");
    }
    // A run that was begun would go on behind its link.
    let text = std::fs::read_to_string(place.path("configs/demo/skillrl.toml")).unwrap();
    place.write("configs/demo/deep.toml", &text.replace("../../runs/demo", "../../runs/deep"));
    let said = client.refused("start_run", json!({"config": "demo/deep.toml", "max_calls": 1})).await;
    assert!(said.contains("skill_v0000.md is a link that leaves the runs directory"), "{said}");
    // A run directory that is behind a link is outside, wherever the link is.
    for dir in [
        "../../runs/linked/new",
        "../../runs/linked/../new",
        "../../outside",
        "/tmp/new",
        "../../runs/.hidden",
        "../../runs",
    ] {
        place.write("configs/demo/other.toml", &text.replace("../../runs/demo", dir));
        let said = client.refused("start_run", json!({"config": "demo/other.toml", "max_calls": 1})).await;
        assert!(said.contains("not a place for a run in") && said.contains("run.dir"), "{dir}: {said}");
    }
    client.leave().await;
}

#[tokio::test]
async fn what_is_not_an_argument_is_said_so_that_it_can_be_mended() {
    let place = Place::new();
    place.write_demo();
    let text = std::fs::read_to_string(place.path("configs/demo/skillrl.toml")).unwrap();
    let simulated = "{ kind = \"simulated\", sim_seed = 7 }";
    assert!(text.contains(simulated));
    let paid = "{ kind = \"openai\", model = \"m\", base_url = \"http://127.0.0.1:1/v1\" }";
    place.write("configs/demo/paid.toml", &text.replace(simulated, paid));
    finished(&place.path("runs/one"));
    let mut client = place.client().await;
    for (tool, arguments, expected) in [
        ("read_run", json!({}), "missing field `run`"),
        ("read_run", json!({"run": "one", "steps": 3}), "unknown field `steps`"),
        ("read_run", json!({"run": "one", "max_steps": -1}), "max_steps"),
        ("read_skill", json!({"run": "one", "version": "worst"}), "unknown variant `worst`"),
        ("follow_run", json!({"run": "one", "cursor": "7"}), "this is not a cursor of follow_run"),
        ("read_run", json!({"run": "two"}), "the runs are `one`"),
        ("estimate_run", json!({"config": "demo/skillrl.toml", "set": ["train.epoch=2"]}), "train.epoch"),
        (
            "estimate_run",
            json!({"config": "demo/skillrl.toml", "set": ["models.target.base_url=http://x"]}),
            "cannot be changed here",
        ),
        ("start_run", json!({"config": "demo/skillrl.toml", "max_calls": 0}), "budget.calls"),
        ("start_run", json!({"config": "demo/skillrl.toml", "max_money": -1.0}), "not an amount of money"),
        ("start_run", json!({"config": "demo/paid.toml", "max_money": 1.0}), "needs prices"),
    ] {
        let said = client.refused(tool, arguments.clone()).await;
        assert!(said.contains(expected), "{tool} {arguments}: {said}");
    }
    // Null is what is left out.
    let asked = json!({"run": "one", "version": null, "offset": null});
    assert_eq!(client.call("read_skill", asked).await["version"], "best");
    // What is not a message of the protocol ends nothing.
    for line in ["nonsense", "{\"jsonrpc\": \"2.0\", \"id\": 99}", "[]", "{"] {
        client.send_line(line).await;
    }
    assert_eq!(client.call("list_runs", json!({})).await["runs"][0]["run"], "one");
    client.leave().await;
}

#[tokio::test]
async fn a_message_that_is_far_too_long_is_dropped_and_the_next_is_answered() {
    let place = Place::new();
    let mut client = place.client().await;
    let id = client.begin_to_ask(&"x".repeat(2 << 20), json!({})).await;
    let answer = client.ask("tools/list", json!({})).await;
    assert!(answer["result"]["tools"].is_array(), "{answer}");
    assert!(client.notes.iter().all(|message| message["id"] != id), "{:?}", client.notes.len());
    client.leave().await;
}
