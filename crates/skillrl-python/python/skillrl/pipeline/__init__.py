"""The stages of a step as functions, for loops of one's own: rollout, reflect, aggregate, select.

The update is `skillrl.core.apply_patch`, the decision `skillrl.core.evaluate_gate`. Nothing is kept between calls:
`skillrl.SkillOptTrainer` has the journal, the caps and the resume.
"""

from skillrl.pipeline.aggregate import merge_patches
from skillrl.pipeline.reflect import run_minibatch_reflect
from skillrl.pipeline.rollout import run_rollout, split_failures_successes
from skillrl.pipeline.select import rank_and_select

__all__ = [
    "merge_patches",
    "rank_and_select",
    "run_minibatch_reflect",
    "run_rollout",
    "split_failures_successes",
]
