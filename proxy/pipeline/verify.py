"""Ask a live graph whether an index is true: a random part is counted again, random paths are held against the prover."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from proxy.backends.base import Backend, Parameters
from proxy.index import chunks
from proxy.index.build import number
from proxy.index.support import SupportIndex
from proxy.index.values import ValueIndex
from proxy.pipeline.freshness import is_fresh
from proxy.query.model import ParsedQuery
from proxy.query.operation import DatasetDescription
from proxy.query.parse import parse
from proxy.query.term import Iri, Literal, RdfTerm
from proxy.validation.check import check, is_proved_empty

Progress = Callable[[str, int, int], None]
STEPS_MOST = 4
"""Edges of one walk."""


@dataclass(slots=True)
class Verdict:
    """What was found. cells: counted again. paths: walked. wrong: sentences; empty: the index is true as far as was looked."""

    cells: int = 0
    paths: int = 0
    skipped: int = 0
    counts_agree: bool = True
    wrong: list[str] = field(default_factory=list)

    @property
    def is_true(self) -> bool:
        return self.counts_agree and not self.wrong

    def summary(self) -> dict[str, Any]:
        return {
            "is_true": self.is_true,
            "counts_agree": self.counts_agree,
            "cells": self.cells,
            "paths": self.paths,
            "skipped": self.skipped,
            "wrong": self.wrong,
        }


async def verify(
    backend: Backend,
    index: SupportIndex,
    values: ValueIndex | None = None,
    *,
    cells: int = 40,
    paths: int = 100,
    seed: int = 0,
    timeout_s: float = 60.0,
    parameters: Parameters = (),
    progress: Progress = lambda phase, done, total: None,
) -> Verdict:
    """Count *cells* random entries of M live, and walk *paths* random paths of the graph: none may be called impossible.

    A walk starts at a random class, takes an edge out of where it is, at random, and ends at a literal or a dead end. The nodes
    it met become variables with their classes: a query that this very path answers.
    Raises:
        BackendError
    """
    rng = random.Random(seed)
    verdict = Verdict(counts_agree=await is_fresh(backend, index, timeout_s, parameters=parameters))
    look = _Look(backend, index, values, rng, timeout_s, parameters)
    matrix = sorted(index.matrix.items(), key=lambda entry: tuple(part or "" for part in entry[0]))
    chosen = rng.sample(matrix, min(cells, len(matrix)))
    for i, ((class_, property_, target), count) in enumerate(chosen):
        progress("cells", i, len(chosen))
        if not index.is_complete_for([class_] if class_ is not None else (), [property_]) or class_ is None:
            verdict.skipped += 1
            continue
        verdict.cells += 1
        live = await look.count(class_, property_, target)
        if live != count:
            verdict.wrong.append(f"({class_}, {property_}, {target or 'no class'}): {count} in the index, {live} live")
    for i in range(paths):
        progress("paths", i, paths)
        query = await look.walk()
        if query is None:
            verdict.skipped += 1
            continue
        verdict.paths += 1
        parsed = parse(query)
        assert isinstance(parsed, ParsedQuery)
        if is_proved_empty(check(parsed, index, values=values, dataset=DatasetDescription())):
            verdict.wrong.append(f"called impossible, though the graph has it: {query}")
    return verdict


class _Look:
    def __init__(
        self,
        backend: Backend,
        index: SupportIndex,
        values: ValueIndex | None,
        rng: random.Random,
        timeout_s: float,
        parameters: Parameters,
    ) -> None:
        self._backend = backend
        self._index = index
        self._values = values
        self._rng = rng
        self._timeout_s = timeout_s
        self._parameters = parameters
        self._classes = sorted(c for c, n in index.class_instances.items() if n)

    async def _rows(self, query: str) -> list[tuple[RdfTerm | None, ...]]:
        found = await self._backend.select(query, timeout_s=self._timeout_s, parameters=self._parameters)
        return found.rows

    async def count(self, class_: str, property_: str, target: str | None) -> int:
        """Triples from *class_* by *property_* to a class, a datatype, or (None) a node without a class."""
        a = chunks.iri(self._index.class_predicate)
        edge = f"?s {a} {chunks.iri(class_)} . ?s {chunks.iri(property_)} ?o . "
        if target is None:
            condition = f"FILTER(!isLiteral(?o)) FILTER NOT EXISTS {{ ?o {a} ?c . FILTER(isIRI(?c)) }}"
        elif target in self._datatypes:
            condition = f"FILTER(isLiteral(?o) && DATATYPE(?o) = {chunks.iri(target)})"
        else:
            condition = f"?o {a} {chunks.iri(target)} ."
        [[n]] = await self._rows(f"SELECT (COUNT(*) AS ?n) {{ {edge}{condition} }}")
        return number(n)

    @property
    def _datatypes(self) -> frozenset[str]:
        return frozenset(k.datatype for k in self._index.kinds if k.datatype is not None)

    async def walk(self) -> str | None:
        """A query that a random path of the graph answers; None: no path from there."""
        if not self._classes:
            return None
        a = chunks.iri(self._index.class_predicate)
        class_ = chunks.iri(self._rng.choice(self._classes))
        rows = await self._rows(f"SELECT ?s {{ ?s {a} {class_} . FILTER(isIRI(?s)) }} LIMIT 200")
        if not rows:
            return None
        here = self._rng.choice(rows)[0]
        patterns = [f"?v0 {a} {class_} ."]
        for step in range(self._rng.randrange(1, STEPS_MOST + 1)):
            if not isinstance(here, Iri) or not chunks.is_writable(here.value):
                break
            forward = self._rng.random() < 0.7
            triple = f"{chunks.iri(here.value)} ?p ?x" if forward else f"?x ?p {chunks.iri(here.value)}"
            edges = [r for r in await self._rows(f"SELECT ?p ?x {{ {triple} }} LIMIT 200") if isinstance(r[0], Iri)]
            edges = [r for r in edges if isinstance(r[0], Iri) and chunks.is_writable(r[0].value)]
            if not edges:
                break
            p, here = self._rng.choice(edges)
            edge = chunks.iri(p.value) if isinstance(p, Iri) else ""
            now, then = f"?v{step}", f"?v{step + 1}"
            if isinstance(here, Literal) and _is_plain(here) and self._rng.random() < 0.5:
                patterns.append(f'{now} {edge} "{here.lexical}"^^{chunks.iri(here.datatype)} .')
                break
            patterns.append(f"{now} {edge} {then} ." if forward else f"{then} {edge} {now} .")
            if isinstance(here, Iri) and self._rng.random() < 0.5 and chunks.is_writable(here.value):
                classes = await self._rows(f"SELECT ?c {{ {chunks.iri(here.value)} {a} ?c . FILTER(isIRI(?c)) }}")
                patterns += [f"{then} {a} {c} ." for (c,) in classes if isinstance(c, Iri) and chunks.is_writable(c.value)]
        return f"SELECT * {{ {' '.join(patterns)} }}"


def _is_plain(literal: Literal) -> bool:
    """Whether it can be written between quotes as it is."""
    return literal.language is None and literal.lexical.isprintable() and not set('"\\') & set(literal.lexical)
