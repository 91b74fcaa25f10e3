//! A disk that is full: the journal's own limit, and the system's.

use crate::child::{Commits, Said};
use crate::world::{Size, Start, World};

const KIB: u64 = 1024;

/// Runs a child that has to stop because its journal cannot be written; returns the words.
fn stop(world: &mut World, start: &Start<'_>) -> (String, String) {
    let ended = world.start(start).end();
    world.audit();
    match ended.last {
        Some(Said::Stopped { failure, text, hint }) => {
            assert_eq!(failure, "RunDir", "{text}");
            (text, hint)
        }
        _ => panic!("{ended:?}"),
    }
}

#[test]
fn a_journal_without_room_stops_the_run_and_more_room_lets_it_go_on() {
    let undisturbed = World::undisturbed(Size::Small);
    let n_requests = undisturbed.requests.len();
    for (n_workers, first, steps) in [(1, 60, 30), (64, 100, 60)] {
        let mut world = World::new(Size::Small, n_workers);
        let (mut n_committed, mut n_stops, mut is_midway) = (0, 0, false);
        // Room for a little more each time, until it is enough.
        for room in (0..).map(|number| (first + number * steps) * KIB) {
            let start = Start { max_bytes: Some(room), ..Start::default() };
            let ended = world.start(&start).end();
            world.audit();
            let Some(Said::Stopped { failure, text, hint }) = &ended.last else {
                assert!(ended.status.success(), "{ended:?}");
                break;
            };
            assert_eq!(failure, "RunDir", "{text}");
            assert!(text.contains("journal.sqlite") && text.contains("full"), "{text}");
            assert!(hint.contains("start the same command again"), "{hint}");
            let committed = world.committed_now().len();
            assert!(committed >= n_committed, "what was committed stays");
            is_midway |= (1..n_requests).contains(&committed);
            (n_committed, n_stops) = (committed, n_stops + 1);
        }
        assert!(n_stops >= 2 && is_midway, "{n_stops} {n_committed}");
        world.assert_is(&undisturbed);
    }
}

#[test]
fn a_journal_without_room_for_its_tables_is_said_before_anything_is_asked() {
    let mut world = World::new(Size::Small, 1);
    let (text, hint) = stop(&mut world, &Start { max_bytes: Some(8 * KIB), ..Start::default() });
    assert!(text.contains("full"), "{text}");
    assert!(hint.contains("room"), "{hint}");
    assert!(world.requests().is_empty());
}

/// Limits of the process on the size of a file, in KiB.
#[cfg(unix)]
const FILE_LIMITS: [u32; 4] = [50, 150, 300, 600];

/// The system refuses to write beyond a limit, and the process lives to tell.
#[cfg(unix)]
#[test]
fn a_refused_write_stops_the_run() {
    let undisturbed = World::undisturbed(Size::Small);
    let mut world = World::new(Size::Small, 1);
    for limit in FILE_LIMITS {
        let shell = format!("trap '' XFSZ; ulimit -f {limit}");
        let (text, _) =
            stop(&mut world, &Start { shell: Some(&shell), commits: Commits::OneByOne, ..Start::default() });
        assert!(text.contains("journal.sqlite"), "{text}");
    }
    assert!(!world.committed_now().is_empty());
    world.finish(&Start::default());
    world.assert_is(&undisturbed);
}

/// The system kills a process that writes beyond the limit: in the middle of a write.
#[cfg(unix)]
#[test]
fn a_process_killed_for_the_size_of_a_file_goes_on() {
    use std::os::unix::process::ExitStatusExt as _;
    let undisturbed = World::undisturbed(Size::Small);
    let mut world = World::new(Size::Small, 1);
    for limit in FILE_LIMITS {
        let shell = format!("ulimit -c 0; ulimit -f {limit}");
        let ended =
            world.start(&Start { shell: Some(&shell), commits: Commits::OneByOne, ..Start::default() }).end();
        assert!(ended.status.signal().is_some(), "{ended:?}");
        world.audit();
    }
    assert!(!world.committed_now().is_empty());
    world.finish(&Start::default());
    world.assert_is(&undisturbed);
}
