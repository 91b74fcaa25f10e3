"""Decisions as functions: the editor, schedules of the edit budget, the gate, and small utilities.

They are those of the engine, and ask no model.
"""

from skillrl.core.editor import apply_edit, apply_patch, apply_patch_with_report
from skillrl.core.gate import evaluate_gate, select_gate_score
from skillrl.core.scheduler import (
    ConstantScheduler,
    CosineScheduler,
    LinearScheduler,
    LRScheduler,
    build_scheduler,
)
from skillrl.core.utils import compute_score, extract_json, skill_hash

__all__ = [
    "ConstantScheduler",
    "CosineScheduler",
    "LRScheduler",
    "LinearScheduler",
    "apply_edit",
    "apply_patch",
    "apply_patch_with_report",
    "build_scheduler",
    "compute_score",
    "evaluate_gate",
    "extract_json",
    "select_gate_score",
    "skill_hash",
]
