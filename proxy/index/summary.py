"""What an index holds, in numbers, for ``GET /-/index`` and ``sparlance index show``."""

from __future__ import annotations

from typing import Any

from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex


def summary(index: SupportIndex, values: ValueIndex, *, queries: int = 0, elapsed_s: float = 0.0) -> dict[str, Any]:
    """Sum up, JSON-ready. *queries* and *elapsed_s*: what the build cost."""
    return {
        "triples": index.triples,
        "classes": dict(sorted(index.class_instances.items(), key=lambda item: (-item[1], item[0]))),
        "kinds": sum(not k.is_literal for k in index.kinds),
        "are_kinds_exact": index.are_kinds_exact,
        "datatypes": sum(k.is_literal for k in index.kinds),
        "properties": len(index.properties),
        "cells": len(index.count),
        "values": len(values),
        "is_complete": index.is_complete_for(),
        "incomplete": [{"class": c.subject_class, "property": c.property, "reason": c.reason} for c in index.incomplete],
        "class_predicate": index.class_predicate,
        "built_at": index.built_at,
        "epoch": index.epoch,
        "queries": queries,
        "elapsed_s": round(elapsed_s, 3),
    }
