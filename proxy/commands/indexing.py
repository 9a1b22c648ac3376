"""``index show``, ``ttql``, ``build`` and ``verify``."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from proxy.commands import DONE, REFUSED
from proxy.commands.opening import opened, require_source
from proxy.commands.output import ProgressLine
from proxy.config import Config
from proxy.errors import ConfigError, ProxyError

if TYPE_CHECKING:
    from proxy.index.support import SupportIndex


def show_index(config: Config, *, as_json: bool) -> int:
    """Build the index and print what it holds."""

    async def summary() -> dict[str, Any]:
        async with opened(config, nl=False) as dataset:
            shown: dict[str, Any] = dataset.summary()
            shown["properties_by_class"] = {c: _triples_of(dataset.index, c) for c in dataset.index.class_instances}
            return shown

    shown = asyncio.run(summary())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        return DONE
    print(f"{shown['backend']}: {shown['triples']} triples, {len(shown['classes'])} classes, {shown['properties']} properties")
    for part in shown["incomplete"]:
        print(f"incomplete: class {part['class'] or 'any'}, property {part['property'] or 'any'}: {part['reason']}")
    for class_, instances in shown["classes"].items():
        print(f"\n{class_}  ({instances} instances)")
        for property_, triples in sorted(shown["properties_by_class"][class_].items()):
            print(f"    {property_}  {triples}")
    return DONE


def show_ttql(
    config: Config,
    classes: Sequence[str],
    *,
    depth: int | None,
    sample: int | None,
    floor: float | None,
    budget_tokens: int | None,
    budget_lines: int | None,
) -> int:
    """Build the index and print the TTQL document, or as much of it as is wanted."""
    from proxy.index.ttql_text import render
    from proxy.pipeline.ttql import describe

    async def text() -> str:
        async with opened(config, nl=False) as dataset:
            progress = ProgressLine(sys.stderr)
            try:
                document = await describe(
                    dataset, classes, progress=progress.of("describing"), depth=depth, sample=sample, floor=floor,
                    budget_tokens=budget_tokens, budget_lines=budget_lines,
                )  # fmt: skip
            finally:
                progress.end()
            return render(document)

    print(asyncio.run(text()), end="")
    return DONE


def build_index(config: Config) -> int:
    """Build the index anew and leave it in its file; FAILED if it cannot be kept there."""
    from proxy.indexing import archive_path

    require_source(config)
    if not config.index.directory:
        raise ConfigError("index.directory", "not set; accepted: the folder that the index is kept in")

    async def build() -> tuple[dict[str, Any], str]:
        async with opened(config, nl=False, is_fresh=True) as dataset:
            shown: dict[str, Any] = dataset.summary()
            return shown, str(archive_path(config, dataset.name))

    shown, path = asyncio.run(build())
    cost = shown["cost"]
    print(
        f"{shown['backend']}: {shown['triples']} triples, {shown['cells']} cells, {cost['queries']} queries, "
        f"{cost['elapsed_s']} s, {cost.get('replayed', 0)} answers from a build before"
    )
    for part in shown["incomplete"]:
        print(f"incomplete: class {part['class'] or 'any'}, property {part['property'] or 'any'}: {part['reason']}")
    if error := shown["file"]["error"]:
        raise ProxyError(error)
    print(f"kept in {path}, {cost['file_bytes']} bytes")
    return DONE


def verify_index(config: Config, *, cells: int, paths: int, seed: int, as_json: bool) -> int:
    """Hold the index (the one in the file, if there is one) against the live graph; REFUSED if it is wrong anywhere."""
    from proxy.pipeline.asking import scope_of
    from proxy.pipeline.verify import verify

    async def run() -> dict[str, Any]:
        progress = ProgressLine(sys.stderr)
        async with opened(config, nl=False) as dataset:
            try:
                found = await verify(
                    dataset.backend,
                    dataset.index,
                    dataset.values,
                    cells=cells,
                    paths=paths,
                    seed=seed,
                    timeout_s=config.index.chunk_timeout_s,
                    parameters=scope_of(config).parameters,
                    progress=progress.of("verifying"),
                )
            finally:
                progress.end()
            return found.summary() | {"epoch": dataset.index.epoch, "built_at": dataset.index.built_at}

    shown = asyncio.run(run())
    if as_json:
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
    else:
        for line in shown["wrong"]:
            print(f"wrong: {line}")
        agree = "agree" if shown["counts_agree"] else "do not agree"
        print(
            f"{shown['cells']} cells counted again, {shown['paths']} paths walked, {shown['skipped']} skipped, "
            f"{len(shown['wrong'])} wrong; the counts of properties and classes {agree}"
        )
    return DONE if shown["is_true"] else REFUSED


def _triples_of(index: SupportIndex, class_: str) -> dict[str, int]:
    """Property → triples whose subject has *class_*, each counted once, however many classes its object has."""
    totals: dict[str, int] = {}
    with_class = index.kinds_with_class(class_)
    for position in with_class[index.subject].nonzero()[0].tolist():
        cell = index.cell(position)
        totals[cell.property] = totals.get(cell.property, 0) + cell.count
    return totals
