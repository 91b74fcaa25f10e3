//! Whether a trajectory holds what was really sent.

use skill_core::{Trajectory, TrajectoryMessage};
use skill_envs::record;
use skill_llm::ChatRequest;

/// Each turn of the trajectory is one of these requests, in order, to the letter.
#[track_caller]
pub(crate) fn check_requests(trajectory: &Trajectory, sent: &[ChatRequest]) {
    assert_eq!(trajectory.turns.len(), sent.len());
    for (turn, request) in trajectory.turns.iter().zip(sent) {
        let expect: Vec<TrajectoryMessage> = request.messages.iter().map(record::message).collect();
        let recorded = trajectory.request(turn).cloned().map(|message| message.with_reasoning(None));
        assert_eq!(recorded.collect::<Vec<_>>(), expect);
        assert!(trajectory.reply(turn).is_some());
    }
}
