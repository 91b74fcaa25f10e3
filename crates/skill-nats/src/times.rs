//! How long the parts wait for each other. All of it is measured by monotonic clocks, each on one machine.

use std::time::Duration;

/// The intervals of drivers and workers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Times {
    /// A worker says that it is there this often; 2 s by default.
    pub beat: Duration,
    /// A worker that was not heard of for so long is lost: others get its jobs. 15 s by default.
    pub lost: Duration,
    /// A driver announces its run this often; 2 s by default.
    pub announce: Duration,
    /// A driver that finds a stream of an earlier process of its run waits so long for workers that have jobs of it; 0.3 s by
    /// default.
    pub greet: Duration,
    /// The driver looks after workers and jobs this often; 0.5 s by default.
    pub tick: Duration,
    /// A question without any answer is asked again after this time; 2 s by default.
    pub first_poll: Duration,
    /// A question that is being worked on is asked about this often; 5 s by default.
    pub poll: Duration,
    /// A job that nobody has taken is put into the queue again after this time; 60 s by default.
    pub requeue: Duration,
    /// The broker gives a job to another worker if it was not heard of for so long; 30 s by default.
    pub ack_wait: Duration,
    /// A worker tells the broker this often that it works on a job; 10 s by default.
    pub progress: Duration,
    /// A request for a job waits so long at the broker; 10 s by default.
    pub pull: Duration,
    /// A stream without jobs is deleted after this time, if no stage ends before; 2 s by default.
    pub linger: Duration,
    /// A worker keeps a job whose driver does not know it for so long: a driver that was started again comes to it.
    /// 30 s by default.
    pub orphan: Duration,
    /// A worker gives its jobs up if their driver was not heard of for so long, while the broker was there. 5 minutes by
    /// default.
    pub abandon: Duration,
    /// The run fails if the broker was away for so long; 10 minutes by default.
    pub give_up: Duration,
    /// So many workers may be lost while they make one job; with the next one the job is at fault. 3 by default.
    pub max_losses: u32,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            beat: Duration::from_secs(2),
            lost: Duration::from_secs(15),
            announce: Duration::from_secs(2),
            greet: Duration::from_millis(300),
            tick: Duration::from_millis(500),
            first_poll: Duration::from_secs(2),
            poll: Duration::from_secs(5),
            requeue: Duration::from_secs(60),
            ack_wait: Duration::from_secs(30),
            progress: Duration::from_secs(10),
            pull: Duration::from_secs(10),
            linger: Duration::from_secs(2),
            orphan: Duration::from_secs(30),
            abandon: Duration::from_secs(300),
            give_up: Duration::from_secs(600),
            max_losses: 3,
        }
    }
}
