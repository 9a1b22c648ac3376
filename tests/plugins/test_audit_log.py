"""plugins/audit_log.py: what was answered is written, no literal is, and a change shows, also after kill -9."""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from proxy.plugin.loading import load_file

FILE = Path(__file__).parents[2] / "plugins" / "audit_log.py"
KEYS = {"ann": "ann-0123456789-0123456789"}


@pytest.fixture
def server(server, tmp_path):
    def make(**settings):
        path = tmp_path / "audit.jsonl"
        options = f"[plugins.audit_log]\npath = '{path}'\n[plugins.row_limit]\nmax_rows = 5\nmode = 'refuse'\n"
        made = server(data='<a:s> <a:p> "o" .', enabled=("row_limit", "audit_log"), options=options, keys=KEYS, **settings)
        made.log = path
        return made

    return make


def lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="ascii").splitlines()]


def verify(path: Path) -> tuple[int, str]:
    """By the command; returns exit code and what it says."""
    done = subprocess.run([sys.executable, FILE, path], capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_a_request_is_two_lines(server):
    """Who, what, what was decided; then how it was answered, under the same request id."""
    made = server()
    made.ask("SELECT * { GRAPH <g:g> { ?s <a:p>/^<a:q> 'private' } } LIMIT 3", key="ann")
    started, decided, answered = lines(made.log)
    assert started["event"] == "started"
    assert (decided["key"], decided["form"], decided["verdict"]) == ("ann", "SELECT", "pass")
    assert (decided["predicates"], decided["graphs"]) == (["a:p", "a:q"], ["g:g"])
    assert (answered["request_id"], answered["status"]) == (decided["request_id"], 200)
    assert verify(made.log)[0] == 0


@pytest.mark.parametrize(
    ("method", "path", "kind", "verdict"),
    [
        ("GET", "/store?graph=g:g", "graph-store", "pass"),
        ("PUT", "/store?graph=g:g", "graph-store", "refuse"),
        ("GET", "/query?query=SELECT+*+%7B%7D+LIMIT+9", "query", "reject"),
        ("GET", "/query?query=SELECT+private", "query", "reject"),
    ],
)
def test_refusals_and_the_graph_store_are_written(server, method, path, kind, verdict):
    """A refusal is written before the client has it, whoever refuses: a plugin, the policy."""
    made = server()
    made.send(method, path)
    decided = lines(made.log)[-1] if verdict != "pass" else lines(made.log)[-2]
    assert (decided["kind"], decided["verdict"], "refused_by" in decided) == (kind, verdict, verdict != "pass")


def test_no_literal_and_no_text_is_written(server):
    """Not of a query, an update, a question, a parameter, nor of what cannot be parsed; the shape does not depend on them."""
    made = server(allow_updates=True)
    made.update("INSERT DATA { <a:s> <a:p> 'Private-1', \"\"\"Private-2\"\"\"@en, 47114711471147114711 }")
    made.ask("SELECT * { ?s <a:p> ?o FILTER(REGEX(?o, 'Private-3')) VALUES ?o { 'Private-4' 47114711471147114711 } } LIMIT 1")
    made.ask("SELECT * { ?s <a:p> ?o FILTER(REGEX(?o, 'Private-5')) VALUES ?o { 'Private-6' 47114711471147114712 } } LIMIT 1")
    made.ask("SELECT Private-7", timeout="Private-8")
    made.send("GET", "/query?nl=Private-9")
    text = made.log.read_text(encoding="ascii")
    assert "rivate" not in text and "4711471147" not in text
    shapes = [line["shape"] for line in lines(made.log) if line.get("form") == "SELECT"]
    assert len(shapes) == 2 and len(set(shapes)) == 1


def test_a_restart_goes_on_with_the_chain(server):
    """The file of two processes, one after the other, is one chain."""
    made = server()
    made.ask("ASK {}")
    made.ask("ASK {}")
    assert [line["number"] for line in lines(made.log)] == [1, 2, 3, 4, 5, 6]
    code, said = verify(made.log)
    assert code == 0 and said.startswith("6 lines, the last hash is " + lines(made.log)[-1]["hash"])


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda ls: [ls[0], ls[1].replace(b"pass", b"fail"), *ls[2:]], 2),
        (lambda ls: [ls[0], *ls[2:]], 2),
        (lambda ls: ls[1:], 1),
        (lambda ls: [ls[0], ls[2], ls[1]], 2),
        (lambda ls: [*ls, ls[2]], 4),
        (lambda ls: [ls[0], b"{}\n", *ls[1:]], 2),
        (lambda ls: [ls[0], ls[1].replace(b'":"', b'": "', 1), ls[2]], 2),
        (lambda ls: [*ls, b"\n"], 4),
        (lambda ls: [*ls, b"[1]\n"], 4),
        (lambda ls: [*ls[:2], ls[2][:-5]], 3),
    ],
    ids=["changed", "taken out", "first gone", "swapped", "repeated", "put in", "respaced", "blank", "foreign", "torn"],
)
def test_a_change_shows(server, change, line):
    """With the number of the first line that is wrong."""
    made = server()
    made.ask("ASK {}")
    made.log.write_bytes(b"".join(change(made.log.read_bytes().splitlines(keepends=True))))
    code, said = verify(made.log)
    assert code == 1 and said.startswith(f"audit_log: line {line}: ")


def test_what_cannot_be_written_is_not_answered(server, tmp_path):
    """The folder is gone: 500 with the name of the plugin, and the backend is not asked."""
    made = server()

    async def use(client):
        made.log.unlink()
        made.log.mkdir()
        return await client.post("/query", data={"query": "ASK {}"})

    response = made.run(use)
    assert (response.status_code, response.json()["plugin"]) == (500, "audit_log")


def test_requests_at_once_share_the_disk(server):
    """Fifty at once: each has its lines, in one chain."""
    made = server()

    async def use(client):
        return await asyncio.gather(*(client.post("/query", data={"query": f"ASK {{ <a:{i}> ?p ?o }}"}) for i in range(50)))

    assert {response.status_code for response in made.run(use)} == {200}
    assert len(lines(made.log)) == 101 and verify(made.log)[0] == 0


WRITER = """
import asyncio, sys
from pathlib import Path
from proxy.pipeline.exchange import Exchange
from proxy.plugin.loading import load_file

async def main():
    plugin = load_file(Path(sys.argv[1]), {"path": sys.argv[2]}).plugin
    await plugin.startup()

    async def one(i):
        exchange = Exchange(f"{sys.argv[3]}-{i}")
        await plugin.verdict(exchange)
        print(exchange.request_id, flush=True)

    for start in range(0, 100000, 4):
        await asyncio.gather(*(one(start + i) for i in range(4)))

asyncio.run(main())
"""


def test_kill_9_loses_nothing_that_was_told(tmp_path):
    """Two writers at once, killed six times at random moments: every id that was told is in the chain, which is whole."""
    path, told = tmp_path / "audit.jsonl", []
    chance = random.Random(7)
    for round_ in range(6):
        running = [
            subprocess.Popen(
                [sys.executable, "-c", WRITER, FILE, path, f"r{round_}w{i}"], stdout=subprocess.PIPE, text=True
            )
            for i in range(2)
        ]
        for process in running:
            process.stdout.readline()  # it has begun
        time.sleep(chance.uniform(0.0, 0.1))
        for process in running:
            os.kill(process.pid, signal.SIGKILL)
        for process in running:
            told += [line for line in process.stdout.read().split("\n")[:-1] if line]
            process.stdout.close()
            process.wait()
    plugin = load_file(FILE, {"path": str(path)}).plugin
    asyncio.run(plugin.startup())  # takes off what is unfinished
    assert verify(path)[0] == 0
    written = {line.get("request_id") for line in lines(path)}
    assert len(told) > 20 and set(told) <= written


def test_an_unfinished_line_is_taken_off(server):
    """It was told to nobody, and would part the chain."""
    made = server()
    made.ask("ASK {}")
    with made.log.open("ab") as file:
        file.write(b'{"number":4,"event":"dec')
    made.ask("ASK {}")
    assert verify(made.log) == (0, f"6 lines, the last hash is {lines(made.log)[-1]['hash']}\n")
