"""A language model's say in a choice: the best few candidates get one number more, within a time of its own.

Where the queue before the model is full, the time is over or the model fails, the candidates keep the scores they have: an
answer never depends on the model.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from proxy.errors import ModelBusy, ModelError
from proxy.nl.enumerate import Candidate
from proxy.pipeline.model_queue import ModelQueue, Turn

if TYPE_CHECKING:
    from proxy.nl.lm.scorer import LmScorer

JUDGED = 8
"""Candidates that are read: one batch."""
MOST_S = 3.0


@dataclass(slots=True)
class Judge:
    """*scorer* behind *queue*. weight: what one nat a token more is worth, in the ranking's scores."""

    scorer: LmScorer
    weight: float = 1.0
    queue: ModelQueue = field(default_factory=lambda: ModelQueue(name="judge"))

    async def judge(
        self, question: str, ranked: Sequence[Candidate], *, timeout_s: float
    ) -> tuple[list[Candidate], dict[str, Any]]:
        """*ranked* with its best few in a new order, and an account of it, JSON-ready.

        What is added to the scores has mean 0, so that those judged and the rest stay comparable.
        """
        best = list(ranked[:JUDGED])
        if len(best) < 2:
            return list(ranked), {"state": "nothing to judge"}
        asked = question, [c.words for c in best]
        try:
            (found, tokens), turn = await self.queue.run(
                self._score, asked, key="score", timeout_s=min(MOST_S, timeout_s), is_whole=True
            )
        except ModelBusy:
            return list(ranked), {"state": "busy"}
        except TimeoutError:
            return list(ranked), {"state": "out of time"}
        except ModelError as exc:
            return list(ranked), {"state": "failed", "error": str(exc)[:200]}
        account = turn.account() | {"tokens_read": tokens}
        if any(f is None for f in found):
            state = "out of time" if time.perf_counter() >= turn.due else "too long"
            return list(ranked), {"state": state} | account
        mean = sum(found) / len(found)
        for c, value in zip(best, found, strict=True):
            c.features["likelihood"] = value
            c.score += self.weight * (value - mean)
        best.sort(key=lambda c: -c.score)
        return [*best, *ranked[len(best) :]], {"state": "judged", "candidates": len(best)} | account

    def _score(self, turns: Sequence[Turn[tuple[str, list[str]]]]) -> list[tuple[list[float | None], int]]:
        """The scores of each turn, and how many tokens were read for them."""
        out = []
        for turn in turns:
            (question, texts), before = turn.item, self.scorer.model.tokens_read
            found = self.scorer.score(question, texts, clock=time.perf_counter, deadline=turn.deadline)
            out.append((found, self.scorer.model.tokens_read - before))
        return out
