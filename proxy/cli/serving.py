"""Arguments of ``serve`` and ``demo``."""

from __future__ import annotations

import argparse
from typing import Any

from proxy.cli.flags import command, config_of, configured, listens, reads_from


def add(commands: Any) -> None:
    """Add both to *commands*."""
    serve = command(
        commands,
        "serve",
        _serve,
        "Answer SPARQL and questions in front of a server, or of files.",
        "sparlance serve --load graph.ttl.gz\n  sparlance serve --backend oxigraph --url http://127.0.0.1:7878 --port 8080",
    )
    listens(serve)
    reads_from(serve)
    serve.add_argument("--workers", metavar="N", type=int, help="processes on the port; default 1")
    serve.add_argument("--no-index", action="store_true", help="pure proxy: no checks, no questions")
    serve.add_argument("--no-nl", action="store_true", help="no questions: saves the memory of the models")
    serve.add_argument("--allow-updates", action="store_true", help="forward SPARQL updates instead of refusing them (403)")

    demo = command(
        commands,
        "demo",
        _demo,
        "Serve a graph to try Sparlance with, and print three things to paste.",
        "sparlance demo --port 9000",
    )
    listens(demo)
    configured(demo)


def _serve(parsed: argparse.Namespace) -> int:
    from proxy.commands.serving import serve

    return serve(config_of(parsed), reread=lambda: config_of(parsed))


def _demo(parsed: argparse.Namespace) -> int:
    from proxy.commands.serving import demo

    return demo(config_of(parsed))
