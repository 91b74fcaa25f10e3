//! What is wrong with a game, and where.

use crate::error::EnvError;
use std::fmt;
use std::path::Path;

/// A game that cannot be played.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GameError {
    /// A problem that does not read as PDDL of the domain.
    #[error("the problem, {place}: {message}")]
    Problem {
        /// Where in the problem's text.
        place: TextPlace,
        /// What is wrong.
        message: String,
    },
    /// A problem that reads well and makes no game.
    #[error("the problem: {message}")]
    Room {
        /// What is wrong.
        message: String,
    },
    /// A domain or a grammar other than those whose rules are known.
    #[error("{message}")]
    Rules {
        /// What is wrong and what is known.
        message: String,
    },
    /// A goal that no plan reaches.
    #[error("{message}")]
    Unsolvable {
        /// What is in the way.
        message: String,
    },
}

impl GameError {
    /// The same, as a fault of this file.
    pub fn in_file(self, file: &Path) -> EnvError {
        EnvError::BadData { path: file.to_path_buf(), message: self.to_string() }
    }

    /// The same, as a fault of a file that holds the problem and nothing else.
    pub(super) fn in_problem_file(self, file: &Path) -> EnvError {
        match self {
            Self::Problem { place: TextPlace { line, column }, message } => EnvError::BadLine {
                path: file.to_path_buf(),
                line,
                message: format!("column {column}: {message}"),
            },
            other => other.in_file(file),
        }
    }
}

/// A place in a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextPlace {
    /// The line, from 1.
    pub line: usize,
    /// The column in characters, from 1.
    pub column: usize,
}

impl TextPlace {
    /// The place of the byte at this offset.
    pub(super) fn of(text: &str, offset: usize) -> Self {
        let before = text.get(..offset).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |end| end + 1);
        Self {
            line: 1 + before.matches('\n').count(),
            column: 1 + before.get(line_start..).unwrap_or_default().chars().count(),
        }
    }
}

impl fmt::Display for TextPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}, column {}", self.line, self.column)
    }
}
