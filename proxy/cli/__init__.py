"""The command ``sparlance``: parses arguments and calls; ``proxy.commands`` does the work.

Exit codes:
  0  done; ``check``: nothing against the query
  1  ``check``: the query would be rejected; ``ask``: no answer is good enough; ``plugin test``: a hook failed or is misspelt
  2  wrong usage or configuration, or something failed: one sentence on stderr says what to do
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

from proxy import __version__
from proxy.cli import administration, graph, models, pairs, serving
from proxy.cli.flags import Parser
from proxy.commands import DONE, FAILED
from proxy.errors import ProxyError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        return code
    except ProxyError as error:
        print(f"sparlance: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough (`| head`); a second complaint at interpreter exit would help nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="sparlance",
        description="A SPARQL proxy: forwards what is sound, explains what cannot be, answers plain questions.",
        epilog=__doc__.partition("\n\n")[2].replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"sparlance {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)
    for group in (serving, graph, models, pairs, administration):
        group.add(commands)
    return made
