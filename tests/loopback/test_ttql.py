"""``GET /-/ttql`` over sockets: the whole document, parts of it, what is wrong with a request, and before there is an index."""

import json
from urllib.parse import urlencode

import pytest

from proxy.index.ttql_parse import parse
from proxy.index.ttql_text import estimate_tokens
from tests.loopback.conftest import Proxy, wait_until

pytestmark = pytest.mark.loopback

E = "http://e.example/town/"
GRAPH = f"""@prefix e: <{E}> .
e:a a e:Person ; e:name "Ada Stone" ; e:friend e:b . e:b a e:Person ; e:name "Bo Lake" .
e:c a e:City ; e:name "Harbourtown" ; e:mayor e:a ; e:population 500 .
e:d a e:City ; e:name "Dunport" ; e:mayor e:b ; e:population 1500 ."""


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    file = tmp_path_factory.mktemp("graph") / "towns.ttl"
    file.write_text(GRAPH)
    one = Proxy(backend__load=[str(file)], index__enabled=True, index__ttql_depth=2)
    wait_until(lambda: one.request("GET", "/-/ready")[0] == 200, limit_s=60)
    yield one
    one.close()


def get(one: Proxy, **parameters):
    status, headers, body = one.request("GET", "/-/ttql?" + urlencode(parameters, doseq=True))
    return status, headers, body.decode()


def test_the_whole_document(proxy):
    """Plain text, TTQL, a pattern for each class, to the configured depth; the same again from what is kept."""
    status, headers, text = get(proxy)
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert {p.class_ for p in parse(text).patterns} == {E + "Person", E + "City"}
    assert '    (1.00) town:name { @literal [["Ada Stone", "Bo Lake"]] }' in text.splitlines()
    assert get(proxy)[2] == text


def test_parts(proxy):
    """A class by IRI or prefixed name, fewer hops, a floor, a budget, the paths to a property."""
    (city,) = parse(get(proxy, **{"class": "town:City"})[2]).patterns
    assert city.class_ == E + "City" and get(proxy, **{"class": E + "City"})[2] == get(proxy, **{"class": "town:City"})[2]
    (shallow,) = parse(get(proxy, depth=1, **{"class": E + "City"})[2]).patterns
    assert [t.edges for e in shallow.edges for t in e.targets] == [()]
    assert "friend" in get(proxy)[2] and "friend" not in get(proxy, floor="0.6")[2]
    assert estimate_tokens(get(proxy, budget_tokens=120)[2]) <= 120 and get(proxy, budget_lines=12)[2].count("\n") <= 12
    (sliced,) = parse(get(proxy, budget_tokens=75, **{"class": E + "City", "property": E + "friend"})[2]).patterns
    paths = {e.property: [d.property for t in e.targets for d in t.edges] for e in sliced.edges}
    assert paths[E + "mayor"] == [E + "friend"] and sliced.is_cut


@pytest.mark.parametrize(
    "query",
    [
        "class=http://e.example/Nothing",
        "property=x",
        "depth=3",
        "depth=0",
        "depth=x",
        "floor=2",
        "budget_tokens=-1",
        "dataset=x",
    ],
)
def test_what_cannot_be_had(proxy, query):
    """400 with a sentence."""
    status, headers, body = proxy.request("GET", "/-/ttql?" + query)
    assert (status, headers["content-type"]) == (400, "application/problem+json") and json.loads(body)["detail"]


def test_without_an_index(tmp_path):
    """503, and what to turn on."""
    file = tmp_path / "towns.ttl"
    file.write_text(GRAPH)
    one = Proxy(backend__load=[str(file)])
    try:
        status, headers, body = one.request("GET", "/-/ttql")
        assert status == 503 and headers["retry-after"] and "[index] enabled" in json.loads(body)["detail"]
    finally:
        one.close()
