"""What the documentation says exists, and what exists is documented."""

import ast
import asyncio
import re
import shlex
import tomllib
from pathlib import Path

import httpx
import pytest

import proxy
from proxy.app import create_app
from proxy.cli import main, parser
from proxy.config import load_config
from proxy.demo.tour import stops
from proxy.errors import ConfigError
from proxy.log import EVENTS
from proxy.plugin.hooks import Plugin
from proxy.plugin.loading import available, load_plugins
from tests.test_layers import tree_of

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
HOOKS = [name for name, value in vars(Plugin).items() if callable(value)]


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def name_of(requirement: str) -> str:
    return re.split(r"[<>=!;\[ ]", requirement, maxsplit=1)[0]


@pytest.mark.parametrize("file", DOCUMENTS, ids=lambda f: f.name)
def test_links_lead_somewhere(file):
    """Every relative link of a page names a file of the repository."""
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", file.read_text(encoding="utf-8"))
    assert [link for link in links if not (file.parent / link).exists()] == []


def test_the_readme_shows_the_tour_of_the_demo():
    """The three commands as ``make run`` prints them; what they do is tested in tests/demo."""
    assert [stop.command for stop in stops("http://127.0.0.1:8080") if stop.command not in read("README.md")] == []


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize("page", ["README.md", "docs/plugins.md"])
def test_every_hook_is_described(hook, page):
    """A hook that nobody can read about is not one."""
    assert re.search(rf"`{hook}\b", read(page))


@pytest.mark.parametrize("name", available(ROOT / "plugins"))
def test_every_plugin_runs_and_is_described(name):
    """It loads with the options that config.toml shows, has a test, and a line in the README and in docs/plugins.md."""
    options = load_config(ROOT / "config.toml").plugins.options
    assert len(load_plugins(ROOT / "plugins", enabled=[name], options=options).plugins) == 1
    assert (ROOT / "tests" / "plugins" / f"test_{name}.py").is_file()
    assert f"`{name}`" in read("README.md")
    assert f"`{name}`" in read("docs/plugins.md")


def test_every_dependency_has_its_line():
    """docs/dependencies.md tells of each package what it is for, and of no other."""
    project = PROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values(), PROJECT["build-system"]["requires"]]
    wanted = {name_of(requirement) for requirements in lists for requirement in requirements}
    rows = re.findall(r"^\| ([^|]+) \|", read("docs/dependencies.md"), re.MULTILINE)
    named = {re.sub(r" \(.*?\)", "", name).strip() for row in rows if row not in ("package", "---") for name in _split(row)}
    assert named == wanted


def _split(row: str) -> list[str]:
    return re.sub(r" \(.*?\)", "", row).split(",")


def test_the_group_and_the_extra_for_development_are_the_same():
    """An old pip knows no groups, a new one should not need the extra."""
    assert PROJECT["dependency-groups"]["dev"] == PROJECT["project"]["optional-dependencies"]["dev"]


def test_the_changelog_knows_this_version():
    """Whoever installs a version can read what is in it."""
    assert f"## [{proxy.__version__}]" in read("CHANGELOG.md")


def plugin_examples() -> dict[str, str]:
    """File name → text of each plugin on docs/plugins.md."""
    blocks = re.findall(r"```python\n(# plugins/(\w+)\.py\n.*?)```", read("docs/plugins.md"), re.DOTALL)
    return {name: text for text, name in blocks}


@pytest.fixture
def examples(tmp_path):
    """The application over a triple, with the plugins of the page as they stand there, under the page's own settings."""
    for name, text in plugin_examples().items():
        (tmp_path / f"{name}.py").write_text(text, encoding="utf-8")
    (tmp_path / "one.nt").write_text("<http://example.org/ann> <http://example.org/salary> <a:much> .\n", encoding="utf-8")
    [settings] = re.findall(r"```toml\n\[plugins\]\n(.*?)```", read("docs/plugins.md"), re.DOTALL)
    text = settings.replace('enabled = ["', 'enabled = ["query_form", "')
    (tmp_path / "config.toml").write_text(
        f"[backend]\nload = ['one.nt']\nkind = 'oxigraph'\n[policy]\nallow_updates = true\n[index]\nenabled = false\n"
        f"[plugins]\ndirectory = '.'\n{text}",
        encoding="utf-8",
    )
    return create_app(load_config(tmp_path / "config.toml"))


def post(app, text: str) -> httpx.Response:
    kind = "update" if text.startswith(("INSERT", "DELETE")) else "query"
    path = "/update" if kind == "update" else "/query"

    async def send() -> httpx.Response:
        await app.startup()
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            response = await client.post(path, data={kind: text})
        await app.shutdown()
        return response

    return asyncio.run(send())


def test_the_page_on_plugins_has_a_watcher_and_a_guard():
    """Both are run below; a heading that moves must not leave the tests without them."""
    assert list(plugin_examples()) == ["query_form", "forbid_predicate"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("SELECT * {\n ?s <http://example.org/salary> ?o }", 2),
        ("PREFIX e: <http://example.org/> SELECT * { ?s e:sal\\u0061ry ?o }", 1),
        ("PREFIX e: <http://example.org/> SELECT * { ?s e:knows ?k\n; (e:x|^e:salary)+ ?o }", 2),
        ("PREFIX e: <http://example.org/> ASK { { SELECT * { ?s e:salary ?o } } }", 1),
        ("PREFIX e: <http://example.org/> ASK { ?s e:x ?o FILTER NOT EXISTS { ?s e:salary ?n } }", 1),
        ("PREFIX e: <http://example.org/> ASK { ?s e:x ?o\n FILTER(?o = e:salary) }", 2),
        ("PREFIX e: <http://example.org/> ASK { ?s e:x ?o }\nVALUES ?o { e:salary }", 2),
        ("SELECT * { ?s ?p ?o }", 1),
        ("SELECT * { ?s !<a:x> ?o }", 1),
        ("DESCRIBE <http://example.org/ann>", 1),
        ("INSERT DATA { <a:s> <http://example.org/salary> 1 }", 1),
        ("DELETE WHERE { ?s <http://example.org/salary> ?o }", 1),
    ],
)
def test_the_guard_of_the_page_refuses(examples, text, line):
    """Whatever way the predicate is mentioned or reached: 400, with a finding where it stands."""
    response = post(examples, text)
    assert response.status_code == 400
    assert (response.json()["title"], response.json()["findings"][0]["line"]) == ("Query rejected", line)


def test_the_guard_of_the_page_lets_nothing_unread_through(examples):
    """What cannot be parsed cannot be judged."""
    assert "cannot be parsed" in post(examples, "SELECT * { ?s <a:x> }").json()["detail"]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("SELECT * { ?s <a:x> ?o }", "SELECT"),
        ('ASK { ?s <a:x> "<http://example.org/salary>" } # <http://example.org/salary>', "ASK"),
        ("INSERT DATA { <a:s> <a:x> 1 }", "UPDATE"),
    ],
)
def test_the_guard_of_the_page_lets_others_pass(examples, text, form):
    """A string or a comment is no mention; the watcher of the page says which form it was."""
    response = post(examples, text)
    assert response.is_success and response.headers["x-query-form"] == form


@pytest.mark.parametrize(
    "options", [{}, {"predicates": []}, {"predicates": "a:b"}, {"predicates": ["a:b"], "variables": "no"}, {"predicate": []}]
)
def test_the_guard_of_the_page_checks_its_options(tmp_path, options):
    """As the page tells: by its Options, and the error names the table."""
    (tmp_path / "forbid_predicate.py").write_text(plugin_examples()["forbid_predicate"], encoding="utf-8")
    with pytest.raises(ConfigError, match=r"^plugins\.forbid_predicate"):
        load_plugins(tmp_path, enabled=["forbid_predicate"], options={"forbid_predicate": options})


@pytest.mark.parametrize("name", ["query_form", "forbid_predicate"])
def test_the_page_can_be_followed(tmp_path, monkeypatch, name, capsys):
    """What stands there, saved as it says, is tried by the command that it names, and nothing is wrong with it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plugins").mkdir()
    (tmp_path / "plugins" / f"{name}.py").write_text(plugin_examples()[name], encoding="utf-8")
    [settings] = re.findall(r"```toml\n(\[plugins\]\n.*?)```", read("docs/plugins.md"), re.DOTALL)
    if name == "forbid_predicate":
        (tmp_path / "config.toml").write_text(settings, encoding="utf-8")
    assert main(["plugin", "test", f"plugins/{name}.py"]) == 0, capsys.readouterr().out


@pytest.mark.parametrize("name", available(ROOT / "plugins"))
def test_plugins_use_what_the_page_says_and_no_more(name):
    """Public names of ``proxy``; so whoever reads the page can write what is there."""
    used = set()
    for node in ast.walk(tree_of((ROOT / "plugins" / f"{name}.py").read_bytes())):
        if isinstance(node, ast.ImportFrom) and node.module.partition(".")[0] == "proxy":
            assert node.module == "proxy"
            used |= {alias.name for alias in node.names}
        assert not (isinstance(node, ast.Import) and any(alias.name.startswith("proxy") for alias in node.names))
    assert used <= set(proxy.__all__)


def test_what_a_plugin_may_import_is_there():
    """The public names are sorted, load, and nothing else loads by that way."""
    assert proxy.__all__ == sorted(proxy.__all__)
    assert [name for name in proxy.__all__ if getattr(proxy, name, None) is None] == []
    with pytest.raises(AttributeError):
        proxy.nothing  # noqa: B018


def commands() -> list[str]:
    """Every ``sparlance …`` line of a shell block in the documentation."""
    found = []
    for file in DOCUMENTS:
        for block in re.findall(r"```sh\n(.*?)```", file.read_text(encoding="utf-8"), re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                command = line.removeprefix("$ ").removeprefix(".venv/bin/")
                found += [command] if command.startswith("sparlance ") else []
    return sorted(set(found))


@pytest.mark.parametrize("command", commands())
def test_every_command_in_the_documentation_is_one(command):
    """The parser takes it; a renamed flag is noticed here."""
    words = shlex.split(command.partition(" #")[0], comments=True)
    words = words[: words.index("|")] if "|" in words else words
    assert parser().parse_args([w for w in words[1:] if w != "&"]).run


def test_every_event_is_listed_with_its_fields():
    """proxy/log.py names each event that the code logs, with at least the fields that the call names, and no other event."""
    logged: dict[str, set[str]] = {}
    for file in ROOT.glob("proxy/**/*.py"):
        for node in ast.walk(tree_of(file.read_bytes())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.args):
                continue
            first = node.args[0]
            is_event = isinstance(first, ast.Constant) and re.match(r"log$|structlog\.", ast.unparse(node.func.value))
            if node.func.attr in ("debug", "info", "warning", "error", "exception", "critical") and is_event:
                logged.setdefault(first.value, set()).update(k.arg for k in node.keywords if k.arg not in (None, "exc_info"))
    assert set(logged) == set(EVENTS)
    missing = {event: fields - set(re.findall(r"\w+", EVENTS[event])) for event, fields in logged.items()}
    assert {event: fields for event, fields in missing.items() if fields} == {}
