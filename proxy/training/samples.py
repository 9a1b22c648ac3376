"""What a ranking is trained on: for each question the engine's own candidates, and which of them are right."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from proxy.errors import ProxyError


@dataclass(frozen=True, slots=True)
class Option:
    """One candidate. features: of the linear ranking. is_right: its answer is the right one. is_nothing: no rows, or a zero."""

    words: str
    features: Mapping[str, float]
    is_right: bool
    is_nothing: bool = False


@dataclass(frozen=True, slots=True)
class Sample:
    """One question over *graph* (a name; graphs are never split between training and test). gold: its right query, by which
    paraphrases are told to be such. options: best first by the ranking that was in force."""

    graph: str
    id: str
    question: str
    gold: str
    options: tuple[Option, ...]

    @property
    def is_answerable(self) -> bool:
        """Whether some candidate is right, so that a ranking can be."""
        return any(o.is_right for o in self.options)


def write_samples(path: Path, samples: Iterable[Sample]) -> None:
    """Write one sample a line, as JSON."""
    with path.open("w", encoding="utf-8") as out:
        for sample in samples:
            out.write(json.dumps(asdict(sample), ensure_ascii=False) + "\n")


def read_samples(paths: Sequence[Path]) -> list[Sample]:
    """Read what `write_samples` wrote.

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
            yield Sample(**(found | {"options": tuple(Option(**o) for o in found["options"])}))
        except (ValueError, KeyError, TypeError) as error:
            raise ProxyError(f"line {number} of {path} is no sample: {error}") from error


def fold_of(sample: Sample, folds: int, *, by_question: bool = False, seed: int = 0) -> int:
    """Which of *folds* parts a sample belongs to: by its graph, or with *by_question* by its right query, so that paraphrases
    stay together. The same on every machine."""
    key = f"{sample.graph}\n{sample.gold}" if by_question else sample.graph
    return zlib.crc32(f"{seed}\n{key}".encode()) % folds
