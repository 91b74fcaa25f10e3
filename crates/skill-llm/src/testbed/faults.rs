//! What goes wrong, and when.

use skill_core::random::Dice;
use std::time::Duration;

/// How a request fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum InjectedFault {
    /// HTTP 429.
    RateLimited(Ask),
    /// HTTP 500.
    ServerError,
    /// HTTP 503, not in JSON.
    Unavailable,
    /// No connection.
    Refused,
    /// Nothing, until the time is up.
    Hang,
    /// The connection breaks before the response.
    ResetBefore,
    /// The connection breaks in the middle of the body.
    ResetInside,
    /// Half of the body, as if it were all.
    TruncatedJson,
    /// No choice in the reply.
    EmptyChoices,
    /// A whole reply with `"content": null`.
    NullContent,
    /// Bytes that are no text.
    InvalidUtf8,
    /// 10 MB; a whole reply if the request allows so much.
    Oversized,
    /// A page for people, with status 200.
    WrongContentType,
}

impl InjectedFault {
    /// Every fault of a single request at this rate, for [`SimConfig::faults`]; a 429 asks for no wait.
    pub fn each(rate: f64) -> Vec<(Self, f64)> {
        let faults = [
            Self::RateLimited(Ask::Nothing),
            Self::ServerError,
            Self::Hang,
            Self::ResetBefore,
            Self::ResetInside,
            Self::TruncatedJson,
            Self::EmptyChoices,
            Self::InvalidUtf8,
            Self::Oversized,
            Self::WrongContentType,
            Self::NullContent,
        ];
        faults.map(|fault| (fault, rate)).to_vec()
    }
}

/// How a 429 asks to wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Ask {
    /// It does not.
    Nothing,
    /// `Retry-After` in seconds.
    RetryAfter,
    /// `Retry-After` as a date, beside `Date`.
    RetryAfterDate,
    /// `retry-after-ms`.
    RetryAfterMs,
    /// `x-ratelimit-reset-requests`.
    Reset,
}

impl Ask {
    const ALL: [Self; 5] =
        [Self::Nothing, Self::RetryAfter, Self::RetryAfterDate, Self::RetryAfterMs, Self::Reset];
}

/// A time in which every request is refused with 429; times count from the provider's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// Its beginning.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
    /// How it asks to wait until then.
    pub ask: Ask,
}

/// A time in which every request fails alike; times count from the provider's beginning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    /// Its beginning.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
    /// How requests fail.
    pub fault: InjectedFault,
}

/// How long replies take: lognormal.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SimLatency {
    /// Half of the replies take longer; 50 ms by default.
    pub median: Duration,
    /// The spread of the logarithm: 0 for a constant, the default; 1 for a long tail.
    pub sigma: f64,
    /// No reply takes longer; 10 minutes by default.
    pub max: Duration,
    /// With more than this many in flight, all take longer in proportion; `None`, the default, for any number.
    pub capacity: Option<usize>,
}

impl Default for SimLatency {
    fn default() -> Self {
        let max = Duration::from_secs(600);
        Self { median: Duration::from_millis(50), sigma: 0.0, max, capacity: None }
    }
}

/// A provider's behaviour; without faults by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct SimConfig {
    /// What everything random comes from.
    pub seed: u64,
    /// How long replies take.
    pub latency: SimLatency,
    /// How often requests fail in these ways, from 0 to 1.
    pub faults: Vec<(InjectedFault, f64)>,
    /// When requests are refused.
    pub bursts: Vec<Burst>,
    /// When nothing works.
    pub outages: Vec<Outage>,
    /// With more than this many in flight, requests are refused with 429; `None`, the default, for any number.
    pub refuse_above: Option<usize>,
}

/// What happens to one request.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Plan {
    pub(super) fault: Option<InjectedFault>,
    pub(super) latency: Duration,
}

impl SimConfig {
    /// Bad weather, different for each seed: a tail of latency, every fault now and then, bursts of 429 that ask in
    /// different ways, and outages of at most `longest_outage`, all within the first two minutes.
    pub fn storm(seed: u64, longest_outage: Duration) -> Self {
        let dice = Dice::new(seed, &["storm"]);
        let between = |label: &str, low: f64, high: f64| low + dice.unit(label) * (high - low);
        let seconds = |label: &str, low: f64, high: f64| Duration::from_secs_f64(between(label, low, high));
        let bursts = (0..2).filter_map(|n| {
            let from = seconds(&format!("burst from {n}"), 0.0, 60.0);
            let until = from + seconds(&format!("burst for {n}"), 0.5, 20.0);
            let ask = dice.pick(&format!("burst ask {n}"), &Ask::ALL).copied()?;
            Some(Burst { from, until, ask })
        });
        let kinds = [
            InjectedFault::Refused,
            InjectedFault::Unavailable,
            InjectedFault::ResetBefore,
            InjectedFault::Hang,
        ];
        let outages = (0..2).filter(|n| dice.chance(&format!("outage {n}"), 0.5)).filter_map(|n| {
            let from = seconds(&format!("outage from {n}"), 0.0, 60.0);
            let until = from + longest_outage.mul_f64(dice.unit(&format!("outage for {n}")));
            let fault = dice.pick(&format!("outage kind {n}"), &kinds).copied()?;
            Some(Outage { from, until, fault })
        });
        Self {
            seed,
            latency: SimLatency {
                median: seconds("median", 0.02, 2.0),
                sigma: between("sigma", 0.0, 1.0),
                ..SimLatency::default()
            },
            faults: InjectedFault::each(between("faults", 0.0, 0.02)),
            bursts: bursts.collect(),
            outages: outages.collect(),
            refuse_above: None,
        }
    }

    pub(super) fn plan(&self, digest: [u8; 32], seen: u64, now: Duration, in_flight: usize) -> Plan {
        let body: String = digest.iter().map(|byte| char::from(*byte)).collect();
        let dice = Dice::new(self.seed, &[&body, &seen.to_string()]);
        Plan { fault: self.fault(dice, now, in_flight), latency: self.latency.draw(dice, in_flight) }
    }

    fn fault(&self, dice: Dice, now: Duration, in_flight: usize) -> Option<InjectedFault> {
        if let Some(outage) = self.outages.iter().find(|outage| (outage.from..outage.until).contains(&now)) {
            return Some(outage.fault);
        }
        if let Some(burst) = self.bursts.iter().find(|burst| (burst.from..burst.until).contains(&now)) {
            return Some(InjectedFault::RateLimited(burst.ask));
        }
        if self.refuse_above.is_some_and(|most| in_flight > most) {
            return Some(InjectedFault::RateLimited(Ask::Nothing));
        }
        let mut thrown = dice.unit("fault");
        self.faults.iter().find_map(|&(fault, rate)| {
            let hit = thrown < rate;
            thrown -= rate;
            hit.then_some(fault)
        })
    }
}

impl SimLatency {
    fn draw(&self, dice: Dice, in_flight: usize) -> Duration {
        // Box and Muller, "A note on the generation of random normal deviates", 1958.
        let radius = (-2.0 * (1.0 - dice.unit("radius")).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * dice.unit("angle")).cos();
        let load = self.capacity.map_or(1.0, |capacity| (in_flight as f64 / capacity.max(1) as f64).max(1.0));
        let seconds = self.median.as_secs_f64() * (self.sigma * normal).exp() * load;
        Duration::try_from_secs_f64(seconds).unwrap_or(self.max).min(self.max)
    }
}
