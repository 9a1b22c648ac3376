"""Which requests must get the same answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from proxy.backends.base import BackendRequest
from proxy.pipeline.key import is_repeatable, request_key
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation

TEXT = "SELECT * { ?s a <http://example.org/Bird> }"


def request(*headers, method="GET", target=b"/query?query=x", **operation):
    what = replace(SparqlOperation(OperationKind.QUERY, TEXT, accept="text/csv"), **operation)
    return BackendRequest(method, target, [(b"host", b"example.org"), *headers], operation=what)


def digest(*args, dataset="default", **kwargs):
    key = request_key(dataset, request(*args, **kwargs))
    assert key is not None
    return key.digest


SAME = {
    "method and form": {"method": "POST", "target": b"/query"},
    "length": {"headers": [(b"content-length", b"12"), (b"content-type", b"application/sparql-query")]},
    "user agent": {"headers": [(b"user-agent", b"curl/8")]},
    "who it is for": {"headers": [(b"x-forwarded-for", b"192.0.2.1"), (b"forwarded", b"for=192.0.2.1")]},
    "tracing": {"headers": [(b"traceparent", b"00-1-2-00"), (b"x-request-id", b"7")]},
    "what a browser adds": {"headers": [(b"sec-fetch-mode", b"cors"), (b"referer", b"http://example.org/")]},
}
OTHER = {
    "text": {"text": TEXT + " "},
    "comment": {"text": TEXT + "# x"},
    "accept": {"accept": "application/json"},
    "parameter": {"parameters": (("infer", "false"),)},
    "parameter twice": {"parameters": (("infer", "false"), ("infer", "false"))},
    "default graph": {"dataset": DatasetDescription(default_graphs=("http://example.org/g",))},
    "named graph": {"dataset": DatasetDescription(named_graphs=("http://example.org/g",))},
    "path": {"target": b"/repositories/other"},
    "authorization": {"headers": [(b"authorization", b"Basic YTpi")]},
    "another authorization": {"headers": [(b"authorization", b"Basic YTpj")]},
    "cookie": {"headers": [(b"cookie", b"a=b")]},
    "api key": {"headers": [(b"x-api-key", b"k")]},
    "accept-encoding": {"headers": [(b"accept-encoding", b"gzip")]},
    "accept-language": {"headers": [(b"accept-language", b"de")]},
    "prefer": {"headers": [(b"prefer", b"handling=strict")]},
    "origin": {"headers": [(b"origin", b"http://example.org")]},
    "condition": {"headers": [(b"if-none-match", b'"x"')]},
    "a field that nobody knows": {"headers": [(b"x-something", b"1")]},
    "base": {"headers": [(b"host", b"example.com")]},
}


def of(case):
    case = dict(case)
    return digest(*case.pop("headers", ()), **case)


@pytest.mark.parametrize("case", SAME.values(), ids=SAME)
def test_what_does_not_change_the_answer_does_not_count(case):
    """The same query in another form, from another client, has the same key."""
    assert of(case) == of({})


def test_what_may_change_the_answer_counts():
    """Everything that a backend could look at makes another key, and no two of them the same."""
    digests = {name: of(case) for name, case in OTHER.items()} | {"plain": of({}), "dataset": digest(dataset="other")}
    assert len(set(digests.values())) == len(digests)


def test_the_order_of_header_fields_does_not_count():
    """Fields of different names may come in any order; those of one name may not."""
    a, b, b2 = (b"prefer", b"x"), (b"origin", b"y"), (b"origin", b"z")
    assert digest(a, b, b2) == digest(b, a, b2)
    assert digest(a, b, b2) != digest(a, b2, b)


def test_parts_do_not_run_into_each_other():
    """A parameter that looks like two others is not taken for them."""
    assert digest(parameters=(("a", "b'), ('c', 'd"),)) != digest(parameters=(("a", "b"), ("c", "d")))


@pytest.mark.parametrize(
    "case",
    [
        {"kind": OperationKind.UPDATE},
        {"kind": OperationKind.GRAPH_STORE},
        {"method": "HEAD"},
        {"headers": [(b"range", b"bytes=0-10")]},
        {"text": "SELECT (RAND() AS ?x) {}"},
    ],
    ids=["update", "graph store", "HEAD", "range", "random"],
)
def test_what_is_never_shared_has_no_key(case):
    """Only whole answers to queries that answer twice alike are shared."""
    headers = case.pop("headers", ())
    assert request_key("default", request(*headers, **case)) is None


def test_what_is_not_understood_has_no_key():
    """A request that was forwarded without an operation is left alone."""
    assert request_key("default", BackendRequest("GET", b"/size", [])) is None


@pytest.mark.parametrize(
    "text",
    [
        "SELECT (rand() AS ?x) {}",
        "SELECT (UUID() AS ?x) {}",
        "SELECT (STRUUID() AS ?x) {}",
        "SELECT * { FILTER(?d < NOW ( )) }",
        "SELECT * { FILTER(?d < Now#x\n()) }",
        "SELECT (\\u0052AND() AS ?x) {}",
        "SELECT (<http://example.org/fn/random>() AS ?x) {}",
        'SELECT * { ?s ?p "now or never" }',
    ],
)
def test_what_may_answer_differently_is_not_repeatable(text):
    """Calls of RAND, NOW, UUID in any spelling count, and so does what merely looks like one."""
    assert not is_repeatable(text)


@pytest.mark.parametrize(
    "text",
    ["SELECT * { ?a foaf:knows ?b }", "SELECT ?brand ?unknown { ?brand :known ?unknown }", "SELECT * { ?s ex:now ?o }", TEXT],
)
def test_names_that_contain_them_are_repeatable(text):
    """knows, brand, unknown are no calls."""
    assert is_repeatable(text)


@pytest.mark.parametrize(
    ("headers", "may_use_stored", "may_store", "max_age_s"),
    [
        ([], True, True, None),
        ([(b"cache-control", b"no-cache")], False, True, None),
        ([(b"cache-control", b"no-store")], False, False, None),
        ([(b"cache-control", b"Max-Age=0")], False, True, 0.0),
        ([(b"cache-control", b"max-age=30, no-transform")], True, True, 30.0),
        ([(b"pragma", b"no-cache")], False, True, None),
        ([(b"cache-control", b"max-age=x")], False, True, 0.0),
    ],
    ids=["nothing", "no-cache", "no-store", "max-age=0", "max-age", "pragma", "unreadable"],
)
def test_the_clients_wishes_are_read(headers, may_use_stored, may_store, max_age_s):
    """Cache-Control of the request says whether a kept answer will do; it is no part of the key."""
    key = request_key("default", request(*headers))
    assert (key.may_use_stored, key.may_store, key.max_age_s) == (may_use_stored, may_store, max_age_s)
    assert key.digest == digest()


@pytest.mark.parametrize(
    "case",
    [
        {"headers": [(b"authorization", b"x")]},
        {"headers": [(b"cookie", b"x")]},
        {"parameters": (("Access-Token", "x"),)},
    ],
    ids=["authorization", "cookie", "access-token"],
)
def test_credentials_are_noticed(case):
    """A request with a credential is marked, wherever it carries it, and the key does not show it."""
    headers = case.pop("headers", ())
    key = request_key("default", request(*headers, **case))
    assert key.is_authenticated
    assert not request_key("default", request()).is_authenticated


def test_federated_answers_are_not_stored():
    """Nobody tells us when the data behind a SERVICE change; joining those in flight is fine."""
    key = request_key("default", request(text="SELECT * { SERVICE <http://example.org/> { ?s ?p ?o } }"))
    assert not key.may_store
