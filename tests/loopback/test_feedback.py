"""POST /-/feedback over the real server: bounded, checked, and used by the next question."""

import json
from contextlib import closing
from urllib.parse import urlencode

import pytest

from tests.loopback.conftest import Proxy, wait_until
from tests.loopback.test_application import GRAPH, reasons

pytestmark = pytest.mark.loopback

QUERY = (
    'PREFIX e: <http://e/> SELECT ?n { ?c a e:City ; <http://www.w3.org/2000/01/rdf-schema#label> "Dunport" ; e:population ?n }'
)
JSON = {"Content_Type": "application/json"}


@pytest.fixture
def proxy(tmp_path):
    file = tmp_path / "towns.ttl"
    file.write_text(GRAPH)
    one = Proxy(backend__load=[str(file)], index__enabled=True, nl__enabled=True, nl__memory=str(tmp_path / "memory"))
    wait_until(lambda: not any("being built" in reason for reason in reasons(one)), limit_s=60)
    yield one
    one.close()


def post(one: Proxy, **said: object) -> tuple[int, dict[str, object]]:
    status, _, body = one.request("POST", "/-/feedback", json.dumps(said).encode(), **JSON)
    return status, json.loads(body)


def test_a_confirmed_answer_is_the_answer_from_then_on(proxy, tmp_path):
    """Also for another value in its place; the account says where it came from, and wrong takes it back."""
    question = "How many live in that Dunport place?"
    assert post(proxy, question=question, query=QUERY, verdict="right") == (201, {"kept": True, "confirmed": 1})
    assert (tmp_path / "memory" / "default.jsonl").read_text().count("\n") == 1
    account = json.loads(proxy.request("GET", "/sparql?" + urlencode({"nl": question}), Accept="application/json")[2])
    assert account["query"] == QUERY and account["risk"] < 0.05
    assert account["account"]["memory"]["how"] == "same question"
    other = "/sparql?" + urlencode({"nl": question.replace("Dunport", "Harbourtown")})
    assert proxy.request("GET", other, Accept="text/csv")[2] == b"n\r\n500\r\n"
    assert post(proxy, question=question, query=QUERY, verdict="wrong") == (201, {"kept": True, "confirmed": 0})


@pytest.mark.parametrize(
    ("said", "word"),
    [
        ({"question": "?", "query": QUERY}, "verdict"),
        ({"query": QUERY, "verdict": "right"}, "question"),
        ({"question": "q" * 4001, "query": QUERY, "verdict": "right"}, "4,000"),
        ({"question": "?", "query": "DELETE WHERE { ?s ?p ?o }", "verdict": "right"}, "SELECT"),
        ({"question": "?", "query": "SELECT {", "verdict": "right"}, "read"),
        ({"question": "?", "query": "SELECT * { ?s <http://e/none> ?o }", "verdict": "right"}, "graph"),
        ({"question": "?", "query": QUERY, "verdict": "right", "admin": True}, "nothing else"),
    ],
)
def test_bad_feedback_is_refused_and_nothing_is_kept(proxy, tmp_path, said, word):
    """400 with the reason; no file is made."""
    status, problem = post(proxy, **said)
    assert status == 400 and word in str(problem)
    assert not (tmp_path / "memory").exists()


def test_feedback_is_bounded(proxy):
    """A body over its limit is 413, one of another type 415, and the server goes on."""
    assert proxy.request("POST", "/-/feedback", b"x" * 70_000, **JSON)[0] == 413
    assert proxy.request("POST", "/-/feedback", b"{}", Content_Type="text/turtle")[0] == 415
    assert proxy.request("POST", "/-/feedback", b"[" * 60_000, **JSON)[0] == 400
    assert proxy.request("GET", "/-/live")[0] == 200


NEVER = QUERY.replace("?n }", "?n FILTER(?n > 99999) }")
"""Confirmed once, it is replayed; only the values tell that it has no solution."""


@pytest.mark.parametrize(
    ("policy", "prefer", "status", "said"),
    [
        ("reject", None, 400, "rejected"),
        ("empty", None, 200, "proved-empty"),
        ("annotate", None, 200, "proved-empty"),
        ("off", None, 200, None),
        ("off", "handling=strict", 400, "rejected"),
        ("reject", "handling=lenient", 200, "proved-empty"),
    ],
)
def test_a_question_has_a_policy_of_its_own(tmp_path, policy, prefer, status, said):
    """[validation] nl_policy, whatever policy says of the queries of clients; Prefer outranks both."""
    file = tmp_path / "towns.ttl"
    file.write_text(GRAPH)
    other = "off" if policy == "reject" else "reject"
    settings = {"validation__policy": other, "validation__nl_policy": policy, "nl__memory": str(tmp_path / "memory")}
    with closing(Proxy(backend__load=[str(file)], index__enabled=True, nl__enabled=True, **settings)) as one:
        wait_until(lambda: not any("being built" in reason for reason in reasons(one)), limit_s=60)
        question = "How many live in that Dunport place?"
        assert post(one, question=question, query=NEVER, verdict="right")[0] == 201
        fields = {"Accept": "text/csv"} | ({"Prefer": prefer} if prefer else {})
        found, headers, body = one.request("GET", "/sparql?" + urlencode({"nl": question}), **fields)
        assert found == status and (headers["sparlance-validation"] or "").startswith(said or "")
        assert (headers["sparlance-validation"] is None) == (said is None)
        assert status == 400 or body == b"n\r\n"
        assert headers["preference-applied"] == (prefer if status == 200 else None)
        direct = one.request("GET", "/sparql?" + urlencode({"query": NEVER}), Accept="text/csv")
        assert direct[0] == (200 if other == "off" else 400)
