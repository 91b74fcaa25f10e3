//! Any text as a problem, and any lines as commands.

use skill_envs::alfworld::{Game, GameError, Play, Rules, TaskType, generate};
use std::sync::{Arc, OnceLock};

/// How many commands are tried in a problem that was taken.
const N_COMMANDS: usize = 12;

/// Reads a text as a problem: what is taken can be played by every command that is called admissible, and what is
/// refused is refused at a place in the text.
pub fn alfworld_problem(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let game = match Game::from_problem(Rules::CURRENT, "do it.", &text) {
        Ok(game) => game,
        Err(GameError::Problem { place, .. }) => {
            assert!(place.line <= text.split('\n').count(), "{place} is not in the text");
            let line = text.split('\n').nth(place.line - 1).unwrap_or_default();
            assert!(place.column <= line.chars().count() + 1, "{place} is not in its line");
            return;
        }
        Err(_) => return,
    };
    let plan = game.plan();
    let mut play = Play::new(Arc::new(game));
    if let Ok(plan) = plan {
        play.reset();
        for command in &plan {
            assert!(play.step(command).understood, "{command} of {plan:?}");
        }
        assert!(play.is_won(), "{plan:?}");
    }
    play.reset();
    for number in 0..N_COMMANDS {
        let admissible = play.admissible();
        for command in &admissible {
            // A name without a number ends in a blank, which is cut off, in the original too.
            let is_whole = command.trim() == command;
            assert_eq!(play.clone().step(command).understood, is_whole, "{command:?}");
        }
        let Some(command) = admissible.get(number * 7 % admissible.len().max(1)) else { return };
        play.step(command);
    }
}

/// Plays lines as commands: one is understood if and only if it is called admissible, and what is not understood
/// changes nothing.
///
/// The first byte chooses between the two wordings.
pub fn alfworld_commands(data: &[u8]) {
    let Some((first, rest)) = data.split_first() else { return };
    let mut play = Play::new(Arc::clone(&games()[usize::from(*first) % 2]));
    play.reset();
    for line in String::from_utf8_lossy(rest).split('\n') {
        let before = play.admissible();
        // Python cuts off four more characters than Rust does.
        let command = line.trim_matches(|character: char| {
            character.is_whitespace() || ('\x1c'..='\x1f').contains(&character)
        });
        let is_admissible = before.iter().any(|admissible| admissible == command);
        let turn = play.step(line);
        assert_eq!(turn.understood, is_admissible, "{line:?}");
        assert_eq!(turn.observation == "Nothing happens.", !is_admissible, "{line:?}");
        assert_eq!((turn.reward > 0.0, turn.done), (turn.won, turn.won), "{line:?}");
        if !is_admissible {
            assert_eq!(play.admissible(), before, "{line:?}");
        }
    }
}

/// A kitchen by the current rules, and the same by the first ones.
fn games() -> &'static [Arc<Game>; 2] {
    static GAMES: OnceLock<[Arc<Game>; 2]> = OnceLock::new();
    GAMES.get_or_init(|| {
        let made = generate(1, "fuzz", TaskType::HeatAndPlace).unwrap();
        [Rules::CURRENT, Rules::FIRST]
            .map(|rules| Arc::new(Game::from_problem(rules, made.game.task(), &made.problem).unwrap()))
    })
}
