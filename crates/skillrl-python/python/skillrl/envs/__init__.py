"""Environments: tasks that a skill is trained on."""

from skillrl.envs.base import SkillEnv
from skillrl.envs.qa import SimpleQAEnv
from skillrl.envs.task import TaskEnv

__all__ = ["SimpleQAEnv", "SkillEnv", "TaskEnv"]
