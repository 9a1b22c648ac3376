"""The folder of a language model: ``lm.json``, ``tokenizer.json``, and for each form one graph with its weights beside it.

``sparlance model import`` writes it (proxy/training/decoder/); the weights are read by onnxruntime alone.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from proxy.errors import ModelError

FILE = "lm.json"
TOKENIZER = "tokenizer.json"
FORMAT = 2
FORMS = ("int8", "fp16", "fp32")
"""int8: matrices in blocks of 32 weights with one scale, for the CPU. fp16: for CUDA; norms and residuals stay fp32."""


@dataclass(frozen=True, slots=True)
class LmFolder:
    """What one folder holds.

    layers, kv_heads, head_dim: the shape of the cache. context: tokens at most. begin: token before every text, or None.
    end: tokens that end one. forms: form → file name of its graph. made_from: name of the source. digests: SHA-256 of the
    graphs and weights by file name, as they were imported; those of older imports have none.
    """

    path: Path
    architecture: str
    layers: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    context: int
    begin: int | None
    end: tuple[int, ...]
    forms: Mapping[str, str]
    made_from: str = ""
    digests: Mapping[str, str] = field(default_factory=dict)

    def size_bytes(self, form: str) -> int:
        """Of the graph and the weights of *form*."""
        graph = self.path / self.forms[form]
        return sum(p.stat().st_size for p in (graph, weights_of(graph)) if p.is_file())


def damaged(folder: LmFolder) -> list[str]:
    """The files of *folder* that are not those that were imported. Reads all of them. Raises: ModelError: it cannot."""
    return [name for name, digest in folder.digests.items() if file_digest(folder.path / name) != digest]


def file_digest(path: Path) -> str:
    """SHA-256 of the content of *path*, in hexadecimal. Raises: ModelError: it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as exc:
        raise ModelError(f"cannot read {path}: {exc.strerror}") from exc


def weights_of(graph: Path) -> Path:
    """The file of weights that belongs to *graph*."""
    return graph.with_suffix(".bin")


def read_folder(path: Path) -> LmFolder:
    """Read ``lm.json`` and see that the files it names are there.

    Raises:
        ModelError: something is missing, or is not what it should be.
    """
    try:
        document: dict[str, Any] = json.loads((path / FILE).read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise ModelError(f"{path / FILE} has format {document['format']!r}, not {FORMAT}: import the model again")
        begin = document["begin"]
        found = LmFolder(
            path, str(document["architecture"]), layers=int(document["layers"]), kv_heads=int(document["kv_heads"]),
            head_dim=int(document["head_dim"]), vocabulary=int(document["vocabulary"]), context=int(document["context"]),
            begin=None if begin is None else int(begin), end=tuple(int(t) for t in document["end"]),
            forms={str(k): str(v) for k, v in document["forms"].items()}, made_from=str(document.get("made_from", "")),
            digests={str(k): str(v) for k, v in document.get("digests", {}).items()},
        )  # fmt: skip
    except OSError as exc:
        raise ModelError(f"{path} holds no language model ({FILE}: {exc.strerror}): see `sparlance model import`") from exc
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as exc:
        raise ModelError(f"{path / FILE} does not describe a language model: {exc}") from exc
    if not found.forms or min(found.layers, found.kv_heads, found.head_dim, found.vocabulary, found.context) < 1:
        raise ModelError(f"{path / FILE} does not describe a language model: no forms, or a number below 1")
    marks = found.end if found.begin is None else (*found.end, found.begin)
    if strange := [t for t in marks if not 0 <= t < found.vocabulary]:
        raise ModelError(f"{path / FILE} does not describe a language model: a token {strange[0]} of {found.vocabulary:,}")
    for name in found.forms.values():
        if Path(name).name != name:
            raise ModelError(f"{path / FILE}: {name!r} is not the name of a file in the folder")
    graphs = [path / name for name in found.forms.values()]
    for file in (path / TOKENIZER, *graphs, *map(weights_of, graphs)):
        if not file.is_file():
            raise ModelError(f"no such model file: {file.name} in {path}")
    return found


def write_folder(folder: LmFolder) -> None:
    """Write ``lm.json``."""
    document = {"format": FORMAT} | {k: v for k, v in asdict(folder).items() if k != "path"}
    (folder.path / FILE).write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
