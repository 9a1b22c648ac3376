"""Arguments of ``check``, ``ask`` and ``index``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from proxy.cli.flags import actions, command, count, of_one, reads_one, share
from proxy.errors import ProxyError


def add(commands: Any) -> None:
    """Add them to *commands*."""
    check = command(
        commands,
        "check",
        _check,
        "Say what is wrong with a query on this graph; it is not run. Exit code 1 if it would be rejected.",
        "sparlance check query.rq --load graph.ttl\n  echo 'SELECT * { ?s ?p ?o }' | sparlance check --url http://127.0.0.1:7878",
    )
    check.add_argument("file", nargs="?", default="-", metavar="FILE", help="the query; - (default): standard input")
    reads_one(check)
    check.add_argument("--format", choices=("text", "json"), default="text", help="default: text")

    ask = command(
        commands,
        "ask",
        _ask,
        "Answer a question in plain language. Exit code 1 if no answer is good enough.",
        'sparlance ask "Which harbour is the deepest?" --load graph.ttl --format query',
    )
    ask.add_argument("question", metavar="QUESTION", help="in quotes")
    ask.add_argument("--language", metavar="TAG", help="BCP 47 tag of the question, such as en or pt-BR; default: not said")
    reads_one(ask)
    ask.add_argument(
        "--format", choices=("table", "json", "query"), default="table", help="table (default), SPARQL JSON, or the query alone"
    )

    index = actions(commands, "index", "What the index knows of a graph.")
    show = command(
        index,
        "show",
        _index_show,
        "Build the index and print classes, properties and counts.",
        "sparlance index show --load graph.ttl",
    )
    reads_one(show)
    show.add_argument("--format", choices=("text", "json"), default="text", help="default: text")

    ttql = command(
        index,
        "ttql",
        _index_ttql,
        "Describe the graph as text, class by class: paths, how common they are, example values (docs/ttql.md).",
        "sparlance index ttql --load graph.ttl --depth 2 --budget-tokens 4000",
    )
    reads_one(ttql)
    ttql.add_argument("--class", dest="classes", metavar="IRI", action="append", help="only this class; may be repeated")
    ttql.add_argument("--depth", metavar="H", type=count, help="edges on a path, 1 to 8; default 3")
    ttql.add_argument("--sample", metavar="N", type=count, help="instances of each class that examples come from; default 100")
    ttql.add_argument("--floor", metavar="F", type=share, help="leave out edges that fewer than this share of nodes have")
    ttql.add_argument("--budget-tokens", metavar="N", type=count, help="at most so many tokens, of four characters each")
    ttql.add_argument("--budget-lines", metavar="N", type=count, help="at most so many lines")

    build = command(
        index,
        "build",
        _index_build,
        "Build the index and keep it in its file, for a server to start from. Goes on where a killed build had come to.",
        "sparlance index build --url http://127.0.0.1:7878",
    )
    reads_one(build)
    verify = command(
        index,
        "verify",
        _index_verify,
        "Count a random part of the graph again and walk random paths of it. Exit code 1 if the index is wrong anywhere.",
        "sparlance index verify --load graph.ttl --paths 500",
    )
    reads_one(verify)
    verify.add_argument("--cells", type=int, default=40, metavar="N", help="(class, property, class) to recount; default 40")
    verify.add_argument("--paths", type=int, default=100, metavar="N", help="paths to walk; default 100")
    verify.add_argument("--seed", type=int, default=0, metavar="N", help="another number: other cells and paths; default 0")
    verify.add_argument("--format", choices=("text", "json"), default="text", help="default: text")


def _check(parsed: argparse.Namespace) -> int:
    from proxy.commands.checking import check

    return check(of_one(parsed), _read(parsed.file), as_json=parsed.format == "json")


def _ask(parsed: argparse.Namespace) -> int:
    from proxy.commands.asking import ask

    return ask(of_one(parsed), parsed.question, language=parsed.language, style=parsed.format)


def _index_show(parsed: argparse.Namespace) -> int:
    from proxy.commands.indexing import show_index

    return show_index(of_one(parsed), as_json=parsed.format == "json")


def _index_ttql(parsed: argparse.Namespace) -> int:
    from proxy.commands.indexing import show_ttql

    limits = {"floor": parsed.floor, "budget_tokens": parsed.budget_tokens, "budget_lines": parsed.budget_lines}
    return show_ttql(of_one(parsed), parsed.classes or (), depth=parsed.depth, sample=parsed.sample, **limits)


def _index_build(parsed: argparse.Namespace) -> int:
    from proxy.commands.indexing import build_index

    return build_index(of_one(parsed))


def _index_verify(parsed: argparse.Namespace) -> int:
    from proxy.commands.indexing import verify_index

    as_json = parsed.format == "json"
    return verify_index(of_one(parsed), cells=parsed.cells, paths=parsed.paths, seed=parsed.seed, as_json=as_json)


def _read(file: str) -> str:
    try:
        if file == "-":
            text = sys.stdin.read()
            text.encode("utf-8")  # in some locales what is not UTF-8 is read as halves of surrogate pairs
            return text
        return Path(file).read_text(encoding="utf-8")
    except UnicodeError as exc:
        raise ProxyError(f"cannot read {'standard input' if file == '-' else file}: it is not UTF-8") from exc
    except OSError as exc:
        raise ProxyError(f"cannot read {file}: {getattr(exc, 'strerror', None) or exc}") from exc
