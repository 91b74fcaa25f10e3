//! Progress of a bank's training, as the tests of bars and of `watch` have it.

use skillrl::pipeline::run_dir::bank_progress::BankProgress;

pub(crate) fn bank() -> BankProgress {
    serde_json::from_value(serde_json::json!({
        "rounds": 3, "round": 1, "n_active": 4, "n_waiting": 2, "n_trials": 7, "n_admitted": 3,
        "n_retired": 1, "baseline": {"hard": 0.4167, "soft": 0.5},
        "validation": {"round": 0, "score": {"hard": 0.5833, "soft": 0.6}, "n_items": 36},
        "trial": trial(), "trials": [],
    }))
    .unwrap()
}

pub(crate) fn trial() -> serde_json::Value {
    serde_json::json!({
        "trial": 8, "skill": "heat_002", "title": "Open the microwave before you heat", "tier": "heat",
        "is_retirement": false, "is_fresh": false, "n_items": 6,
        "rule": {"any_time": {"threshold": 20.0, "groups_per_look": 18}},
        "rollouts": 120, "max_rollouts": 640, "n_measured": 96,
        "numbers": {
            "groups": 12, "informative_groups": 7, "with": [30, 48], "without": [24, 48],
            "p_better": 0.11, "p_worse": 0.94, "e_better": 3.21, "e_worse": 0.1, "difference": 0.125,
            "interval": [-0.03, 0.28], "odds": 1.7, "odds_interval": {"low": 0.8, "high": 3.9},
        },
    })
}
