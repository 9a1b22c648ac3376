"""What ranking and gate are trained on: for each question the engine's own candidates, and which of them are right."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proxy.errors import ProxyError
from proxy.nl.evidence import Seen
from proxy.nl.outline import Outline


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate. features: of the linear ranking. is_right: its answer is the right one. is_nothing: no rows, or a zero.

    traits, outline, seen: what the gate knows of it (``nl.evidence``); seen: None where it did not run. is_barred: proved
    empty, so that the contest would not let it in.
    """

    words: str
    features: Mapping[str, float]
    is_right: bool
    is_nothing: bool = False
    traits: Mapping[str, float] = field(default_factory=dict)
    outline: Outline | None = None
    seen: Seen | None = None
    is_barred: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One question over *graph* (a name; graphs are never split between training and test). gold: its right query, by which
    paraphrases are told to be such. options: best first by the ranking that was in force. proposed: how many candidates there
    were in all. is_lacking: it asks for what the graph does not have, so that no query is right."""

    graph: str
    id: str
    question: str
    gold: str
    options: tuple[Option, ...]
    proposed: int = 0
    is_lacking: bool = False

    @property
    def is_answerable(self) -> bool:
        """Whether some candidate is right, so that a ranking can be."""
        return any(o.is_right for o in self.options)


def line_of(sample: Sample) -> str:
    """*sample* as a line of a file of samples."""
    return json.dumps(asdict(sample), ensure_ascii=False) + "\n"


def resumed(path: Path) -> list[Sample]:
    """The samples in *path*, to which more will be added; none where there is no such file. A last line that was not written to
    its end is cut off.

    Raises:
        ProxyError: it cannot be read, or a line is no sample.
    """
    try:
        data = path.read_bytes()
        if (whole := data.rfind(b"\n") + 1) < len(data):
            with path.open("r+b") as file:
                file.truncate(whole)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ProxyError(f"cannot read the samples {path}: {error.strerror}") from error
    return read_samples([path])


def read_samples(paths: Sequence[Path]) -> list[Sample]:
    """Read files of samples, one a line.

    Raises:
        ProxyError: a file cannot be read, or a line is no sample.
    """
    return [sample for path in paths for sample in _read(path)]


def _read(path: Path) -> Iterator[Sample]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ProxyError(f"cannot read the samples {path}: {getattr(error, 'strerror', None) or error}") from error
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            yield Sample(**(found | {"options": tuple(_option(o) for o in found["options"])}))
        except (ValueError, KeyError, TypeError) as error:
            raise ProxyError(f"line {number} of {path} is no sample: {error}") from error


def _option(found: dict[str, Any]) -> Option:
    if (outline := found.get("outline")) is not None:
        found["outline"] = Outline(**outline)
    if (seen := found.get("seen")) is not None:
        found["seen"] = Seen(**(seen | {"parts": tuple(seen["parts"])}))
    return Option(**found)


def fold_of(sample: Sample, folds: int, *, by_question: bool = False, seed: int = 0) -> int:
    """Which of *folds* parts a sample belongs to: by its graph, or with *by_question* by its right query, so that paraphrases
    stay together. The same on every machine."""
    key = f"{sample.graph}\n{sample.gold}" if by_question else sample.graph
    return zlib.crc32(f"{seed}\n{key}".encode()) % folds
