"""The whole application over files: index, rejection, questions, our own pages."""

import json
from urllib.parse import quote, unquote, urlencode

import pytest

from tests.loopback.conftest import Proxy, wait_until

pytestmark = pytest.mark.loopback

GRAPH = """@prefix e: <http://e/> . @prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:City rdfs:label "city" . e:Person rdfs:label "person" . e:mayor rdfs:label "mayor" . e:population rdfs:label "population" .
e:a a e:Person ; rdfs:label "Ada Stone" . e:b a e:Person ; rdfs:label "Bo Lake" .
e:c a e:City ; rdfs:label "Harbourtown" ; e:mayor e:a ; e:population 500 .
e:d a e:City ; rdfs:label "Dunport" ; e:mayor e:b ; e:population 1500 ."""
EMPTY = "PREFIX e: <http://e/> SELECT ?x ?n {\n  ?x a e:Person ;\n     e:population ?n }"
QUESTION = "/sparql?" + urlencode({"nl": "Who is the mayor of Dunport?"})


@pytest.fixture(scope="module")
def proxy(tmp_path_factory):
    file = tmp_path_factory.mktemp("graph") / "towns.ttl"
    file.write_text(GRAPH)
    one = Proxy(backend__load=[str(file)], index__enabled=True, nl__enabled=True, validation__policy="reject")
    wait_until(lambda: not any("being built" in reason for reason in reasons(one)), limit_s=60)
    assert reasons(one) == []
    yield one
    one.close()


def reasons(one: Proxy) -> list[str]:
    return json.loads(one.request("GET", "/-/ready")[2])["reasons"]


def get(query: str) -> str:
    return "/sparql?query=" + quote(query)


def test_pages(proxy):
    """Live, ready, and the index in numbers."""
    assert json.loads(proxy.request("GET", "/-/live")[2]) == {"live": True}
    assert json.loads(proxy.request("GET", "/-/ready")[2])["reasons"] == []
    summary = json.loads(proxy.request("GET", "/-/index")[2])
    assert summary["state"] == "ready" and summary["classes"] == {"http://e/City": 2, "http://e/Person": 2}
    assert proxy.request("GET", "/-/nothing")[0] == 404


def test_rejection(proxy):
    """A query that can have no solutions is 400 with pattern, place, evidence and what there is instead."""
    status, headers, body = proxy.request("GET", get(EMPTY), Accept="application/sparql-results+json")
    (finding,) = json.loads(body)["findings"]
    assert status == 400 and headers["content-type"] == "application/problem+json"
    assert (finding["line"], finding["severity"]) == (3, "proved-empty") and "population" in finding["pattern"]
    assert finding["evidence"] and finding["suggestions"]


def test_prefer(proxy):
    """handling=lenient gets the backend's answer for one request, and hears that it was applied."""
    status, headers, body = proxy.request("GET", get(EMPTY), Prefer="handling=lenient", Accept="text/csv")
    assert (status, body) == (200, b"x,n\r\n")
    assert headers["preference-applied"] == "handling=lenient" and headers["sparlance-validation"].startswith("proved-empty")


def test_check(proxy):
    """/-/check says what would happen and runs nothing; text that is no query is a problem with its place."""
    verdict = json.loads(proxy.request("POST", "/-/check", EMPTY.encode(), Content_Type="application/sparql-query")[2])
    assert verdict["verdict"] == "reject" and verdict["findings"][0]["line"] == 3
    fine = b"PREFIX e: <http://e/> SELECT * { ?x e:population ?n }"
    assert json.loads(proxy.request("POST", "/-/check", fine)[2]) == {"verdict": "pass", "findings": []}
    status, _, body = proxy.request("POST", "/-/check", b"SELECT * {")
    assert status == 400 and json.loads(body)["line"] == 1


@pytest.mark.parametrize(
    ("accept", "content_type"),
    [
        ("*/*", "application/sparql-results+json"),
        ("application/sparql-results+xml", "application/sparql-results+xml"),
        ("text/csv", "text/csv; charset=utf-8"),
        ("text/tab-separated-values", "text/tab-separated-values; charset=utf-8"),
    ],
)
def test_question_is_answered_as_a_query_is(proxy, accept, content_type):
    """An ordinary result in the negotiated format, with the query that ran."""
    status, headers, body = proxy.request("GET", QUESTION, Accept=accept)
    assert status == 200 and headers["content-type"] == content_type and b"Bo Lake" in body
    assert "Dunport" in unquote(headers["sparlance-query"]) and headers["sparlance-status"]
    assert 0 <= float(headers["sparlance-risk"]) <= 1


def test_query_that_a_question_becomes(proxy):
    """application/sparql-query is the query alone; run as a query it gives the same result."""
    query = proxy.request("GET", QUESTION, Accept="application/sparql-query")[2].decode()
    direct = proxy.request("GET", get(query), Accept="text/csv")[2]
    assert direct == proxy.request("GET", QUESTION, Accept="text/csv")[2]
    challenge = "/text2sparql?" + urlencode({"question": "Who is the mayor of Dunport?", "dataset": "https://x/1"})
    assert json.loads(proxy.request("GET", challenge)[2]) == {
        "dataset": "https://x/1",
        "question": "Who is the mayor of Dunport?",
        "query": query,
    }


def test_account_and_steps(proxy):
    """application/json is the whole account with its result; an event stream tells it step by step."""
    account = json.loads(proxy.request("GET", QUESTION, Accept="application/json")[2])
    assert account["result"]["results"]["bindings"][0]["name"]["value"] == "Bo Lake"
    assert account["query"] and account["account"] and account["findings"] == []
    _, headers, body = proxy.request("GET", QUESTION, Accept="text/event-stream")
    assert headers["content-type"] == "text/event-stream"
    names = [line.removeprefix("event: ") for line in body.decode().split("\n") if line.startswith("event:")]
    stages = ["question", "linking", "shape", "candidates", "execution", "gate", "translation", "result"]
    assert [n for n in names if n != "correction"] == stages


def test_question_by_post(proxy):
    """nl= in a form is a question too."""
    body = urlencode({"nl": "How many cities are there?"}).encode()
    fields = {"Content_Type": "application/x-www-form-urlencoded", "Accept": "text/csv"}
    status, _, answer = proxy.request("POST", "/sparql", body, **fields)
    assert status == 200 and answer.split(b"\r\n")[1] == b"2"


def test_abstention(proxy):
    """What nothing in the graph answers is 422 with what was understood."""
    status, headers, body = proxy.request("GET", "/sparql?" + urlencode({"nl": "colourless green ideas zzz"}))
    assert status == 422 and "account" in json.loads(body) and headers["sparlance-status"] == "abstained"


def test_questions_can_be_off(serve, stub):
    """Without NL a question is 503 and says which setting turns it on."""
    status, _, body = serve("http://127.0.0.1:9").request("GET", "/sparql?nl=Who")
    assert status == 503 and "[nl] enabled" in json.loads(body)["detail"]


def test_empty_policy(serve, tmp_path):
    """With policy "empty" the client gets an ordinary empty result, marked as such."""
    (tmp_path / "g.ttl").write_text(GRAPH)
    one = serve(backend__load=[str(tmp_path / "g.ttl")], index__enabled=True, validation__policy="empty")
    wait_until(lambda: one.request("GET", "/-/ready")[0] == 200)
    status, headers, body = one.request("GET", get(EMPTY), Accept="text/csv")
    assert (status, body) == (200, b"x,n\r\n") and headers["sparlance-validation"].startswith("proved-empty")


def test_questions_are_counted(proxy):
    """Each by what came of it, with the risk of its first choice; one without an answer, too."""

    def numbers():
        page = proxy.request("GET", "/-/metrics")[2].decode()
        lines = [line.rpartition(" ") for line in page.splitlines() if "question" in line and not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}

    before = numbers()
    assert proxy.request("GET", QUESTION, Accept="text/csv")[0] == 200
    assert proxy.request("GET", "/sparql?nl=qwerty+zxcvb")[0] == 422
    grown = {name for name, value in numbers().items() if value > before[name]}
    assert {f'sparlance_questions_total{{dataset="default",outcome="{o}"}}' for o in ("ok", "abstained")} <= grown
    assert 'sparlance_question_risk_count{dataset="default"}' in grown
