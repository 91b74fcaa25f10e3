"""The strict gate: a candidate has to score higher, and a tie is a rejection."""

from __future__ import annotations

from skillrl import _native
from skillrl.config import GateMetric
from skillrl.types import GateAction, GateResult


def select_gate_score(hard: float, soft: float, metric: GateMetric = "hard", mixed_weight: float = 0.5) -> float:
    """The score that is compared: ``hard``, ``soft``, or ``(1 - w) * hard + w * soft`` with ``w = mixed_weight``.

    Raises ValueError for an unknown metric, and for a weight outside [0, 1] with ``mixed``.
    """
    return _native.gate_score(hard, soft, metric, mixed_weight)


def evaluate_gate(
    *,
    candidate_skill: str,
    cand_hard: float,
    current_skill: str,
    current_score: float,
    best_skill: str,
    best_score: float,
    best_step: int,
    global_step: int,
    cand_soft: float = 0.0,
    metric: GateMetric = "hard",
    mixed_weight: float = 0.5,
) -> GateResult:
    """Decide on a candidate: ``accept_new_best``, ``accept``, or ``reject``.

    A run compares exact sums of its items' scores, which rounding cannot change; here the means are compared.
    """
    score = select_gate_score(cand_hard, cand_soft, metric, mixed_weight)
    action: GateAction = "accept_new_best" if score > best_score else "accept" if score > current_score else "reject"
    if action != "reject":
        current_skill, current_score = candidate_skill, score
    if action == "accept_new_best":
        best_skill, best_score, best_step = candidate_skill, score, global_step
    return GateResult(action, current_skill, current_score, best_skill, best_score, best_step)
