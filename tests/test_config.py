"""config.toml is the documentation of every setting, and nothing but a usable setting starts the server."""

import re
import tomllib
from pathlib import Path

import pytest

from proxy.config import SECRETS, SECTIONS, Config, Secret, keys, load_config, variable_of
from proxy.errors import ConfigError

FILE = Path(__file__).parent.parent / "config.toml"
TABLES = tomllib.loads(FILE.read_text(encoding="utf-8"))
ALL_KEYS = [f"{section}.{name}" for section in SECTIONS for name in keys(section)]


def default(key: str):
    section, _, name = key.partition(".")
    return getattr(getattr(Config(), section), name)


def write(folder: Path, text: str) -> Path:
    file = folder / "config.toml"
    file.write_text(text, encoding="utf-8")
    return file


@pytest.mark.parametrize("key", [k for k in ALL_KEYS if k not in SECRETS])
def test_every_key_stands_in_the_file_with_its_default(key):
    """A setting that config.toml does not show, or shows with another default, is undocumented."""
    section, _, name = key.partition(".")
    found = TABLES[section][name]
    assert (tuple(found) if isinstance(found, list) else found) == default(key)


def test_the_file_has_no_other_keys():
    """What config.toml documents exists; loading it is strict, so it would not load otherwise."""
    written = {f"{s}.{k}" for s, table in TABLES.items() for k, v in table.items() if not isinstance(v, dict)}
    assert written == set(ALL_KEYS) - SECRETS
    assert load_config(FILE).backend == Config().backend


def test_every_key_says_why():
    """Each line with a key ends in a comment of at least a few words."""
    lines = [line for line in FILE.read_text(encoding="utf-8").splitlines() if re.match(r"\w+ = ", line)]
    assert [line for line in lines if len(line.partition(" # ")[2].split()) < 3] == []
    assert len(lines) == len(ALL_KEYS) - len(SECRETS) + sum(len(v) for v in TABLES["plugins"].values() if isinstance(v, dict))


@pytest.mark.parametrize(
    ("text", "key", "words"),
    [
        ("[sever]\n", "sever", ["unknown section", '"server"']),
        ("server = 1\n", "server", ["the number 1", "[server]"]),
        ("[server]\nprot = 1\n", "server.prot", ["unknown key", '"port"']),
        ("[server]\nport = 'x'\n", "server.port", ['the text "x"', "0", "65535"]),
        ("[server]\nport = 65536\n", "server.port", ["65536", "65535"]),
        ("[server]\nport = true\n", "server.port", ["true", "whole number"]),
        ("[server]\nhost = ''\n", "server.host", ["non-empty"]),
        ("[backend]\ntimeout_s = 0\n", "backend.timeout_s", ["the number 0", "over 0"]),
        ("[backend]\ntimeout_s = inf\n", "backend.timeout_s", ["86400"]),
        ("[backend]\nkind = 'fuseki'\n", "backend.kind", ['"fuseki"', '"graphdb"', '"sparql"']),
        ("[backend]\nload = 'a.ttl'\n", "backend.load", ['"a.ttl"', "a list"]),
        ("[backend]\nload = [1]\n", "backend.load", ["[1]", "each item"]),
        ("[backend]\nauthorization = 'Basic x'\n", "backend.authorization", ["SPARLANCE_BACKEND_AUTHORIZATION"]),
        ("[cache]\nurl = 'redis://:c2VjcmV0@a'\n", "cache.url", ["SPARLANCE_CACHE_URL"]),
        ("[cache]\nurl = 'http://a'\n", "cache.url", ["redis://"]),
        ("[shared]\nurl = 'redis://:c2VjcmV0@a'\n", "shared.url", ["SPARLANCE_SHARED_URL"]),
        ("[shared]\nurl = 'http://a'\n", "shared.url", ["redis://"]),
        ("[tracing]\nendpoint = 'http://u:p@a'\n", "tracing.endpoint", ["SPARLANCE_TRACING_ENDPOINT"]),
        ("[server]\ndrain_s = 10\n", "server.drain_s", ["shutdown_timeout_s = 10", "less"]),
        ("[server]\ntrusted_proxies = ['10.0.0.0/99']\n", "server.trusted_proxies", ["10.0.0.0/99", "networks"]),
        ("[load]\nconcurrency = 100\n", "load.concurrency", ["100", "max_connections = 64"]),
        ("[load]\nbreaker_open_first_s = 90\n", "load.breaker_open_first_s", ["breaker_open_most_s"]),
        ("[backend]\nurl = 'localhost:1'\n", "backend.url", ["localhost:1", "http://"]),
        ("[backend]\nurl = 'http://a'\nload = ['a.nt']\n", "backend.load", ["backend.url"]),
        ("[backend]\nkind = 'graphdb'\nurl = 'http://a'\n", "backend.repository", ["GraphDB"]),
        ("[index]\nenabled = 1\n", "index.enabled", ["true or false"]),
        ("[index]\nclass_predicate = 'rdf:type >'\n", "index.class_predicate", ["rdf:type >", '"auto"']),
        ("[index]\nclass_predicate = 'type'\n", "index.class_predicate", ["type", '"auto"']),
        ("[nl]\nabstain_below = 1.5\n", "nl.abstain_below", ["1.5", "up to 1"]),
        ("[writer]\nurl = 'localhost:1'\nmodel = 'm'\n", "writer.url", ["http://127.0.0.1:8000/v1"]),
        ("[writer]\nurl = 'http://['\nmodel = 'm'\n", "writer.url", ["http://127.0.0.1:8000/v1"]),
        ("[writer]\nurl = 'https://u:p@a/v1'\nmodel = 'm'\n", "writer.url", ["SPARLANCE_WRITER_KEY"]),
        ("[writer]\nurl = 'http://a/v1'\n", "writer.model", ["not set"]),
        ("[writer]\nurl = 'http://a/v1'\nmodel = 'm'\nfolder = 'f'\n", "writer.folder", ["one of them"]),
        ("[writer]\nkey = 'k'\n", "writer.key", ["SPARLANCE_WRITER_KEY"]),
        ("[writer]\ndrafts = 9\n", "writer.drafts", ["9", "8"]),
        ("[plugins]\noptions = []\n", "plugins.options", ["unknown key"]),
        ("[plugins]\nenabled = ['a', 'a']\n", "plugins.enabled", ["once"]),
        ("[server\n", "", ["not TOML"]),
    ],
    ids=lambda v: v if isinstance(v, str) and "\n" not in v else "",
)
def test_what_cannot_be_used_is_named(tmp_path, text, key, words):
    """The error has the dotted key, what was found and what is accepted."""
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, text))
    assert caught.value.key == key
    assert [w for w in words if w not in str(caught.value)] == []


def test_a_key_does_not_travel_in_the_clear(tmp_path):
    """With a key the writer's server is on this machine or behind TLS."""
    for url, is_fine in (("http://a/v1", False), ("https://a/v1", True), ("http://127.0.0.1:1/v1", True)):
        file = write(tmp_path, f"[writer]\nurl = '{url}'\nmodel = 'm'\n")
        if is_fine:
            assert load_config(file, environ={"SPARLANCE_WRITER_KEY": "k"}).writer.key.value == "k"
        else:
            with pytest.raises(ConfigError, match="https://") as caught:
                load_config(file, environ={"SPARLANCE_WRITER_KEY": "k"})
            assert caught.value.key == "writer.url"


def test_a_secret_in_a_file_is_not_repeated_in_the_error(tmp_path):
    """Errors end up in logs."""
    with pytest.raises(ConfigError) as caught:
        load_config(write(tmp_path, "[backend]\nauthorization = 'Basic c2VjcmV0'\n"))
    assert "c2VjcmV0" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("CACHE_URL", "http://:c2VjcmV0@a"),
        ("SHARED_URL", "redi://u:c2VjcmV0@a:6379/0"),
        ("BACKEND_URL", "ftp://u:c2VjcmV0@a"),
        ("BACKEND_URL", "http://u:c2VjcmV0@a:7878"),
        ("BACKEND_URL", "HTTP://c2VjcmV0@a"),
    ],
)
def test_a_password_in_a_url_is_not_repeated_in_the_error(variable, value):
    """Nor is one taken in the address of a backend, which stands in logs and messages."""
    with pytest.raises(ConfigError, match=r"\*\*\*@a") as caught:
        load_config(environ={"SPARLANCE_" + variable: value})
    assert "c2VjcmV0" not in str(caught.value)


def test_later_sources_win(tmp_path):
    """Defaults, file, environment, command line: the last that speaks decides, key by key."""
    file = write(tmp_path, "[server]\nport = 1\nhost = '::1'\n[log]\nlevel = 'debug'\n")
    environ = {"SPARLANCE_SERVER_PORT": "2", "SPARLANCE_SERVER_HOST": "127.0.0.2"}
    config = load_config(file, environ=environ, overrides={"server.port": 3})
    assert (config.server.port, config.server.host, config.log.level) == (3, "127.0.0.2", "debug")


@pytest.mark.parametrize(
    ("key", "raw", "value"),
    [
        ("server.port", "0", 0),
        ("backend.load", '["a b.ttl", "c.nt.gz"]', ("a b.ttl", "c.nt.gz")),
        ("backend.timeout_s", "2", 2.0),
        ("index.enabled", "false", False),
        ("backend.kind", "qlever", "qlever"),
        ("backend.repository", "42", "42"),
        ("backend.authorization", "Bearer = [x", Secret("Bearer = [x")),
    ],
)
def test_a_variable_is_read_as_its_key_wants(key, raw, value):
    """Text is taken as it is, other types as TOML values."""
    section, _, name = key.partition(".")
    assert getattr(getattr(load_config(environ={variable_of(key): raw}), section), name) == value


@pytest.mark.parametrize("variable", ["SPARLANCE_SERVER_PROT", "SPARLANCE_INDEX_ENABLED", "SPARLANCE_PLUGINS_OPTIONS"])
def test_a_wrong_variable_is_named(variable):
    """A misspelt variable, or a value of the wrong type, stops the start and is named."""
    with pytest.raises(ConfigError, match=variable):
        load_config(environ={variable: "1"})


@pytest.mark.parametrize("variable", ["SPARLANCE_PORT", "SPARLANCE_SERVICE_HOST", "SPARLANCE_CONFIG", "PATH"])
def test_variables_of_others_are_left_alone(variable):
    """Kubernetes sets SPARLANCE_PORT=tcp://… for a service named sparlance; that is no setting."""
    assert load_config(environ={variable: "tcp://10.0.0.1:80"}) == Config()


def test_a_secret_does_not_show():
    """Printing the settings never prints a credential."""
    config = load_config(environ={"SPARLANCE_BACKEND_AUTHORIZATION": "Basic c2VjcmV0"})
    assert "c2VjcmV0" not in repr(config)
    assert config.backend.authorization.value == "Basic c2VjcmV0"


def test_paths_in_a_file_start_at_the_file(tmp_path):
    """The same file means the same wherever the command is started; an absolute path stays."""
    file = write(tmp_path, f"[backend]\nload = ['a.ttl', '{tmp_path}/b.ttl']\n[plugins]\ndirectory = 'mine'\n")
    config = load_config(file)
    assert config.backend.load == (str(tmp_path / "a.ttl"), str(tmp_path / "b.ttl"))
    assert config.plugins.directory == str(tmp_path / "mine")
    assert load_config(overrides={"backend.load": ["a.ttl"]}).backend.load == ("a.ttl",)


def test_every_setting_that_names_a_file_or_folder_starts_at_the_file(tmp_path):
    """Whatever is called so; a key that is added later is held to it too."""
    called = {"directory", "keys_file", "encoder", "ranker", "scorer", "prefix_cache", "memory", "folder"}
    named = {f"{s}.{k}" for s in SECTIONS for k in keys(s) if k in called}
    assert len(named) >= 8
    for key in sorted(named):
        section, _, name = key.partition(".")
        config = load_config(write(tmp_path, f'[{section}]\n{name} = "mine"\n'))
        assert getattr(getattr(config, section), name) == str(tmp_path / "mine"), key


def test_a_tilde_is_the_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    config = load_config(write(tmp_path, "[index]\ndirectory = '~/x'\n[backend]\nload = ['~/a.ttl', 'b~.ttl']\n"))
    assert config.index.directory == str(tmp_path / "home" / "x")
    assert config.backend.load == (str(tmp_path / "home" / "a.ttl"), str(tmp_path / "b~.ttl"))


def test_tables_of_plugins_are_kept_as_they_are(tmp_path):
    """[plugins.NAME] is for the plugin to judge."""
    config = load_config(write(tmp_path, "[plugins]\nenabled = ['a']\n[plugins.a]\nx = [1]\n"))
    assert config.plugins.options == {"a": {"x": [1]}}
