"""What a language model is imported from: a Hugging Face folder (config.json, tokenizer.json, safetensors) or a GGUF file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from proxy.errors import ModelError
from proxy.nl.lm.folder import TOKENIZER
from proxy.training.decoder.config import Decoder, read_config
from proxy.training.decoder.gguf_file import GgufFile
from proxy.training.decoder.gguf_source import GgufWeights, decoder_in
from proxy.training.decoder.gguf_tokenizer import tokenizer_json
from proxy.training.decoder.weights import Array, Weights


@dataclass(frozen=True, slots=True)
class Source:
    """weights: by Hugging Face's names, read anew at each look-up. tokenizer: its ``tokenizer.json``."""

    name: str
    decoder: Decoder
    weights: Mapping[str, Array]
    tokenizer: bytes
    licences: tuple[Path, ...] = ()


def read_source(path: Path) -> Source:
    """Read all of *path* but the numbers.

    Raises:
        ModelError: something is missing, damaged, or cannot be imported.
    """
    if path.is_file():
        file = GgufFile(path)
        decoder = decoder_in(file)
        return Source(path.name, decoder, GgufWeights(file, decoder), tokenizer_json(file.metadata).encode())
    if not path.is_dir():
        raise ModelError(f"there is no folder and no file {path}")
    decoder, weights = read_config(path), Weights(path)
    try:
        tokenizer = (path / TOKENIZER).read_bytes()
    except OSError as exc:
        raise ModelError(f"cannot read {path / TOKENIZER}: {exc.strerror}") from exc
    return Source(path.name, decoder, weights, tokenizer, (*path.glob("LICENSE*"), *path.glob("NOTICE*")))
