"""W3C evaluation tests: a query with solutions is never proved empty (``SPARLANCE_W3C``: the folder ``sparql11``)."""

import os
from pathlib import Path

import pyoxigraph as ox
import pytest
from graphs import index_of

from proxy.query.parse import parse
from proxy.query.policy import holds_service
from proxy.validation.check import check, is_proved_empty

ROOT = os.environ.get("SPARLANCE_W3C")
pytestmark = pytest.mark.skipif(ROOT is None, reason="SPARLANCE_W3C does not say where the W3C suite lies")
MF = "http://www.w3.org/2001/sw/DataAccess/tests/test-manifest#"


def cases():
    found = []
    for manifest in sorted(Path(ROOT).glob("*/manifest.ttl")) if ROOT else ():
        if manifest.parent.name == "entailment":
            continue  # their answers hold triples that no store here infers
        store = ox.Store()
        store.load(manifest.read_bytes(), format=ox.RdfFormat.TURTLE, base_iri=manifest.as_uri())
        for row in store.query(
            f"PREFIX mf: <{MF}> PREFIX qt: <http://www.w3.org/2001/sw/DataAccess/tests/test-query#>"
            " SELECT ?q ?d { ?t a mf:QueryEvaluationTest ; mf:action ?a . ?a qt:query ?q . OPTIONAL { ?a qt:data ?d } }"
        ):
            query, data = (None if t is None else manifest.parent / t.value.rpartition("/")[2] for t in (row["q"], row["d"]))
            if query.exists():
                found.append(pytest.param(query, data, id=f"{query.parent.name}/{query.name}"))
    return found


@pytest.mark.parametrize(("query", "data"), cases())
@pytest.mark.parametrize("exact", [True, False], ids=["exact kinds", "single classes"])
def test_a_query_with_solutions_is_not_proved_empty(query, data, exact):
    """Proved empty means that pyoxigraph finds nothing in the test's data."""
    store = ox.Store()
    if data is not None and data.exists():
        form = ox.RdfFormat.from_extension(data.suffix[1:]) or ox.RdfFormat.TURTLE
        store.load(data.read_bytes(), format=form, base_iri=data.as_uri())
    text = query.read_bytes().decode()
    parsed = parse(text)
    if holds_service(parsed) or not is_proved_empty(check(parsed, index_of(store, exact=exact))):
        return
    answer = store.query(text, base_iri=query.as_uri())
    assert next(iter(answer), None) is None
