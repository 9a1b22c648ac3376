"""``sparlance plugin new`` and ``plugin test``: a plugin is begun, tried, and what is wrong with it told."""

from pathlib import Path

import pytest

from proxy.cli import main

PLUGINS = sorted((Path(__file__).parent.parent / "plugins").glob("[!_]*.py"))
GUARD = """from proxy import Plugin
def load(options):
    return P()
class P(Plugin):
    may_refuse = {may_refuse}
    {body}
"""


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path, monkeypatch):
    """No config.toml but the test's own."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins").mkdir()


def tried(body: str, capsys, *, may_refuse: bool = False) -> tuple[int, str]:
    """Exit code and output of trying a plugin with this *body*."""
    Path("plugins/p.py").write_text(GUARD.format(may_refuse=may_refuse, body=body), encoding="utf-8")
    code = main(["plugin", "test", "plugins/p.py"])
    return code, capsys.readouterr().out


def test_what_is_begun_can_be_tried_and_run(capsys):
    """The first file is a whole plugin; with its line in the settings it runs."""
    assert main(["plugin", "new", "mine"]) == 0
    assert main(["plugin", "test", "plugins/mine.py"]) == 0
    said = capsys.readouterr().out
    assert "a watcher; hooks: query" in said and "no hook failed" in said
    Path("config.toml").write_text("[plugins]\nenabled = ['mine']\n[plugins.mine]\nheader = 'X-Form'\n", encoding="utf-8")
    assert main(["config", "check"]) == 0
    assert main(["plugin", "list"]) == 0
    assert "on   mine                 Say which query form was asked." in capsys.readouterr().out


@pytest.mark.parametrize("name", ["a-b", "1a", "../a", "class", "_a", "", "ä"])
def test_a_name_is_that_of_a_module(name, capsys):
    """Nothing is written outside of the folder."""
    assert main(["plugin", "new", name]) == 2
    assert "is no name for a plugin" in capsys.readouterr().err
    assert list(Path("plugins").iterdir()) == []


def test_what_is_there_is_not_overwritten(capsys):
    """Whatever it is."""
    Path("plugins/a.py").write_text("mine", encoding="utf-8")
    assert main(["plugin", "new", "a"]) == 2
    assert Path("plugins/a.py").read_text(encoding="utf-8") == "mine"


@pytest.mark.parametrize("may_refuse", [True, False])
def test_a_hook_that_fails_is_told(capsys, may_refuse):
    """Exit code 1; of a guard the requests are refused as well."""
    code, said = tried("def query(self, exchange): 1 / 0", capsys, may_refuse=may_refuse)
    assert code == 1 and "10 failures" in said
    assert ("500 by p: plugin p failed in query: ZeroDivisionError" in said) is may_refuse


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ("def querry(self, exchange): ...", "querry is no hook, and is never called; did you mean query?"),
        ("def query(self): ...", "query(self) is called with (self, exchange)"),
        ("def candidate(self, exchange, parsed): ...", "is called with (self, exchange, parsed, text)"),
        ("async def respond(self, exchange): ...", "did you mean response?"),
    ],
)
def test_what_its_author_did_not_mean_is_told(capsys, body, told):
    """A misspelt hook of a guard would let everything through."""
    code, said = tried(body, capsys)
    assert code == 1 and told in said


def test_a_refusal_is_no_failure(capsys):
    """The request says who refused it and why."""
    code, said = tried("def query(self, exchange): from proxy import refusal; raise refusal('no')", capsys, may_refuse=True)
    assert code == 0 and "400 by p: no" in said


def test_a_file_that_is_not_there_is_named(capsys):
    """One sentence, exit code 2."""
    assert main(["plugin", "test", "plugins/nowhere.py"]) == 2
    assert "there is no file plugins/nowhere.py" in capsys.readouterr().err


@pytest.mark.parametrize("file", PLUGINS, ids=lambda f: f.stem)
def test_no_plugin_of_this_repository_fails(file, capsys, monkeypatch):
    """With the options that config.toml shows."""
    monkeypatch.setenv("SPARLANCE_CONFIG", str(PLUGINS[0].parents[1] / "config.toml"))
    Path("var").mkdir()
    assert main(["plugin", "test", str(file)]) == 0, capsys.readouterr().out
