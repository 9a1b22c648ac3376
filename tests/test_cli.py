"""The command line: flags become settings, failures become one sentence and an exit code."""

import io
import json
import logging
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
import structlog

from proxy.cli import main, parser
from proxy.commands.output import ProgressLine, table
from proxy.commands.settings import config_as_toml
from proxy.config import SECTIONS, Config, load_config
from proxy.index.ttql_parse import parse as parse_ttql

GRAPH = """
@prefix e: <http://e.example/> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
e:a a e:Mill ; rdfs:label "Old Mill" ; e:wheels 2 .
e:b a e:Mill ; rdfs:label "New Mill" ; e:wheels 1 ; e:river e:r .
e:r a e:River, e:Water ; rdfs:label "Long River" .
"""
EMPTY = "PREFIX e: <http://e.example/> SELECT * WHERE { ?r a e:River ; e:wheels ?n }"


@pytest.fixture
def graph(tmp_path):
    """A file with a small graph."""
    file = tmp_path / "mills.ttl"
    file.write_text(GRAPH, encoding="utf-8")
    return str(file)


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    """Work in a folder without config.toml, under no variable of ours; leave the logging of this process as it was."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("SPARLANCE_CONFIG", raising=False)
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    yield
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def leaves() -> list[list[str]]:
    """Every command and sub-command, as words."""
    found = []

    def walk(current, words):
        actions = [a for a in current._actions if a.__class__.__name__ == "_SubParsersAction"]
        if not actions:
            found.append(words)
        for action in actions:
            for name, child in action.choices.items():
                walk(child, [*words, name])

    walk(parser(), [])
    return found


@pytest.mark.parametrize("words", leaves(), ids=" ".join)
def test_every_command_explains_itself_with_an_example(words, capsys):
    """--help says what the command does, and shows one call that the parser takes."""
    with pytest.raises(SystemExit) as stopped:
        main([*words, "--help"])
    shown = capsys.readouterr().out
    assert stopped.value.code == 0
    assert f"sparlance {' '.join(words)}" in shown.partition("example")[2]


@pytest.mark.parametrize(
    ("arguments", "usage", "hint"),
    [
        (["serve", "--prot", "3"], "sparlance serve", "--port"),
        (["serve", "--prot=3"], "sparlance serve", "--port"),
        (["serve", "--load", "a.ttl", "-port", "3"], "sparlance serve", "--port"),
        (["index", "show", "--lod", "a.ttl"], "sparlance index show", "--load"),
        (["config", "check", "--confg", "a.toml"], "sparlance config check", "--config"),
        (["ask", "Who?", "--langage", "en"], "sparlance ask", "--language"),
        (["serve", "--backend", "oxigrph"], "sparlance serve", "oxigraph"),
        (["srve"], "sparlance", "serve"),
        (["index", "sho"], "sparlance index", "show"),
        (["--versoin", "serve"], "sparlance", "--version"),
    ],
    ids=lambda v: " ".join(v) if isinstance(v, list) else "",
)
def test_a_misspelt_word_names_the_nearest(arguments, usage, hint, capsys):
    """Exit code 2, the usage of the command that was meant, and the word that is nearest to the wrong one."""
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    told = capsys.readouterr().err
    assert stopped.value.code == 2
    assert told.startswith(f"usage: {usage} [-h]") and told.endswith(f". Did you mean {hint}?\n")


def test_what_resembles_nothing_gets_no_hint(capsys):
    """A wrong guess is worse than none."""
    with pytest.raises(SystemExit):
        main(["serve", "--xyzzy", "a.ttl"])
    assert capsys.readouterr().err.endswith("sparlance serve: error: unrecognized arguments: --xyzzy a.ttl\n")


def test_config_check_says_that_all_is_well(capsys):
    """Exit code 0, and what was read."""
    assert main(["config", "check"]) == 0
    assert "every setting can be used" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[server]\nprot = 1\n", "server.prot"),
        ("[server]\nport = 'x'\n", "server.port"),
        ("[plugins]\nenabled = ['nowhere']\n", "plugins.enabled"),
        ("[plugins.typo]\nx = 1\n", "plugins.typo"),
    ],
)
def test_config_check_names_the_key(tmp_path, capsys, text, named):
    """Exit code 2 and one line on stderr; ./config.toml is found without a flag."""
    (tmp_path / "config.toml").write_text(text, encoding="utf-8")
    assert main(["config", "check"]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"sparlance: {named}: ") and told.err.count("\n") == 1
    assert told.out == ""


@pytest.mark.parametrize("command", [["serve"], ["check", "-"], ["ask", "Who?"], ["index", "show"]])
def test_nothing_to_serve_says_what_to_give(command, capsys, monkeypatch):
    """Without --load and --url there is one sentence with both, and the demo."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT * { ?s ?p ?o }"))
    assert main(command) == 2
    told = capsys.readouterr().err
    assert "--load" in told and "--url" in told and "sparlance demo" in told


def test_config_show_can_be_read_again(tmp_path, capsys, monkeypatch):
    """What it prints is a file with the same settings; a secret is not in it."""
    monkeypatch.setenv("SPARLANCE_BACKEND_AUTHORIZATION", "Basic c2VjcmV0")
    monkeypatch.setenv("SPARLANCE_CACHE_URL", "redis://:c2VjcmV0@127.0.0.1")
    (tmp_path / "config.toml").write_text(
        '[backend]\nload = ["a \\"b\\".ttl"]\n[plugins.x]\n"a key" = [1.5, true, {b = "ü"}]\n', encoding="utf-8"
    )
    assert main(["config", "show"]) == 0
    shown = capsys.readouterr().out
    assert "c2VjcmV0" not in shown
    again = tmp_path / "again.toml"
    again.write_text(shown, encoding="utf-8")
    first, second = load_config(tmp_path / "config.toml"), load_config(again)
    assert (second.backend, second.plugins.options) == (first.backend, first.plugins.options)
    assert config_as_toml(Config()).count("\n[") == len(SECTIONS) - 1


def test_plugin_list_says_which_are_on(tmp_path, capsys):
    """With the first line of each one's docstring; nothing is run."""
    folder = tmp_path / "plugins"
    folder.mkdir()
    (folder / "a.py").write_text('"""Does a."""\nraise SystemExit\n', encoding="utf-8")
    (folder / "b.py").write_text('"""Does b."""\n', encoding="utf-8")
    (tmp_path / "config.toml").write_text('[plugins]\nenabled = ["b"]\n', encoding="utf-8")
    assert main(["plugin", "list"]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["off", "a", "Does", "a."],
        ["on", "b", "Does", "b."],
    ]


def test_the_last_source_of_data_wins(tmp_path, graph, capsys):
    """--load replaces the url of the file, so that a query file can be checked against another graph."""
    (tmp_path / "config.toml").write_text("[backend]\nurl = 'http://127.0.0.1:9'\n", encoding="utf-8")
    assert main(["config", "show"]) == 0
    assert main(["index", "show", "--load", graph]) == 0
    assert "embedded store" in capsys.readouterr().out


def test_check_tells_what_cannot_be(tmp_path, graph, capsys):
    """Exit code 1; the pattern, the evidence and where it stands, as text and as JSON."""
    (tmp_path / "q.rq").write_text(EMPTY, encoding="utf-8")
    assert main(["check", "q.rq", "--load", graph]) == 1
    text = capsys.readouterr().out
    assert "proved-empty" in text and text.splitlines()[-1].startswith("reject")
    assert main(["check", "q.rq", "--load", graph, "--format", "json"]) == 1
    shown = json.loads(capsys.readouterr().out)
    assert shown["verdict"] == "reject"
    assert any(f["severity"] == "proved-empty" and "wheels" in f["pattern"] for f in shown["findings"])


@pytest.mark.parametrize(
    ("query", "code", "last"),
    [
        ("SELECT * { ?s ?p ?o }", 0, "pass"),
        ("SELECT * {", 1, "reject: not SPARQL"),
        ("PREFIX e: <http://e.example/> SELECT * { ?m a e:Mill OPTIONAL { ?m e:mayor ?x } }", 0, "pass"),
        ("PREFIX e: <http://e.example/> ASK { ?r a e:River ; e:wheels ?n }", 0, "pass"),
    ],
    ids=["anything", "malformed", "optional", "ask"],
)
def test_check_reads_standard_input(graph, capsys, monkeypatch, query, code, last):
    """The exit code is for scripts: 0 pass, 1 refused. Emptiness inside OPTIONAL, and that of ASK, refuses nothing."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(query))
    assert main(["check", "--load", graph]) == code
    assert capsys.readouterr().out.splitlines()[-1] == last


def test_check_says_what_is_too_large_to_analyse(graph, capsys, monkeypatch):
    """It passes, as it does on its way to the backend, and why nothing was found is a finding."""
    large = "SELECT * { VALUES ?x { " + "1 " * 600_000 + "} }"
    monkeypatch.setattr(sys, "stdin", io.StringIO(large))
    assert main(["check", "--load", graph]) == 0
    shown = capsys.readouterr().out
    assert "too large to analyse: 1,200,026 characters" in shown
    assert shown.endswith("\npass: not analysed, it would be forwarded\n")
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT * " + "{" * 10_000 + "}" * 10_000))
    assert main(["check", "--load", graph, "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    [finding] = said["findings"]
    assert said["verdict"] == "pass" and finding["severity"] == "not-analysed" and finding["rule"] == "size"
    assert (finding["line"], finding["column"]) == (1, 51) and "nested" in finding["message"]


HOSTILE = {
    "values": "SELECT * { VALUES ?x { " + "<http://e/a> " * 800_000 + "} }",
    "nesting": "SELECT * " + "{" * 10_000 + "}" * 10_000,
    "brackets": "SELECT * { ?s ?p ?o FILTER(" + "(" * 10_000 + "1" + ")" * 10_000 + ") }",
    "patterns": "SELECT * { " + "?s ?p ?o . " * 100_000 + "}",
    "a number": "SELECT * { ?s <http://e.example/wheels> ?n FILTER(?n > " + "9" * 100_000 + ") }",
    "a limit": "SELECT * { ?s ?p ?o } LIMIT " + "9" * 100_000,
    "an IRI": "SELECT * { <http://e/" + "x" * 500_000 + "> ?p ?o }",
    "a name": "SELECT * { ?" + "x" * 500_000 + " <http://e/none> ?o }",
    "parts": "SELECT * { ?x a <http://e.example/Mill> " + "OPTIONAL { ?x <http://e.example/no> ?y } " * 3_000 + "}",
    "escapes": "SELECT * { ?s ?p " + "\\u0022" * 100_000 + " }",
    "NUL": "SELECT * { ?s ?p \x00 }",
    "BOM": "\ufeffSELECT * { ?s ?p ?o }",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_check_of_hostile_text_is_short_and_clear(graph, capsys, monkeypatch, text):
    """A verdict as the last line, a bounded text before it, no traceback."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["check", "--load", graph]) in (0, 1)
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1].split(":")[0] in ("pass", "reject") and len(shown.out) < 50_000
    assert "Traceback" not in shown.err


def test_check_tells_a_terminal_nothing(graph, capsys, monkeypatch):
    """Control characters of the query are shown as escapes; a pattern is one line."""
    text = 'SELECT * { ?x <http://e.example/wheels> """a\x1b[2J\x00\nb""" }'
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    main(["check", "--load", graph])
    shown = capsys.readouterr().out
    assert "a\\x1b[2J\\x00\\nb" in shown and "\x1b" not in shown and "\x00" not in shown
    assert shown.splitlines()[0].startswith("1:12: ")


@pytest.mark.parametrize("text", ["", " \n", "# nothing"])
def test_check_of_nothing_says_so(graph, capsys, monkeypatch, text):
    """Not that it is an update."""
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))
    assert main(["check", "--load", graph]) == 2
    assert "there is no query in the text" in capsys.readouterr().err


def test_check_of_bytes_that_are_no_text(graph, tmp_path, capsys, monkeypatch):
    """By a file, and by standard input, which some locales read as halves of surrogate pairs."""
    (tmp_path / "q.rq").write_bytes(b'ASK { ?s ?p "\xed\xa0\x80" }')
    assert main(["check", "q.rq", "--load", graph]) == 2
    assert "q.rq: it is not UTF-8" in capsys.readouterr().err
    monkeypatch.setattr(sys, "stdin", io.StringIO('ASK { ?s ?p "\udcff" }'))
    assert main(["check", "-", "--load", graph]) == 2
    assert "standard input: it is not UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize("part", ["proxy.query.parse.OperationParser", "proxy.validation.check.required"])
def test_check_outlives_a_failure_of_its_own(graph, capsys, monkeypatch, part):
    """A bug of ours is a finding and a line on stderr, and refuses nothing."""

    def broken(*args, **more):
        raise KeyError

    monkeypatch.setattr(part, broken)
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT * { ?s ?p ?o }"))
    assert main(["check", "--load", graph]) == 0
    shown = capsys.readouterr()
    assert "unforeseen failure" in shown.out and "analysis_failed" in shown.err + shown.out


def test_check_does_not_judge_updates(graph, capsys, monkeypatch):
    """It says so, with exit code 2."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("CLEAR ALL"))
    assert main(["check", "--load", graph]) == 2
    assert "update" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "named"),
    [
        (["check", "nowhere.rq", "--load", "mills.ttl"], "nowhere.rq"),
        (["index", "show", "--load", "nowhere.ttl"], "nowhere.ttl"),
        (["index", "show", "--load", "mills.docx"], "mills.docx"),
        (["index", "show", "--url", "http://127.0.0.1:9", "--timeout-s", "2"], "127.0.0.1:9"),
        (["index", "show", "--url", "http://127.0.0.1:9", "--load", "mills.ttl"], "backend.load"),
        (["serve", "--load", "mills.ttl", "--port", "70000"], "server.port"),
        (["serve", "--config", "nowhere.toml"], "nowhere.toml"),
    ],
)
def test_a_failure_is_one_sentence(graph, capsys, command, named):
    """Exit code 2, what is wrong on stderr, nothing on stdout, no traceback."""
    assert main(command) == 2
    told = capsys.readouterr()
    assert named in told.err.splitlines()[-1]
    assert told.out == "" and "Traceback" not in told.err


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
@pytest.mark.parametrize("command", [["check"], ["ask", "Who?"], ["index", "show"], ["index", "ttql"]], ids=" ".join)
def test_a_server_that_is_not_there_says_what_to_do(command, host, capsys, monkeypatch):
    """The system's reason, in words and for all addresses at once, and what to give."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("SELECT * { ?s ?p ?o }"))
    assert main([*command, "--url", f"http://{host}:9", "--timeout-s", "2"]) == 2
    told = capsys.readouterr().err.splitlines()[-1]
    assert f"oxigraph at http://{host}:9 cannot be reached: " in told and "Connection refused" in told
    assert "Errno" not in told and "('" not in told
    assert "Start the server" in told and "--url" in told and "--load" in told


def test_a_server_of_another_kind_says_what_to_check(capsys):
    """Somebody answers, and it is not the store that was meant."""
    with ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        assert main(["index", "show", "--url", f"http://127.0.0.1:{server.server_port}"]) == 2
        server.shutdown()
    told = capsys.readouterr().err.splitlines()[-1]
    assert "Start the server" not in told and "--url" in told and "--backend" in told


def test_index_show_counts(graph, capsys):
    """Classes, instances and properties, as text and as JSON; progress is on stderr."""
    assert main(["index", "show", "--load", graph]) == 0
    told = capsys.readouterr()
    assert "http://e.example/Mill  (2 instances)" in told.out
    assert "http://e.example/river  1\n" in told.out, "an object with two classes is one triple"
    assert "loading mills.ttl" in told.err
    assert main(["index", "show", "--load", graph, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["classes"] == {
        "http://e.example/Mill": 2, "http://e.example/River": 1, "http://e.example/Water": 1,
    }  # fmt: skip


def test_index_ttql_describes(graph, capsys):
    """The TTQL document on stdout and nothing else, of the classes wanted, within the budget; bad numbers are usage."""
    assert main(["index", "ttql", "--load", graph, "--class", "http://e.example/Mill", "--depth", "2", "--sample", "5"]) == 0
    told = capsys.readouterr()
    (pattern,) = parse_ttql(told.out).patterns
    assert (pattern.class_, pattern.instances) == ("http://e.example/Mill", 2)
    assert "describing paths of length 2" in told.err
    assert main(["index", "ttql", "--load", graph, "--budget-tokens", "60"]) == 0
    assert len(capsys.readouterr().out) <= 240
    assert main(["index", "ttql", "--load", graph, "--class", "http://e.example/Moon"]) == 2
    for wrong in (["--depth", "0"], ["--floor", "2"], ["--budget-lines", "few"]):
        with pytest.raises(SystemExit, match="2"):
            main(["index", "ttql", "--load", graph, *wrong])


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_progress_writes_over_itself_on_a_terminal():
    """One line, which is gone in the end; elsewhere one line for each phase."""
    terminal, pipe = Terminal(), io.StringIO()
    for stream in (terminal, pipe):
        progress = ProgressLine(stream)
        for done in (1, 2):
            progress("classes", done, 2)
        progress.end()
    assert terminal.getvalue() == "\rclasses 1/2\rclasses 2/2\r           \r"
    assert pipe.getvalue() == "classes ...\n"


def test_a_table_is_as_wide_as_it_must_be():
    """No solutions leave the heads."""
    assert table(["name", "n"], [["Old Mill", "2"]]) == "name      n\n--------  -\nOld Mill  2"
    assert table(["n"], []) == "n\n-"


def test_python_m_proxy_is_the_command():
    """For environments whose scripts are not on the path."""
    assert "from proxy.cli import main" in Path(__file__).parents[1].joinpath("proxy", "__main__.py").read_text(
        encoding="utf-8"
    )
