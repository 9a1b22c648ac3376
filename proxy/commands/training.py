"""``train`` and ``pairs``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from proxy.commands import DONE, FAILED, REFUSED
from proxy.commands.opening import opened, quiet, require_source
from proxy.commands.output import ProgressLine, say
from proxy.config import Config
from proxy.errors import ConfigError


def train_ranker(
    config: Config,
    pairs: Sequence[Path],
    output: Path,
    *,
    samples: Sequence[Path],
    keep: Path | None,
    limit: int | None,
    from_scratch: bool,
    encoder: Path | None,
    epochs: int,
    seed: int,
) -> int:
    """Fit a ranking, write it into the folder *output*, and print its model card."""
    from proxy.train import train_ranker as train
    from proxy.training.crossencoder import Recipe
    from proxy.training.fitting import Source

    source = Source(encoder, Recipe(epochs=epochs, seed=seed)) if encoder is not None else None
    with _training(config, pairs, samples) as told:
        card = train(
            config, pairs, output, samples=samples, keep=keep, limit=limit, from_scratch=from_scratch, source=source,
            command="sparlance train ranker", told=told,
        )  # fmt: skip
    print(card, end="")
    return DONE


def train_gate(
    config: Config,
    pairs: Sequence[Path],
    output: Path,
    *,
    samples: Sequence[Path],
    keep: Path | None,
    limit: int | None,
    from_scratch: bool,
    lacking_every: int,
) -> int:
    """Fit the gates, write them into the folder *output*, and print their model card."""
    from proxy.train import train_gate as train

    with _training(config, pairs, samples) as told:
        card = train(
            config, pairs, output, samples=samples, keep=keep, limit=limit, from_scratch=from_scratch,
            lacking_every=lacking_every, command="sparlance train gate", told=told,
        )  # fmt: skip
    print(card, end="")
    return DONE


@contextmanager
def _training(config: Config, pairs: Sequence[Path], samples: Sequence[Path]) -> Iterator[ProgressLine]:
    """Something is trained, and tells how far it is; raises ConfigError where there is nothing to train on."""
    if not pairs and not samples:
        raise ConfigError("pairs", "nothing to train on: name a file or folder with --pairs, or --samples")
    quiet(config)
    progress = ProgressLine(sys.stderr)
    try:
        yield progress
    finally:
        progress.end()


def synthesize(config: Config, output: Path, *, count: int, seed: int) -> int:
    """Write synthetic pairs about the graph that *config* serves."""
    from proxy.train import synthesize as make

    require_source(config)
    quiet(config)
    progress = ProgressLine(sys.stderr)
    try:
        made, tried = make(config, output, count=count, seed=seed, told=progress)
    finally:
        progress.end()
    say(f"sparlance: {made} pairs in {output}; {tried} wordings were tried")
    return DONE if made else FAILED


def lint_pairs(config: Config, files: Sequence[Path]) -> int:
    """Say what is wrong with a user's pairs on this graph; fails if one cannot be used."""
    from proxy.pairs import lint, read

    pairs = read(files)

    async def run() -> int:
        async with opened(config, nl=False) as dataset:
            return await lint(pairs, dataset, print)

    bad = asyncio.run(run())
    say(f"sparlance: {len(pairs)} pairs, {bad} of them cannot be used")
    return REFUSED if bad else DONE


def import_pairs(config: Config, files: Sequence[Path]) -> int:
    """Put a user's pairs into the memory of the dataset; those that do not fit the graph are left out, and said."""
    from proxy.pairs import read, remember

    pairs = read(files)

    async def run() -> tuple[int, list[str]]:
        async with opened(config, nl=False) as dataset:
            return await remember(pairs, dataset)

    held, left_out = asyncio.run(run())
    for line in left_out:
        print(line)
    say(f"sparlance: {len(pairs) - len(left_out)} of {len(pairs)} pairs taken; the memory holds {held}")
    return DONE if len(left_out) < len(pairs) else REFUSED


def split_pairs(files: Sequence[Path], folder: Path, *, share: float) -> int:
    """Write train.jsonl and test.jsonl, which have no template of a query in common."""
    from proxy.pairs import read, split, write

    train, test = split(read(files), share=share)
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "train.jsonl", train)
    write(folder / "test.jsonl", test)
    say(f"sparlance: {len(train)} pairs in {folder / 'train.jsonl'}, {len(test)} in {folder / 'test.jsonl'}")
    return DONE
