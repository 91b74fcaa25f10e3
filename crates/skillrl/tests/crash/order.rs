//! What is said to be finished is based on what is on the disk already.

use crate::child::{Commits, Said};
use crate::world::{Size, Start, World};
use skillrl::core::SkillDoc;
use skillrl::pipeline::run_dir::RunDir;
use skillrl::pipeline::trainer::TrainState;

/// Dies as soon as something is said to be finished, while the journal commits only what somebody waits for.
#[test]
fn what_is_finished_is_committed_before_it_is_said() {
    let undisturbed = World::undisturbed(Size::Small);
    for (event, n_times) in
        [("baseline_measured", 1), ("step_finished", 4), ("epoch_ended", 3), ("test_measured", 4)]
    {
        for number in 1..=n_times {
            let mut world = World::new(Size::Small, 8);
            let mut n_seen = 0;
            let start = Start { commits: Commits::OnlyWhenFlushed, ..Start::default() };
            let is_killed = world.kill_when(&start, |said| {
                n_seen += usize::from(*said == Said::Event(event.to_owned()));
                n_seen == number
            });
            assert!(is_killed, "{event} {number}");
            world.finish(&Start::default());
            world.assert_is(&undisturbed);
            let n_repeats = world.requests().len() - world.places_asked().len();
            // What is under way when the parent hears of it belongs to the next stage.
            assert!(event != "test_measured" || n_repeats <= 5, "{event} {number}: {n_repeats} asked again");
        }
    }
}

/// Dies before each file of the state is in its place: what is read back is the state before or the one after.
#[test]
fn a_state_is_written_in_an_order_that_leaves_one_whole() {
    let mut world = World::new(Size::Small, 1);
    let mut n_finished = 0;
    let start = Start::default();
    assert!(world.kill_when(&start, |said| {
        n_finished += usize::from(*said == Said::Event("step_finished".to_owned()));
        n_finished == 2
    }));
    let mut later = world.copy();
    later.finish(&start);
    let initial = SkillDoc::new(
        skillrl::demo::FILES.iter().find(|file| file.path == skillrl::demo::SKILL_FILE).unwrap().text,
    );
    let read = |world: &World| {
        let dir = RunDir::open(&world.run_dir()).unwrap();
        TrainState::read(&dir, &initial).unwrap().unwrap()
    };
    let (before, after) = (read(&world), read(&later));
    assert_ne!(before, after);
    let last = format!("skills/skill_epoch_{:02}.md", after.epoch_end.as_ref().unwrap().epoch.0);
    for file in [
        last.as_str(),
        "current_skill.md",
        "best_skill.md",
        "history.jsonl",
        "files.jsonl",
        "runtime_state.json",
    ] {
        let torn = world.copy();
        let path = torn.run_dir().join(file);
        let bytes = std::fs::read(&path).ok();
        if bytes.is_some() {
            std::fs::remove_file(&path).unwrap();
        }
        // A directory that is not empty cannot be replaced by a file: writing ends here.
        std::fs::create_dir_all(path.join("in the way")).unwrap();
        {
            let dir = RunDir::open(&torn.run_dir()).unwrap();
            after.write(&dir).expect_err(file);
        }
        std::fs::remove_dir_all(&path).unwrap();
        if let Some(bytes) = bytes {
            std::fs::write(&path, bytes).unwrap();
        }
        assert_eq!(read(&torn), before, "{file}");
    }
}
