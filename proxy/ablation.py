"""Parts of the question engine that ``sparlance eval --without`` leaves out, to say what each is worth."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from proxy.evaluation.parts import Part
from proxy.nl.engine import QuestionEngine
from proxy.nl.linking import Link, Linker
from proxy.nl.onnx import OnnxEncoder
from proxy.nl.shape import read
from proxy.nl.sketch import Item, Sketch
from proxy.pipeline.contest import ALL_ON, Switches
from proxy.pipeline.dataset import Dataset


def leave_out(parts: Iterable[Part], dataset: Dataset) -> Switches:
    """Give *dataset* an engine without *parts*; what is no part of an engine is switched off in what is returned."""
    parts = frozenset(parts)
    if parts & {Part.CONTENT, Part.LITERALS, Part.TYPES, Part.SHAPE}:
        assert dataset.index is not None and dataset.values is not None, "the index is built before something is left out of it"
        settings = dataset.settings.nl
        encoder = OnnxEncoder(threads=settings.threads)
        values: Any = dataset.values
        if Part.CONTENT in parts:
            values = _NoContent()
        elif Part.LITERALS in parts:
            values = _NoLiterals(dataset.values)
        make = _Shapeless if Part.SHAPE in parts else QuestionEngine
        ranker = dataset.engine.ranker if dataset.engine is not None else None
        engine = make(dataset.index, values, encoder, settings, ranker)
        if Part.TYPES in parts:
            engine.linker = _Untyped(engine.schema, values, encoder)
        dataset.engine = engine
    return replace(
        ALL_ON,
        consensus=Part.CONSENSUS not in parts,
        validator=Part.VALIDATOR not in parts,
        gate=Part.GATE not in parts,
        corrector=Part.CORRECTOR not in parts,
        execution_feedback=Part.FEEDBACK not in parts,
    )


class _NoLiterals:
    """A value index in which nothing is found, but which still knows examples and numbers of values."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def lookup(self, normalised: str) -> list[Any]:
        return []

    def search(self, text: str, limit: int = 10) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._values, name)


class _NoContent(_NoLiterals):
    def __init__(self) -> None:
        super().__init__(None)

    def examples(self, class_: str | None, property_: str, limit: int = 5) -> list[Any]:
        return []

    def distinct(self, class_: str | None, property_: str) -> int | None:
        return None


class _Untyped(Linker):
    def numeric(self, links: Sequence[Link]) -> list[Link]:
        return list(links)


class _Shapeless(QuestionEngine):
    """Shows what is named; counts, sorts, groups and excludes nothing."""

    def shapes(self, items: Sequence[Item]) -> list[Sketch]:
        return [Sketch(select=tuple(replace(slot, aggregate=None) for slot in read(items).select))]
