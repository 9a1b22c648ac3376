"""Flags that several commands have, and the settings that they make."""

from __future__ import annotations

import argparse
import difflib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from proxy.config import CONFIG_VARIABLE, Config, load_config


class Parser(argparse.ArgumentParser):
    """Complains of what it does not know with the usage of the command that was meant, and names the nearest."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # A sub-command's parser is called by this way; left alone, what it does not know is the root parser's complaint.
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hints = [_nearest(word.partition("=")[0], self._option_string_actions) for word in unknown if word[:1] == "-"]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, hints), '')}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(action.choices)
            raise argparse.ArgumentError(action, f'there is no "{value}"; there is {choices}{_nearest(value, action.choices)}')


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f". Did you mean {close[0]}?" if close else ""


def actions(commands: Any, name: str, what: str, *, metavar: str = "ACTION") -> Any:
    """What the commands ``NAME ACTION`` are added to."""
    return commands.add_parser(name, help=what).add_subparsers(metavar=metavar, required=True)


def command(commands: Any, name: str, run: Any, what: str, example: str) -> argparse.ArgumentParser:
    noun = "example" if "\n" not in example else "examples"
    parser = commands.add_parser(
        name,
        help=what,
        description=what,
        epilog=f"{noun}:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser  # type: ignore[no-any-return]


def count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) < 10**9):
        raise argparse.ArgumentTypeError("a whole number from 1 is wanted")
    return int(text)


def share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError("a number from 0 to 1 is wanted")
    return share


def configured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help=f"settings; default: ${CONFIG_VARIABLE}, or ./config.toml if it exists"
    )


def listens(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="HOST", help="address to listen on; default 127.0.0.1: only this machine")
    parser.add_argument("--port", metavar="PORT", type=int, help="default 8080; 0: a free one")


def reads_from(parser: argparse.ArgumentParser) -> None:
    configured(parser)
    kinds = ("oxigraph", "qlever", "graphdb", "sparql")
    parser.add_argument("--backend", choices=kinds, help="what kind of server --url is; default oxigraph")
    parser.add_argument("--url", metavar="ROOT_URL", help="root URL of the server")
    parser.add_argument("--repository", metavar="ID", help="GraphDB: the repository; QLever: the name behind /api/")
    parser.add_argument(
        "--load",
        metavar="RDF_FILE",
        action="append",
        help="serve this file from an embedded store: .nt .ttl .nq .trig .rdf, also .gz; may be repeated",
    )
    parser.add_argument("--timeout-s", metavar="N", type=float, help="seconds the backend may be silent; default 60")


def reads_one(parser: argparse.ArgumentParser) -> None:
    reads_from(parser)
    parser.add_argument("--dataset", metavar="NAME", help="which of several datasets in the settings")


def config_of(parsed: argparse.Namespace) -> Config:
    """Merge file, environment and flags. Without --config and SPARLANCE_CONFIG, ./config.toml is read if it is there."""
    path = parsed.config or os.environ.get(CONFIG_VARIABLE) or None
    if path is None and Path("config.toml").is_file():
        path = "config.toml"
    return load_config(path, environ=os.environ, overrides=_overrides(parsed))


def of_one(parsed: argparse.Namespace) -> Config:
    """The settings of the one dataset that a command is about."""
    return config_of(parsed).of_dataset(parsed.dataset)


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    flags = {
        "backend": "backend.kind",
        "url": "backend.url",
        "repository": "backend.repository",
        "timeout_s": "backend.timeout_s",
        "workers": "server.workers",
        "host": "server.host",
        "port": "server.port",
    }
    values = {key: getattr(parsed, flag) for flag, key in flags.items() if getattr(parsed, flag, None) is not None}
    if "backend.timeout_s" in values:
        values["backend.idle_timeout_s"] = values["backend.timeout_s"]
    if getattr(parsed, "load", None):
        values["backend.load"] = parsed.load
    # What the command line serves replaces what the file serves.
    if "backend.url" in values and "backend.load" not in values:
        values["backend.load"] = []
    elif "backend.load" in values and "backend.url" not in values:
        values["backend.url"] = ""
    if getattr(parsed, "no_index", False):
        values["index.enabled"] = False
    if getattr(parsed, "no_nl", False):
        values["nl.enabled"] = False
    if getattr(parsed, "allow_updates", False):
        values["policy.allow_updates"] = True
    return values
