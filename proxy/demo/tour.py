"""Three things to paste into a shell, each with what it shows."""

from __future__ import annotations

from dataclasses import dataclass

PREFIXES = "PREFIX h: <https://sparlance.example/harbour#> PREFIX rdfs: <http://www.w3.org/2000/01/rdf-schema#> "
DEEPEST_HARBOURS = (
    "SELECT ?name ?depth WHERE { ?harbour a h:Harbour ; rdfs:label ?name ; h:depthM ?depth . "
    'FILTER(lang(?name) = "en") } ORDER BY DESC(?depth) LIMIT 3'
)
QUESTION = "Which vessels have their home port in Amber Haven?"
BERTHS_OF_LIGHTHOUSES = "SELECT ?lighthouse ?berths WHERE { ?lighthouse a h:Lighthouse ; h:berths ?berths }"


@dataclass(frozen=True, slots=True)
class Stop:
    """One command, and the promise about its output."""

    promise: str
    command: str


def stops(url: str) -> tuple[Stop, Stop, Stop]:
    """The tour of the demo served at *url*: a query, a question, and a query without an answer."""
    return (
        Stop(
            "A SPARQL query, answered by the store as if nothing stood in between (the three deepest harbours):",
            _curl(url, "query", PREFIXES + DEEPEST_HARBOURS, accept="text/csv"),
        ),
        Stop(
            "A question. The query that Sparlance wrote and ran is in the header Sparlance-Query:",
            _curl(url, "nl", QUESTION, accept="text/csv", options="-si"),
        ),
        Stop(
            "A query that this graph cannot answer: only harbours have berths. Refused, with the reasons:",
            _curl(url, "query", PREFIXES + BERTHS_OF_LIGHTHOUSES, accept="text/plain"),
        ),
    )


def _curl(url: str, parameter: str, text: str, *, accept: str = "", options: str = "-s") -> str:
    """A curl command for a POSIX shell; *text* holds no single quote."""
    header = f" -H 'Accept: {accept}'" if accept else ""
    return f"curl {options} -G {url}/sparql{header} --data-urlencode '{parameter}={text}'"
