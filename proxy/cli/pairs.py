"""Arguments of ``pairs``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from proxy.cli.flags import actions, command, config_of, count, of_one, reads_from, reads_one, share


def add(commands: Any) -> None:
    """Add it to *commands*."""
    pairs = actions(commands, "pairs", "Pairs of questions and queries, to train on.")
    synth = command(
        pairs,
        "synth",
        _pairs_synth,
        "Make pairs about a graph: queries that it supports, in words, kept if the engine finds them again.",
        "sparlance pairs synth --load graph.ttl --count 200 -o synthetic.jsonl",
    )
    synth.add_argument("--count", metavar="N", type=count, default=200, help="pairs to make; default 200")
    synth.add_argument("--seed", metavar="N", type=int, default=0, help="another number: other pairs; default 0")
    synth.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="where they are written, as JSONL")
    reads_from(synth)

    kinds = "JSONL, JSON or TEXT2SPARQL YAML"
    lint = command(
        pairs,
        "lint",
        _pairs_lint,
        "Say what is wrong with pairs on this graph. Exit code 1 if one cannot be used.",
        "sparlance pairs lint mine.jsonl --load graph.ttl",
    )
    lint.add_argument("files", metavar="FILE", type=Path, nargs="+", help=kinds)
    reads_one(lint)
    taken = command(
        pairs,
        "import",
        _pairs_import,
        "Put pairs into the memory that questions are answered with ([nl] memory).",
        "sparlance pairs import mine.jsonl --config config.toml",
    )
    taken.add_argument("files", metavar="FILE", type=Path, nargs="+", help=kinds)
    reads_one(taken)
    parted = command(
        pairs,
        "split",
        _pairs_split,
        "Part pairs into train.jsonl and test.jsonl, no template of a query in both.",
        "sparlance pairs split mine.jsonl --share 0.2 -o split",
    )
    parted.add_argument("files", metavar="FILE", type=Path, nargs="+", help=kinds)
    parted.add_argument("--share", metavar="X", type=share, default=0.2, help="of the pairs, to test with; default 0.2")
    parted.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="where both files are written")


def _pairs_synth(parsed: argparse.Namespace) -> int:
    from proxy.commands.training import synthesize

    return synthesize(config_of(parsed), parsed.output, count=parsed.count, seed=parsed.seed)


def _pairs_lint(parsed: argparse.Namespace) -> int:
    from proxy.commands.training import lint_pairs

    return lint_pairs(of_one(parsed), parsed.files)


def _pairs_import(parsed: argparse.Namespace) -> int:
    from proxy.commands.training import import_pairs

    return import_pairs(of_one(parsed), parsed.files)


def _pairs_split(parsed: argparse.Namespace) -> int:
    from proxy.commands.training import split_pairs

    return split_pairs(parsed.files, parsed.output, share=parsed.share)
