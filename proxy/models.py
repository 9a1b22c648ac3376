"""``sparlance model``: import a language model, check one, let one write, list them; what is printed is for people."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from proxy.errors import ModelError
from proxy.nl.lm.decoding import Sampling
from proxy.nl.lm.folder import FILE, LmFolder, damaged, read_folder
from proxy.nl.lm.prefixes import PrefixCache
from proxy.nl.lm.step import OnnxStepModel
from proxy.pipeline.local_model import WRITTEN_TOGETHER, LocalModel, Writing
from proxy.pipeline.model_queue import ModelQueue
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
    """Compare the model in *folder* with what was imported, open every form, and measure it. Raises: ModelError."""
    found = read_folder(folder)
    if changed := damaged(found):
        raise ModelError(f"{', '.join(changed)} in {folder} is not what was imported: import the model again")
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


def written(
    folder: Path,
    prompt: str,
    *,
    prefix_file: Path | None,
    kept_in: Path | None,
    drawn: Mapping[str, float],
    form: str | None,
    threads: int,
    timeout_s: float,
    **how: Any,
) -> tuple[list[str], str]:
    """What the model in *folder* writes on from *prompt*, and the account of it, JSON. drawn: of `Sampling`; how: of `Writing`.

    Raises:
        ModelError: it cannot be used, or the texts do not fit its context.
    """
    try:
        prefix, sampling = prefix_file.read_text(encoding="utf-8") if prefix_file else "", Sampling(**drawn)  # type: ignore[arg-type]
    except OSError as exc:
        raise ModelError(f"cannot read {exc.filename}: {exc.strerror}") from exc
    except ValueError as exc:  # UnicodeDecodeError among them
        raise ModelError(str(exc)) from exc
    model = OnnxStepModel(folder, threads=threads, form=form)
    local = LocalModel(model, ModelQueue(together_most=WRITTEN_TOGETHER), PrefixCache(model, folder=kept_in))
    found = asyncio.run(local.write(prompt, Writing(prefix, sampling=sampling, **how), timeout_s=timeout_s))
    each = [{"ended": t.ended, "tokens": t.tokens, "likelihood": round(t.likelihood, 4)} for t in found.texts]
    account = found.account | {"form": model.form, "device": model.device, "texts": each}
    return [t.text for t in found.texts], json.dumps(account)


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
