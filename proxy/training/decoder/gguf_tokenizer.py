"""The tokenizer in a GGUF file → ``tokenizer.json``: byte-level BPE ("gpt2") or SentencePiece's BPE ("llama")."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from proxy.errors import ModelError

_CONTROL, _USER_DEFINED = 3, 4
"""Types of tokens in a GGUF file: no text; text that is one token wherever it stands."""
_WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,%d}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
_DIGITS_APART = ("smollm", "starcoder", "refact", "command-r")
_GROUPED = {"llama-bpe": 3, "llama3": 3, "qwen2": 1}
"""Digits that stand together at most, of the tokenizers that cut with _WORDS."""


def tokenizer_json(metadata: Mapping[str, Any]) -> str:
    """The tokenizer that *metadata* describes, for the package ``tokenizers``.

    A text never begins with a space that it does not have, as SentencePiece would add: here texts go on from each other. No
    merge makes a control token, so that markup in a text remains text.

    Raises:
        ModelError: a kind of tokenizer that is not known here, or a damaged one.
    """
    try:
        from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers
    except ImportError as exc:
        raise ModelError(f"{exc.name} is not installed: pip install 'sparlance[nl]'") from exc
    known = {k.removeprefix("tokenizer.ggml."): v for k, v in metadata.items() if k.startswith("tokenizer.ggml.")}
    tokens, types = _listed(known, "tokens", str), _listed(known, "token_type", int)
    vocabulary = {t: i for i, t in enumerate(tokens)}
    if not tokens or len(types) != len(tokens) or len(vocabulary) != len(tokens):
        raise ModelError("the vocabulary of the GGUF file is empty, has a token twice, or tokens without a type")
    fixed = {t for t, kind in zip(tokens, types, strict=True) if kind in (_CONTROL, _USER_DEFINED)}
    kind, cut = known.get("model"), str(known.get("pre", "default"))
    try:
        if kind == "gpt2":
            merges = [(a, b) for a, _, b in (m.partition(" ") for m in _listed(known, "merges", str)) if a + b not in fixed]
            made = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=cut in ("llama-bpe", "llama3")))
            if cut in _DIGITS_APART:
                parts = [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
            elif cut in _GROUPED:
                words = pre_tokenizers.Split(Regex(_WORDS % _GROUPED[cut]), "isolated")
                parts = [words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
            elif cut == "gpt-2":
                parts = [pre_tokenizers.ByteLevel(add_prefix_space=False)]
            else:
                able = ", ".join(["gpt-2", *_DIGITS_APART, *_GROUPED])
                raise ModelError(f"the GGUF file's tokenizer cuts text like {cut[:60]!r}; {able} can be read")
            if cut == "qwen2":
                made.normalizer = normalizers.NFC()
            made.pre_tokenizer = pre_tokenizers.Sequence(parts)
            made.decoder = decoders.ByteLevel()
        elif kind == "llama":
            unknown = int(known.get("unknown_token_id", 0))
            if not 0 <= unknown < len(tokens):
                raise ModelError(f"the GGUF file's token for what is unknown has number {unknown} of {len(tokens):,}")
            merges = _merges(tokens, _listed(known, "scores", float), vocabulary, fixed)
            made = Tokenizer(models.BPE(vocabulary, merges, unk_token=tokens[unknown], byte_fallback=True, fuse_unk=True))
            made.normalizer = normalizers.Replace(" ", "▁")
            made.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
        else:
            raise ModelError(f"the GGUF file has a tokenizer {str(kind)[:60]!r}; gpt2 and llama can be read")
        added = [
            AddedToken(t, special=kind == _CONTROL, normalized=False)
            for t, kind in zip(tokens, types, strict=True)
            if kind in (_CONTROL, _USER_DEFINED) and t
        ]
        made.add_tokens(added)
        return str(made.to_str())
    except ModelError:
        raise
    except Exception as exc:  # tokenizers raises bare Exception
        raise ModelError(f"the GGUF file's tokenizer cannot be used: {exc}") from exc


def _merges(
    tokens: Sequence[str], scores: Sequence[float], vocabulary: Mapping[str, int], fixed: set[str]
) -> list[tuple[str, str]]:
    """Every way to put a token together from two others, by falling score of the whole (as SentencePiece chooses).

    Raises:
        ModelError: there is not one score for each token.
    """
    if len(scores) != len(tokens):
        raise ModelError(f"the GGUF file has {len(scores):,} scores for {len(tokens):,} tokens")
    found = []
    for token, score in zip(tokens, scores, strict=True):
        if token in fixed:
            continue
        for n in range(1, len(token)):
            first, second = vocabulary.get(token[:n]), vocabulary.get(token[n:])
            if first is not None and second is not None:
                found.append((-score, first, second))
    return [(tokens[first], tokens[second]) for _, first, second in sorted(found)]


def _listed(known: Mapping[str, Any], key: str, kind: type) -> list[Any]:
    found = known.get(key)
    if not isinstance(found, list) or (found and not isinstance(found[0], kind)):
        raise ModelError(f"the GGUF file has no tokenizer.ggml.{key} that can be read")
    return found
