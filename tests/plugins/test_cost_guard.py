"""plugins/cost_guard.py: cross products are refused by the counts of the index, and joins are not."""

import pytest

from proxy.config import load_config

TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
DATA = "".join(
    f"<a:{i}> {TYPE} <a:Person> .\n<a:{i}> <a:knows> <a:{i + 1}> .\n<a:{i}> <a:age> \"{i}\" .\n" for i in range(60)
) + f"<a:city> {TYPE} <a:City> .\n"


@pytest.fixture(scope="module")
def statuses(tmp_path_factory):
    """Text → status, details and line of the finding, from one server with an index."""
    from tests.plugins.conftest import Server

    made = Server(tmp_path_factory.mktemp("server"), data=DATA, enabled=("cost_guard",))
    made.settings = "[nl]\nenabled = false\n[validation]\npolicy = 'off'\n"
    made.options = "[plugins.cost_guard]\nmax_rows = 1000\n"

    async def use(client):
        await client.app.datasets[0].built()
        found = {}
        for text in [*CROSS, *JOINED]:
            headers = {"accept": "application/json, text/turtle;q=0.5"}
            found[text] = await client.post("/query", data={"query": text}, headers=headers)
        return found

    return made.run(use)


CROSS = [
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d }",
    "SELECT * { ?a a <a:Person> . ?b a <a:Person> }",
    "SELECT * { ?a ?p ?b .\n?c ?q ?d }",
    "SELECT (COUNT(*) AS ?n) { ?a <a:knows> ?b . ?c <a:age> ?d } LIMIT 1",
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d } ORDER BY ?a LIMIT 1",
    "SELECT DISTINCT ?a { ?a <a:knows> ?b . ?c <a:age> ?d } LIMIT 1",
    "SELECT * { ?a <a:knows> ?b OPTIONAL { ?c <a:age> ?d } }",
    "SELECT * { ?a <a:knows> ?b { ?c <a:age> ?d } }",
    "SELECT * { { ?a <a:knows> ?b } UNION { ?a <a:knows> ?b . ?c <a:age> ?d } }",
    "SELECT * { ?a <a:knows> ?b { SELECT ?c { ?c <a:age> ?d } } }",
    "SELECT * { { SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d } } }",
    "SELECT * { ?a <a:knows> ?b FILTER EXISTS { ?c <a:age> ?d . ?e <a:knows> ?f } }",
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d FILTER(?b != ?c) }",
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d FILTER(?b = ?c || ?a = ?c) }",
    "SELECT * { ?a <a:knows>/<a:age> ?b . ?c <a:knows>+ ?d }",
    "CONSTRUCT WHERE { ?a <a:knows> ?b . ?c <a:age> ?d }",
    "ASK { ?a <a:knows> ?b . ?c <a:age> ?d }",
]
JOINED = [
    "SELECT * { ?a <a:knows> ?b . ?b <a:age> ?d }",
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d FILTER(?b = ?c) }",
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d FILTER(?b = ?c && ?d != '3') }",
    "SELECT * { ?a <a:knows> ?b . BIND(?b AS ?c) ?c <a:age> ?d }",
    "SELECT * { ?a <a:knows> ?b . ?c <a:age> ?d } LIMIT 10",
    "SELECT * { <a:1> <a:knows> ?b . ?c <a:age> ?d }",
    "SELECT * { ?a <a:knows> ?b . ?c a <a:City> }",
    "SELECT * { ?a <a:knows> ?b . ?c <a:unknown> ?d }",
    "SELECT * { ?a <a:knows> ?b VALUES ?c { 1 2 3 } }",
    "SELECT * { ?a <a:knows> ?b { SELECT ?c { ?c <a:age> ?d } LIMIT 3 } }",
    "SELECT * { ?a <a:knows> ?b MINUS { ?c <a:age> ?d } }",
    "SELECT * { ?a <a:knows>+ ?b . ?b <a:age> ?c }",
    "SELECT * { ?s ?p ?o }",
    "DESCRIBE <a:1>",
]


@pytest.mark.parametrize("text", CROSS)
def test_a_cross_product_is_refused(statuses, text):
    """Wherever it stands; what a FILTER does not equate stays apart."""
    response = statuses[text]
    assert (response.status_code, response.json().get("plugin")) == (400, "cost_guard")


def test_the_refusal_names_the_parts(statuses):
    """Their text and lines, and the estimate."""
    problem = statuses["SELECT * { ?a ?p ?b .\n?c ?q ?d }"].json()
    assert "(line 1) and '?c ?q ?d' (line 2) share no variable" in problem["detail"]


@pytest.mark.parametrize("text", JOINED)
def test_a_join_passes(statuses, text):
    """As does a part that has few solutions, and what stops at its LIMIT."""
    assert statuses[text].status_code == 200


def test_a_guard_that_is_turned_on_later_knows_the_index(server):
    """After a reload of the settings, the index that serves already is told to it, not only the next one."""
    made = server(data=DATA)
    made.settings = "[nl]\nenabled = false\n[validation]\npolicy = 'off'\n"

    async def use(client):
        app = client.app
        await app.datasets[0].built()
        statuses = [(await client.post("/query", data={"query": CROSS[0]})).status_code]
        for enabled in (["cost_guard"], []):
            text = (made.folder / "config.toml").read_text(encoding="utf-8")
            text = f"{text.rpartition('enabled = ')[0]}enabled = {enabled}\n[plugins.cost_guard]\nmax_rows = 1000\n"
            (made.folder / "config.toml").write_text(text, encoding="utf-8")
            app.reread = lambda: load_config(made.folder / "config.toml")
            await app.reload()
            statuses.append((await client.post("/query", data={"query": CROSS[0]})).status_code)
        return statuses

    assert made.run(use) == [200, 400, 200]


def test_without_an_index_everything_passes(server):
    """There is nothing to estimate by."""
    assert server(data=DATA, enabled=("cost_guard",)).ask(CROSS[0]).status_code == 200
