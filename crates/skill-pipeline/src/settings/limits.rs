//! How much of a trajectory a prompt shows.

/// The most characters of one field, such as the question.
pub const MAX_FIELD_CHARS: usize = 2_000;

/// The most characters of one turn: enough for a question with the ten paragraphs it is asked about.
pub const MAX_TURN_CHARS: usize = 8_000;

/// The most characters of one trajectory; fields are kept, the conversation gives way.
pub const MAX_TRAJECTORY_CHARS: usize = 24_000;

/// The most characters of a trajectory and of its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TrajectoryLimits {
    /// Of one field, such as the question.
    pub field: usize,
    /// Of one turn.
    pub turn: usize,
    /// Of one trajectory; fields are kept, the conversation gives way.
    pub trajectory: usize,
}

impl Default for TrajectoryLimits {
    fn default() -> Self {
        Self { field: MAX_FIELD_CHARS, turn: MAX_TURN_CHARS, trajectory: MAX_TRAJECTORY_CHARS }
    }
}
