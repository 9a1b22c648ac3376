"""What reading and checking a query costs, beside rdflib's parser and pyoxigraph's ``query`` on an empty store, in one run.

    python benchmarks/validator.py

Prints the median of each step in milliseconds of processor time per query, so that others on the machine count less.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pyoxigraph as ox

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "validation")]

from graphs import index_of, store_of, values_of  # noqa: E402

from proxy.backends.embedded import EmbeddedBackend  # noqa: E402
from proxy.config import load_config  # noqa: E402
from proxy.errors import MalformedQuery  # noqa: E402
from proxy.pipeline.dataset import Dataset  # noqa: E402
from proxy.pipeline.exchange import Exchange  # noqa: E402
from proxy.pipeline.sparql import CACHED_TEXT_LIMIT, SparqlPath  # noqa: E402
from proxy.query.operation import OperationKind, SparqlOperation  # noqa: E402
from proxy.query.parse import parse  # noqa: E402
from proxy.validation.check import check  # noqa: E402

P = "PREFIX : <http://library.example/> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
QUERIES = {
    "short": P + "SELECT ?t { ?x a :Novel ; :title ?t }",
    "typical": P
    + "SELECT ?x ?name (COUNT(DISTINCT ?b) AS ?n) WHERE { ?b a :Novel ; :author ?x ; :pages ?p . ?x :name ?name"
    + " OPTIONAL { ?b :shelf ?s } FILTER(?p > 100 && ?p < 900) FILTER(?x != :kafka) }"
    + " GROUP BY ?x ?name ORDER BY DESC(?n) LIMIT 10",
    "typical, proved empty": P
    + "SELECT ?x ?name WHERE { ?b a :Loan ; :author ?x ; :item ?i . ?x :name ?name OPTIONAL { ?b :shelf ?s } } LIMIT 10",
    "long (60 patterns)": P + "SELECT * { " + " ".join(f"?l{i} :item ?b{i} . ?b{i} :author ?a . " for i in range(30)) + "}",
    "typical, a value that is not": P
    + "SELECT ?x ?name WHERE { ?b a :Novel ; :author ?x ; :pages ?n . ?x :name 'Virginia Wolf' FILTER(?n > 100) } LIMIT 10",
    "hostile (40 unions)": P + "SELECT * { " + " ".join("{ ?x :name ?y } UNION { ?x :born ?y }" for _ in range(40)) + " }",
    "hostile (nested 10,000 deep)": P + "ASK { FILTER(" + "(" * 10_000 + "1" + ")" * 10_000 + ") }",
    "large (5,000 values)": P + "SELECT * { ?x :author ?y VALUES ?y { " + ":woolf " * 5000 + "} }",
}


def median_ms(work: Callable[[], object]) -> float:
    """Of enough runs to fill 0.3 s, at least three."""
    times: list[float] = []
    end = time.perf_counter() + 0.3
    while len(times) < 3 or time.perf_counter() < end:
        start = time.thread_time()
        work()
        times.append(time.thread_time() - start)
    return statistics.median(times) * 1e3


class _NoHooks:
    async def query(self, exchange: Exchange) -> None: ...

    async def response(self, exchange: Exchange) -> None: ...


def _attempt(work: Callable[[str], object], text: str) -> None:
    """A refusal counts as an answer."""
    try:
        work(text)
    except (MalformedQuery, SyntaxError):
        pass


def _at_once(work: Coroutine[Any, Any, object]) -> object:
    """The result of a coroutine that does not wait."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waited")


def main() -> None:
    from rdflib.plugins.sparql.parser import parseQuery

    store = store_of((ROOT / "tests" / "data" / "library.ttl").read_text())
    index, values = index_of(store), values_of(store)
    empty = ox.Store()
    dataset = Dataset("d", EmbeddedBackend(store), load_config(None), index=index, values=values)
    path = SparqlPath(dataset, _NoHooks())
    print(f"{'ms (median)':29}" + "".join(f"{head:>9}" for head in ("parse", "check", "cached", "oxigraph", "rdflib")))
    for name, text in QUERIES.items():
        try:
            parsed = parse(text)
        except MalformedQuery:
            parsed = None  # too deep: pyoxigraph's parser would overflow its stack, and end the process
        operation = SparqlOperation(OperationKind.QUERY, text)
        if is_kept := parsed is not None and len(text) <= CACHED_TEXT_LIMIT:
            asyncio.run(path.check(operation))  # so that the verdict is known
        figures: list[float | None] = [
            median_ms(lambda text=text: _attempt(parse, text)),  # type: ignore[misc]
            None if parsed is None else median_ms(lambda parsed=parsed: check(parsed, index, values=values)),  # type: ignore[misc]
            None if not is_kept else median_ms(lambda operation=operation: _at_once(path.check(operation))),  # type: ignore[misc]
            None if parsed is None else median_ms(lambda text=text: _attempt(empty.query, text)),  # type: ignore[misc]
            None if parsed is None else median_ms(lambda text=text: _attempt(parseQuery, text)),  # type: ignore[misc]
        ]
        shown = ("        -" if f is None else f"{f:9.4f}" for f in figures)
        print(f"{name:29}" + "".join(shown))


if __name__ == "__main__":
    main()
