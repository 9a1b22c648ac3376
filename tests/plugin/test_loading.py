"""Finding plugins in a folder and among the installed packages, and their options."""

import sys
from pathlib import Path

import pytest

from proxy.errors import ConfigError, PluginError
from proxy.plugin.loading import available, load_plugins


def write(folder: Path, name: str, body: str) -> None:
    (folder / f"{name}.py").write_text(
        f'"""Plugin {name}."""\nfrom proxy import Plugin, QueryRejected\n{body}', encoding="utf-8"
    )


def test_plugins_load_in_the_order_of_the_configuration(tmp_path):
    """Not in that of the folder; the options of each reach its load()."""
    body = "class P(Plugin):\n    pass\ndef load(options):\n    p = P()\n    p.options = options\n    return p\n"
    for name in ("a", "b", "c"):
        write(tmp_path, name, body)
    loaded = load_plugins(tmp_path, enabled=["b", "a"], options={"a": {"x": 1}})
    assert [p.name for p in loaded.plugins] == ["b", "a"]
    assert [p.plugin.options for p in loaded.plugins] == [{}, {"x": 1}]


@pytest.mark.parametrize(
    ("body", "error", "message"),
    [
        ("def load(options):\n    raise ValueError('x: too small')\n", ConfigError, "plugins.a: x: too small"),
        ("def load(options):\n    return 1\n", PluginError, "returned int"),
        ("def load(options):\n    return 1 / 0\n", PluginError, r"a\.py, line 4: ZeroDivisionError: division by zero$"),
        ("import does_not_exist\n", PluginError, r"a\.py, line 3: ModuleNotFoundError: No module named 'does_not_exist'$"),
        ("def lode(options): ...\n", PluginError, r"a\.py has no function load\(options\)$"),
        ("def (", PluginError, r"a\.py, line 3: invalid syntax$"),
        ("raise LookupError\n", PluginError, r"a\.py, line 3: LookupError$"),
    ],
    ids=["options", "no plugin", "bug", "import", "no load", "syntax", "no words"],
)
def test_a_plugin_that_cannot_be_loaded_stops_the_start(tmp_path, body, error, message):
    """The error names the plugin, file and line; its options are the configuration's fault, the rest is the plugin's."""
    write(tmp_path, "a", body)
    with pytest.raises(error, match=message):
        load_plugins(tmp_path, enabled=["a"])


@pytest.mark.parametrize("name", ["nowhere", "../a", "a.b", ""])
def test_an_unknown_plugin_is_named_with_what_there_is(tmp_path, name):
    """A name is a file in the folder, never a path out of it."""
    write(tmp_path, "a", "")
    with pytest.raises(ConfigError, match="it holds a") as caught:
        load_plugins(tmp_path, enabled=[name])
    assert caught.value.key == "plugins.enabled"


@pytest.mark.parametrize("enabled", [[], ["guard"]], ids=["none", "another"])
def test_options_of_a_plugin_that_is_not_there_stop_the_start(tmp_path, enabled):
    """A misspelt [plugins.NAME] would leave the plugin without its options; the key and the nearest name are told."""
    write(tmp_path, "guard", "class P(Plugin):\n    pass\ndef load(options):\n    return P()\n")
    with pytest.raises(ConfigError, match='Did you mean "guard"') as caught:
        load_plugins(tmp_path, enabled=enabled, options={"gaurd": {"x": 1}})
    assert caught.value.key == "plugins.gaurd"


def test_options_of_a_plugin_that_is_off_are_kept(tmp_path):
    """They are for the day it is on; the file is not even read."""
    write(tmp_path, "guard", "def (")
    assert load_plugins(tmp_path, enabled=[], options={"guard": {"x": 1}}).plugins == ()


def test_available_runs_nothing(tmp_path):
    """Listing plugins reads their docstrings only."""
    write(tmp_path, "a", "raise SystemExit\n")
    write(tmp_path, "b", "def (")
    assert available(tmp_path) == {"a": "Plugin a.", "b": "(cannot be loaded: invalid syntax, line 3)"}


OPTIONS = """
from typing import Annotated, Literal
import msgspec

class Options(msgspec.Struct, frozen=True):
    rows: Annotated[int, msgspec.Meta(ge=1)]
    mode: Literal["a", "b"] = "a"
    names: tuple[str, ...] = ()

    def __post_init__(self):
        if self.rows == 13:
            raise ValueError("rows: not 13")

class P(Plugin):
    def __init__(self, options):
        self.options = options

load = P
"""


def test_options_are_held_to_the_schema_of_the_plugin(tmp_path):
    """load() gets an instance of the plugin's own Options, with their defaults."""
    write(tmp_path, "a", OPTIONS)
    [loaded] = load_plugins(tmp_path, enabled=["a"], options={"a": {"rows": 5}}).plugins
    assert (loaded.plugin.options.rows, loaded.plugin.options.mode) == (5, "a")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, r"^plugins\.a\.rows: not set; accepted: a whole number from 1$"),
        ({"rows": 0}, r"^plugins\.a\.rows: found 0; accepted: a whole number from 1$"),
        ({"rows": True}, r"^plugins\.a\.rows: found true;"),
        ({"rows": 1, "mode": "c"}, r'^plugins\.a\.mode: found "c"; accepted: one of "a", "b"$'),
        ({"rows": 1, "names": [1]}, r"^plugins\.a\.names: found \[1\] \(.*\); accepted: a list"),
        ({"rows": 1, "mod": "b"}, r'^plugins\.a\.mod: unknown option; accepted: rows, mode, names\. Did you mean "mode"\?$'),
        ({"rows": 13}, r"^plugins\.a: rows: not 13$"),
    ],
)
def test_an_option_that_cannot_be_used_is_named(tmp_path, options, message):
    """With its dotted key, what was found and what is accepted; a check of the plugin's own names the table."""
    write(tmp_path, "a", OPTIONS)
    with pytest.raises(ConfigError, match=message):
        load_plugins(tmp_path, enabled=["a"], options={"a": options})


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A package with a plugin, as pip leaves it: its module, and the metadata with the entry point."""
    site = tmp_path / "site"
    info = site / "their_plugins-1.2.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: their-plugins\nVersion: 1.2\n", encoding="utf-8")
    (info / "entry_points.txt").write_text("[sparlance.plugins]\ntheirs = their_plugins.one\n", encoding="utf-8")
    (site / "their_plugins").mkdir()
    (site / "their_plugins" / "__init__.py").write_text("", encoding="utf-8")
    write(site / "their_plugins", "one", OPTIONS)
    monkeypatch.syspath_prepend(str(site))
    yield tmp_path
    for name in [n for n in sys.modules if n.startswith("their_plugins")]:
        del sys.modules[name]


def test_installed_plugins_are_found_by_the_name_of_their_entry_point(installed):
    """With options like those in the folder; listing them runs nothing."""
    assert available(installed) == {"theirs": "(installed: their_plugins.one of their-plugins 1.2)"}
    assert "their_plugins.one" not in sys.modules
    [loaded] = load_plugins(installed, enabled=["theirs"], options={"theirs": {"rows": 2}}).plugins
    assert (loaded.name, loaded.plugin.options.rows) == ("theirs", 2)


def test_a_file_and_an_installed_plugin_of_one_name_stop_the_start(installed):
    """Whichever came first would hide the other from whoever meant it."""
    write(installed, "theirs", OPTIONS)
    with pytest.raises(ConfigError, match="two plugins"):
        load_plugins(installed, enabled=["theirs"])


def test_the_budget_reaches_the_chain(tmp_path):
    """``[plugins] budget_s``."""
    assert load_plugins(tmp_path, enabled=[], budget_s=0.5).budget_s == 0.5
