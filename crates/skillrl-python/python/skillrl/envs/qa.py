"""Questions with known answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skillrl.envs.base import SkillEnv
from skillrl.llm.base import BaseLLMClient
from skillrl.types import RolloutResult

_NO_SKILL = "Answer the question. Give the answer alone."


class SimpleQAEnv(SkillEnv):
    """Questions with known answers: ``{"id", "question", "answers", "context"?, "task_type"?}``.

    A reply is right if one of the answers is in it, whatever the case and the spaces. The graded score of another
    reply is the overlap of its words with the nearest answer (F1).
    """

    name = "simple_qa"

    def __init__(
        self,
        *,
        train_items: Iterable[dict[str, Any]],
        val_items: Iterable[dict[str, Any]],
        test_items: Iterable[dict[str, Any]],
        max_completion_tokens: int = 512,
        initial_skill: str = "",
    ) -> None:
        self._splits = {"train": list(train_items), "val": list(val_items), "test": list(test_items)}
        self.max_completion_tokens = max_completion_tokens
        self._initial_skill = initial_skill
        items = [item for split in self._splits.values() for item in split]
        self.task_types = sorted({str(item["task_type"]) for item in items if item.get("task_type")})

    def get_initial_skill(self) -> str:
        return self._initial_skill

    def get_items(self, split: str) -> Sequence[dict[str, Any]]:
        if split not in self._splits:
            raise KeyError(f"there is no split {split!r}; the splits are {', '.join(self._splits)}")
        return self._splits[split]

    def get_settings(self) -> Any:
        return {"max_completion_tokens": self.max_completion_tokens, "scoring": 1}

    def rollout_one(self, *, item: dict[str, Any], skill: str, target_client: BaseLLMClient) -> RolloutResult:
        question, context = str(item.get("question") or ""), str(item.get("context") or "")
        answers = _answers(item)
        system = skill or _NO_SKILL
        parts = [f"Context:\n{context}"] if context else []
        user = "\n\n".join([*parts, f"Question: {question}", "Answer:"])
        text, _usage = target_client.chat(
            system=system, user=user, max_completion_tokens=self.max_completion_tokens, stage="rollout", retries=2
        )
        said = (text or "").strip()
        found, expected_words = _words(said), [_words(answer) for answer in answers]
        folded = " ".join(found)
        is_right = any(words and " ".join(words) in folded for words in expected_words)
        soft = 1.0 if is_right else round(max((_overlap(found, words) for words in expected_words), default=0.0), 4)
        expected = " or ".join(repr(answer[:60]) for answer in answers[:3]) or "nothing: the item has no answers"
        return RolloutResult(
            id=str(item.get("id", "")),
            hard=int(is_right),
            soft=soft,
            n_turns=1,
            fail_reason="" if is_right else f"the answer is {said[:80]!r}; expected {expected}",
            task_type=str(item.get("task_type") or ""),
            task_description=str(item.get("task_description") or ""),
            predicted_answer=said,
            question=question,
            reference_text=" | ".join(answers),
            target_system_prompt=system,
            target_user_prompt=user,
            conversation=[
                {"role": "system", "content": system},
                {"role": "user", "content": user},
                {"role": "assistant", "content": said},
            ],
        )


def _answers(item: dict[str, Any]) -> list[str]:
    answers = item.get("answers")
    if answers is None:
        return []
    return [str(answer) for answer in ([answers] if isinstance(answers, (str, int, float)) else answers)]


def _words(text: str) -> list[str]:
    return text.lower().split()


def _overlap(found: list[str], expected: list[str]) -> float:
    """F1 of the sets of words."""
    n_common = len(set(found) & set(expected))
    if not n_common:
        return 0.0
    precision, recall = n_common / len(found), n_common / len(expected)
    return 2 * precision * recall / (precision + recall)
