"""What reading and checking a query costs, beside rdflib's parser and pyoxigraph's ``query`` on an empty store, in one run.

    python benchmarks/validator.py

Prints the median of each step in milliseconds per query, on one core.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pyoxigraph as ox

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "validation")]

from graphs import index_of, store_of  # noqa: E402

from proxy.query.model import ParsedQuery  # noqa: E402
from proxy.query.parse import parse  # noqa: E402
from proxy.validation.cache import VerdictCache  # noqa: E402
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
    "large (5,000 values)": P + "SELECT * { ?x :author ?y VALUES ?y { " + ":woolf " * 5000 + "} }",
}


def median_ms(work: Callable[[], object]) -> float:
    """Of enough runs to fill 0.3 s, at least three."""
    times: list[float] = []
    end = time.perf_counter() + 0.3
    while len(times) < 3 or time.perf_counter() < end:
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def main() -> None:
    from rdflib.plugins.sparql.parser import parseQuery

    index = index_of(store_of((ROOT / "tests" / "data" / "library.ttl").read_text()))
    empty = ox.Store()
    cache = VerdictCache(max_characters=1_000_000)
    print(f"{'query':24} {'parse':>8} {'check':>8} {'cached':>8} {'pyoxigraph':>11} {'rdflib':>9}   ms (median)")
    for name, text in QUERIES.items():
        parsed = parse(text)
        assert isinstance(parsed, ParsedQuery)
        cache.put(text, 0, (parsed, check(parsed, index)))
        figures = (
            median_ms(lambda text=text: parse(text)),  # type: ignore[misc]
            median_ms(lambda parsed=parsed: check(parsed, index)),  # type: ignore[misc]
            median_ms(lambda text=text: cache.get(text, 0)),  # type: ignore[misc]
            median_ms(lambda text=text: empty.query(text)),  # type: ignore[misc]
            median_ms(lambda text=text: parseQuery(text)),  # type: ignore[misc]
        )
        print(f"{name:24} {figures[0]:8.3f} {figures[1]:8.3f} {figures[2]:8.4f} {figures[3]:11.3f} {figures[4]:9.1f}")


if __name__ == "__main__":
    main()
