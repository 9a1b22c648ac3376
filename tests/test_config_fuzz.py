"""Settings that nobody foresaw: a configuration or a ConfigError that names the key, and never a secret.

``SPARLANCE_FUZZ_CASES=100000 pytest tests/test_config_fuzz.py`` tries longer.
"""

import os
import random
from pathlib import Path

import msgspec
import pytest

from proxy.config import SECTIONS, Config, keys, load_config, variable_of
from proxy.errors import ConfigError

CASES = int(os.environ.get("SPARLANCE_FUZZ_CASES", "200"))
SHIPPED = (Path(__file__).parent.parent / "config.toml").read_text(encoding="utf-8")
SECRET = "c2VjcmV0c2VjcmV0"
VALUES = [
    "0", "-1", "1", "2.5", "nan", "inf", "-inf", "1e400", "9999999999999999999999", "true", "''", "'x'", "[]", "['a', 1]",
    "{}", "{a = {}}", "1979-05-27", "07:32:00", "'http://a'", "'ftp://a'", "['10.0.0.0/99']", "'\\u0000'", '"\\u0000"',
    "'::1'", "[[[[]]]]", "'qlever'", "'" + "x" * 5000 + "'", "0xff", "1_000", "''' \n '''",
]  # fmt: skip
KNOWN = {section: list(keys(section)) for section in SECTIONS}
NAMES = [f"{section}.{name}" for section in SECTIONS for name in KNOWN[section]]
DATASETS = [
    "datasets", "datasets.a", "datasets.a.backend", "datasets.a.server", "datasets.A", "datasets.sparql.nl", "plugins.x",
    "x",
]  # fmt: skip
LINES = [
    "[", "]", "[[server]]", "= 1", "a.b.c = 1", "\0", "\x7f", "#", '"', "[datasets]", "[datasets.a.backend]", "é = 1",
    "\ufeff",
]  # fmt: skip


def read(file, text, environ):
    """What comes of it: None, or the key that the error names."""
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    try:
        config = load_config(file, environ=environ)
    except ConfigError as error:
        assert SECRET not in str(error)
        return error.key
    assert isinstance(config, Config)
    assert SECRET not in msgspec.json.encode(repr(config.backend)).decode() + repr(config.access)
    return None


def test_any_values_in_a_file(tmp_path):
    """Of a key that there is, of one that there is not, in a section or in a dataset."""
    errors = set()
    for seed in range(CASES):
        rng = random.Random(seed)
        lines = []
        for _ in range(rng.randint(1, 4)):
            section = rng.choice([*SECTIONS, *DATASETS])
            known = KNOWN.get(section, ["url", "load", "kind"])
            lines += [f"[{section}]", f"{rng.choice([*known, 'y'])} = {rng.choice(VALUES)}"]
        errors.add(read(tmp_path / "c.toml", "\n".join(lines), {}))
    assert None in errors and len(errors) > 20  # some can be used, the others are told apart


def test_any_text_as_a_file(tmp_path):
    """Our own file with pieces put in, taken out and doubled."""
    for seed in range(CASES // 5):
        rng = random.Random(seed)
        lines = SHIPPED.splitlines()
        for _ in range(rng.randint(1, 6)):
            at = rng.randrange(len(lines))
            match rng.randrange(4):
                case 0:
                    lines.insert(at, rng.choice(LINES))
                case 1:
                    del lines[at]
                case 2:
                    lines.insert(rng.randrange(len(lines)), lines[at])
                case _:
                    cut = rng.randrange(len(lines[at]) + 1)
                    lines[at] = lines[at][:cut] + rng.choice([*VALUES, "\udcff", "\x1b"]) + lines[at][cut:]
        read(tmp_path / "c.toml", "\n".join(lines), {})


def test_any_variables(tmp_path):
    """With secrets among them, which no error repeats."""
    for seed in range(CASES):
        rng = random.Random(seed)
        more = ["SPARLANCE_DATASETS_A_BACKEND_URL", "SPARLANCE_DATASETS_", "SPARLANCE_", "SPARLANCE_SERVER_X"]
        names = [*map(variable_of, NAMES), *more]
        environ = {rng.choice(names): rng.choice(VALUES).strip("'") for _ in range(rng.randint(0, 4))}
        for name, value in (
            ("SPARLANCE_BACKEND_AUTHORIZATION", f"Basic {SECRET}"),
            ("SPARLANCE_ACCESS_KEYS", f"a:query:{SECRET}"),
            ("SPARLANCE_CACHE_URL", rng.choice(["redis", "http", "x"]) + f"://u:{SECRET}@h/0"),
            ("SPARLANCE_SHARED_URL", f"//:{SECRET}@h"),
            ("SPARLANCE_BACKEND_URL", f"http://{SECRET}:x@h"),
        ):
            if rng.random() < 0.3:
                environ[name] = value
        text = rng.choice(["", "[datasets.a.backend]\nurl = 'http://a'\n", "[cache]\nenabled = true\n"])
        read(tmp_path / "c.toml", text, environ)


@pytest.mark.parametrize("text", ["a = " + "[" * 20_000, "a" + ".a" * 2_000 + " = 1", "a = " + "{a=" * 20_000])
def test_nesting_without_end(tmp_path, text):
    """It is one sentence, not a traceback."""
    (file := tmp_path / "c.toml").write_text(text)
    with pytest.raises(ConfigError):
        load_config(file, environ={})


def test_a_large_integer_is_refused_as_a_port(tmp_path):
    """Python refuses to write numbers of more than 4,300 digits."""
    for text in ("[server]\nport = " + "9" * 10_000, "[server]\nport = 0x" + "f" * 10_000):
        assert read(tmp_path / "c.toml", text, {}) in ("", "server.port")
    assert read(tmp_path / "c.toml", "", {"SPARLANCE_SERVER_PORT": "9" * 10_000}) == "server.port"
