"""When our own analysis of a query fails: nothing is known of the query, and the failure is told once.

An exception in parser, policy or prover is a bug of ours, not the client's error: the query goes on as one that nobody could
analyse. So that it is seen all the same, it is logged and counted.
"""

from __future__ import annotations

import hashlib
import traceback
from collections import Counter
from dataclasses import dataclass, field

import structlog

from proxy.errors import MalformedQuery

STAGES = ("parse", "policy", "check")
"""Where it failed: reading the text; the rules of ``[policy]``; the comparison with the index, its proof, or its live ASK."""
KNOWN_MOST = 4096
"""Texts that were told of; then all are forgotten, and may be told of once more."""
FRAMES_MOST = 30


@dataclass(slots=True)
class Failures:
    """Those of one dataset. Safe to use from several threads: at worst two of them tell of one text.

    counts: failures by stage, those that were not logged included.
    """

    counts: Counter[str] = field(default_factory=Counter)
    _told: set[bytes] = field(default_factory=set)

    def note(self, text: str, stage: str, error: Exception) -> None:
        """Count that *stage* failed on the query *text*, and log where, if it is the first time for this text.

        The log has the text's digest, the exception's class and the lines of ours that it came from. Not its message: of a
        KeyError that is the key, an IRI of the query.
        """
        self.counts[stage] += 1
        digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8)
        if digest.digest() in self._told:
            return
        if len(self._told) >= KNOWN_MOST:
            self._told.clear()
        self._told.add(digest.digest())
        trace = "".join(traceback.format_tb(error.__traceback__, limit=-FRAMES_MOST))
        structlog.get_logger().error(
            "analysis_failed", stage=stage, query=digest.hexdigest(), error=type(error).__name__, trace=trace
        )


def unreadable() -> MalformedQuery:
    """What stands for a text at which the parser failed: the backend may read it, where the policy can do without us."""
    return MalformedQuery("an unforeseen failure of Sparlance: the text could not be analysed", reason="internal")
