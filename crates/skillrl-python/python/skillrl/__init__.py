"""Train the skill document of an LLM agent, on the Rust engine of skillrl.

The interface is that of the package skillrl 1.0 with more beside it: see ``docs/python.md``.

>>> from skillrl import SkillOptConfig, SkillOptTrainer
>>> from skillrl.envs import SimpleQAEnv
>>> from skillrl.llm import OpenAIChatClient
"""

from skillrl import _process

_process.check_interpreter()

from skillrl import core, envs, llm, pipeline, prompts, traces
from skillrl._native import __version__
from skillrl.agents import Failed, Measured, eval_agent, eval_file, train_agent
from skillrl.config import SkillOptConfig
from skillrl.envs.task import TaskEnv
from skillrl.errors import ConfigError, ModelError, RunError, SkillRLError
from skillrl.run import Run, Verdict
from skillrl.table import RunsTable, compare, runs_frame
from skillrl.trainer import SkillOptTrainer, train_file
from skillrl.types import Edit, GateAction, GateResult, Patch, RawPatch, RolloutResult

__all__ = [
    "ConfigError",
    "Edit",
    "Failed",
    "Measured",
    "GateAction",
    "GateResult",
    "ModelError",
    "Patch",
    "RawPatch",
    "RolloutResult",
    "Run",
    "Verdict",
    "RunError",
    "RunsTable",
    "SkillOptConfig",
    "SkillOptTrainer",
    "SkillRLError",
    "TaskEnv",
    "__version__",
    "compare",
    "core",
    "envs",
    "llm",
    "pipeline",
    "prompts",
    "runs_frame",
    "eval_agent",
    "eval_file",
    "traces",
    "train_agent",
    "train_file",
]
