//! A run belongs to one process, as long as that lives.

use crate::child::{Commits, Death, DeathPoint, Said};
use crate::world::{Size, Start, World};

#[test]
fn a_second_process_is_refused_while_the_first_one_lives() {
    let undisturbed = World::undisturbed(Size::Small);
    let mut world = World::new(Size::Small, 1);
    let death = Some(Death { point: DeathPoint::After, entry: 20 });
    let mut first = world.start(&Start { death, commits: Commits::Paced, ..Start::default() });
    assert!(first.wait_until(|said| *said == Said::Dying), "it holds still, and lives");
    let files = world.files();

    let second = world.start(&Start::default()).end();
    let Some(Said::Stopped { failure, text, .. }) = &second.last else { panic!("{second:?}") };
    assert_eq!(failure, "RunDir", "{text}");
    assert!(text.contains("process"), "{text}");
    assert!(world.files() == files, "who is refused changes nothing");
    let requests = world.requests();
    assert!(requests.iter().all(|request| request.child == 1), "and asks nobody: {requests:?}");

    first.kill();
    world.audit();
    world.finish(&Start::default());
    world.assert_is(&undisturbed);
}
