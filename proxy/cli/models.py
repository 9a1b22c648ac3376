"""Arguments of ``eval``, ``train`` and ``model``."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from proxy.cli.flags import actions, command, config_of, count, of_one, reads_from, reads_one
from proxy.commands import DONE
from proxy.commands.output import say
from proxy.evaluation.parts import Part


def add(commands: Any) -> None:
    """Add them to *commands*."""
    evaluation = command(
        commands,
        "eval",
        _eval,
        "Ask questions with known answers, and report how many are answered right (Markdown).",
        "sparlance eval questions.jsonl --load graph.ttl --save run.json\n"
        "  sparlance eval questions.yaml --url http://127.0.0.1:7878 --compare run.json",
    )
    evaluation.add_argument(
        "questions",
        metavar="QUESTIONS",
        type=Path,
        help="JSONL (question, sparql), a JSON list, TEXT2SPARQL YAML, or a folder with questions.json and graph.nt.gz",
    )
    reads_one(evaluation)
    evaluation.add_argument("--save", metavar="FILE", type=Path, help="keep the run, as JSON")
    evaluation.add_argument("--compare", metavar="FILE", type=Path, help="an earlier run: paired bootstrap of the differences")
    evaluation.add_argument("--limit", metavar="N", type=count, help="only the first N questions")
    evaluation.add_argument("--plots", metavar="FOLDER", type=Path, help="draw the run as SVG files (needs matplotlib)")
    parts = [str(part) for part in Part]
    evaluation.add_argument(
        "--without", metavar="PART", action="append", choices=parts, help=f"leave out {', '.join(parts)}; may be repeated"
    )
    evaluation.add_argument("--language", metavar="TAG", action="append", help="only questions in it (YAML); may be repeated")
    _trains(commands)
    _models(commands)


def _trains(commands: Any) -> None:
    trains = actions(commands, "train", "Fit models to pairs of questions and queries.", metavar="MODEL")
    ranker = command(
        trains,
        "ranker",
        _train_ranker,
        "Fit the ranking of candidate queries, and write it into a folder for [nl] ranker (docs/models.md).",
        "sparlance train ranker --pairs pairs.jsonl --load graph.ttl -o my-ranker\n"
        "  sparlance train ranker --pairs GRAPHS --from-scratch --limit 40 --keep-samples samples.jsonl -o ranker",
    )
    _samples(ranker)
    ranker.add_argument("--cross-encoder", metavar="FOLDER", type=Path, help="train one too, from this MiniLM (extra train)")
    ranker.add_argument("--epochs", metavar="N", type=count, default=3, help="of the cross-encoder at most; default 3")
    ranker.add_argument("--seed", metavar="N", type=int, default=7, help="of the cross-encoder; default 7")
    ranker.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="where the ranking is written")
    reads_from(ranker)

    gate = command(
        trains,
        "gate",
        _train_gate,
        "Fit the gates, which tell how likely an answer is wrong, and write them into a folder for [nl] gate (docs/models.md).",
        "sparlance train gate --pairs pairs.jsonl --load graph.ttl -o my-gate\n"
        "  sparlance train gate --samples samples.jsonl --from-scratch -o gate",
    )
    _samples(gate)
    gate.add_argument(
        "--lacking-every", metavar="N", type=count, default=4,
        help="of N questions one is also asked of what the graph lacks; default 4",
    )  # fmt: skip
    gate.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="where the gates are written")
    reads_from(gate)


def _samples(parser: argparse.ArgumentParser) -> None:
    """What is trained on."""
    parser.add_argument(
        "--pairs",
        metavar="PATH",
        type=Path,
        action="append",
        help="JSONL (question, sparql) about the graph of --load or --url, or a folder of graphs; may be repeated",
    )
    parser.add_argument("--samples", metavar="FILE", type=Path, action="append", help="what --keep-samples wrote")
    parser.add_argument("--keep-samples", metavar="FILE", type=Path, help="keep what is collected, to fit again quickly")
    parser.add_argument("--limit", metavar="N", type=count, help="questions of each graph at most")
    parser.add_argument("--from-scratch", action="store_true", help="do not start from what is in force")


def _models(commands: Any) -> None:
    models = actions(commands, "model", "Language models for [nl] scorer and [writer]: import, check, write, list.")
    importing = command(
        models,
        "import",
        _model_import,
        "Make the ONNX folder of a Hugging Face folder or a GGUF file (llama, qwen2, gemma3), and hold it against the source "
        "(extra lm).",
        "sparlance model import SmolLM2-135M -o models/smollm2\n"
        "  sparlance model import gemma-3-270m-q4_k_m.gguf -o models/gemma\n"
        "  sparlance model import SOURCE -o FOLDER --form int8 --form fp16",
    )
    importing.add_argument(
        "source", metavar="SOURCE", type=Path, help="FILE.gguf, or a folder: config.json, tokenizer.json, *.safetensors"
    )
    importing.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="empty or not there yet")
    importing.add_argument(
        "--form", action="append", choices=("int8", "fp16", "fp32"), help="int8 (default): CPU; fp16: CUDA; may be repeated"
    )
    checking = command(
        models, "check", _model_check, "Open a model and measure it here.", "sparlance model check models/smollm2"
    )
    checking.add_argument("folder", metavar="FOLDER", type=Path)
    for each in (importing, checking):
        each.add_argument("--threads", metavar="N", type=int, default=0, help="of one step; default: one per core")
    _writes(models)
    listing = command(models, "list", _model_list, "The models in the folders of a folder.", "sparlance model list models")
    listing.add_argument("parent", metavar="FOLDER", type=Path, nargs="?", default=Path("."), help="default: here")


def _writes(models: Any) -> None:
    writing = command(
        models,
        "write",
        _model_write,
        "Let a model go on from a text; the account of it goes to stderr, as JSON.",
        "sparlance model write models/smollm2 'SELECT ?name WHERE {' --stop '}'\n"
        "  sparlance model write models/smollm2 'Q: Which ships are heavy?' --prefix graph.ttql --drafts 4 --temperature 0.8",
    )
    writing.add_argument("folder", metavar="FOLDER", type=Path)
    writing.add_argument("prompt", metavar="TEXT", help="what it goes on from; -: read from stdin")
    writing.add_argument("--prefix", metavar="FILE", type=Path, help="a text before TEXT that is read once and kept")
    writing.add_argument("--prefix-cache", metavar="FOLDER", type=Path, help="where it is kept for the next time")
    writing.add_argument("--max-tokens", metavar="N", type=count, default=64, help="default 64")
    writing.add_argument("--stop", metavar="TEXT", action="append", default=[], help="ends the text; may be repeated")
    writing.add_argument("--drafts", metavar="N", type=count, default=1, help="texts; they differ if drawn")
    writing.add_argument(
        "--temperature", metavar="T", type=float, default=0.0, help="0 (default): the likeliest token; else draw"
    )
    writing.add_argument("--top-p", metavar="P", type=float, default=1.0, help="draw from the likeliest that hold P together")
    writing.add_argument("--seed", metavar="N", type=int, default=0, help="of the draws; default 0")
    writing.add_argument("--beams", metavar="N", type=count, default=0, help="search for the N likeliest texts instead")
    writing.add_argument("--timeout-s", metavar="N", type=float, default=60.0, help="what is written by then; default 60")
    writing.add_argument("--threads", metavar="N", type=int, default=0, help="of one step; default: one per core")
    writing.add_argument("--form", choices=("int8", "fp16", "fp32"), help="default: what suits the device")


def _eval(parsed: argparse.Namespace) -> int:
    from proxy.commands.asking import evaluate

    wanted = {"compare": parsed.compare, "save": parsed.save, "limit": parsed.limit, "languages": parsed.language or ()}
    wanted |= {"plots": parsed.plots, "without": parsed.without or ()}
    return evaluate(of_one(parsed), parsed.questions, **wanted)


def _train_ranker(parsed: argparse.Namespace) -> int:
    from proxy.commands.training import train_ranker

    return train_ranker(
        config_of(parsed), parsed.pairs or (), parsed.output, samples=parsed.samples or (), keep=parsed.keep_samples,
        limit=parsed.limit, from_scratch=parsed.from_scratch, encoder=parsed.cross_encoder, epochs=parsed.epochs,
        seed=parsed.seed,
    )  # fmt: skip


def _train_gate(parsed: argparse.Namespace) -> int:
    from proxy.commands.training import train_gate

    return train_gate(
        config_of(parsed), parsed.pairs or (), parsed.output, samples=parsed.samples or (), keep=parsed.keep_samples,
        limit=parsed.limit, from_scratch=parsed.from_scratch, lacking_every=parsed.lacking_every,
    )  # fmt: skip


def _model_import(parsed: argparse.Namespace) -> int:
    from proxy.models import import_and_report

    forms = tuple(dict.fromkeys(parsed.form or ("int8",)))
    print(import_and_report(parsed.source, parsed.output, forms=forms, threads=parsed.threads, told=say))
    return DONE


def _model_check(parsed: argparse.Namespace) -> int:
    from proxy.models import check

    print(check(parsed.folder, threads=parsed.threads))
    return DONE


def _model_write(parsed: argparse.Namespace) -> int:
    from proxy.models import written

    prompt = sys.stdin.read() if parsed.prompt == "-" else parsed.prompt
    texts, account = written(
        parsed.folder, prompt, prefix_file=parsed.prefix, kept_in=parsed.prefix_cache, max_tokens=parsed.max_tokens,
        stop=tuple(parsed.stop), drafts=parsed.drafts, beams=parsed.beams, timeout_s=parsed.timeout_s, threads=parsed.threads,
        form=parsed.form, drawn={"temperature": parsed.temperature, "top_p": parsed.top_p, "seed": parsed.seed},
    )  # fmt: skip
    say(account)
    print("\n---\n".join(texts))
    return DONE


def _model_list(parsed: argparse.Namespace) -> int:
    from proxy.models import listed

    print(listed(parsed.parent))
    return DONE
