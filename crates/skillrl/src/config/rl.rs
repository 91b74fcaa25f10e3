//! The section of reinforcement learning.

use super::key::KeyDefault::{Absent, Value};
use super::key::declare::{choice, decisive, integer, length, number, process, settings};
use super::key::{MAX_COUNT, MAX_TOKENS};
use super::keys::with_defaults;
use super::sft::MAX_RANK;
use skill_pipeline::settings::{
    RlAdvantage, RlAggregation, RlBaseline, RlKlEstimator, RlSettings, RlStatistics,
};

settings! {
    /// `[rl]`.
    RlConfig for RlSettings {
        /// Iterations of the run: each plays episodes once and passes over them once. More extend a finished run.
        iterations: u64 = length(integer(1, MAX_COUNT), Value("150")) => iterations;
        /// Training tasks of an iteration, each of which has a group of episodes.
        tasks: u32 = decisive(integer(1, MAX_COUNT), Value("16")) => tasks;
        /// Episodes of each task in an iteration; at least 2, since they are compared with each other.
        group_size: u32 = decisive(integer(1, MAX_COUNT), Value("8")) => group_size;
        /// Episodes of an optimizer step; the last step of an iteration may have fewer.
        batch_size: u32 = decisive(integer(1, MAX_COUNT), Value("64")) => batch_size;
        /// The learning rate. The default is for all weights; an adapter needs a higher one.
        learning_rate: f64 = decisive(number(1e-12, 10.0), Value("1e-6")) => learning_rate;
        /// Decoupled weight decay of matrices.
        weight_decay: f64 = decisive(number(0.0, 1.0), Value("0.01")) => weight_decay;
        /// The largest norm of the gradient; larger ones are scaled down. 0 sets no limit.
        max_grad_norm: f64 = decisive(number(0.0, 1e6), Value("1.0")) => max_grad_norm;
        /// KL penalty coefficient against the reference policy (before the first iteration); 0 disables it.
        kl_coeff: f64 = decisive(number(0.0, 1e3), Value("0.01")) => kl_coeff;
        /// Estimator of the KL divergence: `k3`, `k1` or `k2` (J. Schulman, "Approximating KL Divergence", 2020).
        kl_estimator: RlKlEstimator = decisive(choice::<RlKlEstimator>(), Value("\"k3\"")) => kl_estimator;
        /// The ratio of new and old probability is clipped to 1 minus and 1 plus this.
        clip_epsilon: f64 = decisive(number(1e-6, 1.0), Value("0.2")) => clip_epsilon;
        /// The ratio is clipped to 1 plus this instead (clip-higher).
        clip_epsilon_high: Option<f64> = decisive(number(1e-6, 10.0), Absent { example: "0.28" }) => clip_epsilon_high;
        /// The cap of the ratio for negative advantages (dual clip). 0 sets none.
        dual_clip: f64 = decisive(number(0.0, 1e3), Value("3.0")) => dual_clip;
        /// The factor of the entropy in nats that is subtracted from the loss.
        entropy_coeff: f64 = decisive(number(0.0, 1e3), Value("0.0")) => entropy_coeff;
        /// From returns to advantages: less the mean and divided by the standard deviation (`standardized`), less
        /// the mean (`centered`, Dr. GRPO), or less the mean of the others (`leave_one_out`, RLOO).
        advantage: RlAdvantage = decisive(choice::<RlAdvantage>(), Value("\"standardized\"")) => advantage;
        /// What counts once in the mean and the deviation of a group: an episode (`trajectories`), or a reply
        /// (`steps`, the code of the SkillRL paper).
        statistics: RlStatistics = decisive(choice::<RlStatistics>(), Value("\"trajectories\"")) => statistics;
        /// The episodes that are compared with each other: those of a group that were shown the same skills
        /// (`arm`), or all of it (`group`).
        baseline: RlBaseline = decisive(choice::<RlBaseline>(), Value("\"arm\"")) => baseline;
        /// From the losses of tokens to that of an optimizer step: the mean over all tokens (`token_mean`), over
        /// episodes of the mean (`seq_mean_token_mean`) or the sum (`seq_mean_token_sum`) over their tokens, or
        /// the last one divided by `max_reply_tokens` (`seq_mean_token_sum_norm`, Dr. GRPO).
        aggregation: RlAggregation = decisive(choice::<RlAggregation>(), Value("\"token_mean\"")) => aggregation;
        /// Penalty per invalid action, subtracted from the return of its episode.
        invalid_action_penalty: f64 = decisive(number(0.0, 1e3), Value("0.1")) => invalid_action_penalty;
        /// The weight of the advantage of single replies beside that of their episode (`GiGPO`, 2025; 1 there).
        /// Replies to the same observation are compared by what followed, less the penalty of a reply itself. 0
        /// computes none.
        reply_advantage: f64 = decisive(number(0.0, 100.0), Value("0.0")) => reply_advantage;
        /// The discount of each later turn in what followed a reply, with `reply_advantage`.
        discount: f64 = decisive(number(0.0, 1.0), Value("0.95")) => discount;
        /// The divisor of the logits while episodes are sampled.
        temperature: f64 = decisive(number(0.01, 100.0), Value("1.0")) => temperature;
        /// The most tokens of a prompt, the earlier turns of its episode included; a longer one ends the episode.
        max_prompt_tokens: u32 = decisive(integer(2, MAX_TOKENS), Value("6000")) => max_prompt_tokens;
        /// The most tokens of a reply.
        max_reply_tokens: u32 = decisive(integer(1, MAX_TOKENS), Value("1024")) => max_reply_tokens;
        /// Tokens of one forward pass at most. A batch with more is split, which changes memory and rounding alone.
        micro_batch_tokens: u32 = decisive(integer(2, MAX_TOKENS), Value("8192")) => micro_batch_tokens;
        /// The rank of the LoRA adapter on all linear layers. 0 trains all weights, which needs a folder with
        /// safetensors. A policy that has an adapter keeps it.
        lora_rank: u32 = decisive(integer(0, MAX_RANK), Value("16"));
        /// The scale of the adapter times its rank; without it, twice the rank.
        lora_alpha: Option<f64> = decisive(number(1e-6, 1e6), Absent { example: "32.0" });
        /// An active skill is withdrawn once a trial shows, with 95 % confidence, that the odds of success with it are
        /// less than this multiple of those without it: the policy has internalized it. Such trials are made while no
        /// candidate waits. 0 withdraws none; 1.1 takes thousands of episodes to tell, 1.5 some hundred.
        withdraw_below: f64 = decisive(number(0.0, 100.0), Value("0.0")) => withdraw_below;
        /// Iterations between two times that games are played.
        validation_interval: u64 = process(integer(1, MAX_COUNT), Value("5")) => validation_interval;
        /// Validation episodes of each measurement, by greedy decoding.
        games: u32 = process(integer(0, MAX_COUNT), Value("0"));
    }
}

with_defaults!(RlConfig);
