"""``sparlance model``: import a language model, list folders of models, check one; what is printed is for people."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from proxy.errors import ModelError
from proxy.nl.lm.folder import FILE, LmFolder, read_folder
from proxy.training.decoder.importing import Told, Verified, import_model, measure

MEGABYTE = 1_000_000


def import_and_report(source: Path, target: Path, *, forms: Sequence[str], threads: int, told: Told) -> str:
    """Import, and say what came of it. Raises: ModelError."""
    verified = import_model(source, target, forms=forms, told=told)
    lines = [_line(v) for v in verified]
    for form in forms:
        told(f"measuring {form}")
        lines.append(speed(target, form, threads=threads))
    return "\n".join([*lines, f'use it: [nl] scorer = "{target}"'])


def check(folder: Path, *, threads: int) -> str:
    """Open every form of the model in *folder* and measure it. Raises: ModelError."""
    found = read_folder(folder)
    return "\n".join([_headline(found), *(speed(folder, f, threads=threads) for f in found.forms)])


def listed(parent: Path) -> str:
    """One line for each model in the folders of *parent*; what cannot be used says why."""
    lines = []
    for file in sorted(parent.glob(f"*/{FILE}")):
        try:
            lines.append(_headline(read_folder(file.parent)))
        except ModelError as exc:
            lines.append(f"{file.parent.name}: {exc}")
    return "\n".join(lines) or f"no folder in {parent} holds a language model"


def speed(folder: Path, form: str, *, threads: int) -> str:
    """How fast *form* reads and writes here, in words. Raises: ModelError."""
    s = measure(folder, form, threads=threads)
    text = (
        f"{s.form} on {s.device}: {s.prefill_tokens_s:,.0f} tokens/s read (256 at once), {s.decode_tokens_s:,.1f} written, "
        f"opened in {s.load_s:.1f} s"
    )
    return f"{text}\n{s.notice}" if s.notice else text


def _line(v: Verified) -> str:
    return (
        f"{v.form}: {v.size_bytes / MEGABYTE:,.0f} MB, differs from the source by {v.difference:.4f} standard deviations of "
        f"its logits, the same likeliest token at {v.agreeing:.0%} of the positions"
    )


def _headline(found: LmFolder) -> str:
    sizes = ", ".join(f"{form} {found.size_bytes(form) / MEGABYTE:,.0f} MB" for form in found.forms)
    return (
        f"{found.path.name}: {found.architecture} of {found.layers} layers, {found.vocabulary:,} tokens, "
        f"context {found.context:,}; {sizes}"
    )
