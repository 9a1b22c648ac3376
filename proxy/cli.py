"""The command ``sparlance``: parses arguments and calls; ``proxy.commands`` does the work.

Exit codes:
  0  done; ``check``: nothing against the query
  1  ``check``: the query would be rejected; ``ask``: no answer is good enough; ``plugin test``: a hook failed or is misspelt
  2  wrong usage or configuration, or something failed: one sentence on stderr says what to do
"""

from __future__ import annotations

import argparse
import difflib
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from proxy import __version__
from proxy.config import CONFIG_VARIABLE, Config, load_config
from proxy.errors import ProxyError
from proxy.evaluation.parts import Part

DONE, REFUSED, FAILED = 0, 1, 2


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code."""
    parsed = parser().parse_args(arguments)
    try:
        code: int = parsed.run(parsed)
        return code
    except ProxyError as error:
        print(f"sparlance: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # Whoever read our output has enough (`| head`); a second complaint at interpreter exit would help nobody.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


# -- settings from flags


def _config(parsed: argparse.Namespace) -> Config:
    """Merge file, environment and flags. Without --config and SPARLANCE_CONFIG, ./config.toml is read if it is there."""
    path = parsed.config or os.environ.get(CONFIG_VARIABLE) or None
    if path is None and Path("config.toml").is_file():
        path = "config.toml"
    return load_config(path, environ=os.environ, overrides=_overrides(parsed))


def _one(parsed: argparse.Namespace) -> Config:
    """The settings of the one dataset that a command is about."""
    return _config(parsed).of_dataset(parsed.dataset)


def _overrides(parsed: argparse.Namespace) -> dict[str, Any]:
    flags = {
        "backend": "backend.kind",
        "url": "backend.url",
        "repository": "backend.repository",
        "timeout_s": "backend.timeout_s",
        "workers": "server.workers",
        "host": "server.host",
        "port": "server.port",
    }
    values = {key: getattr(parsed, flag) for flag, key in flags.items() if getattr(parsed, flag, None) is not None}
    if "backend.timeout_s" in values:
        values["backend.idle_timeout_s"] = values["backend.timeout_s"]
    if getattr(parsed, "load", None):
        values["backend.load"] = parsed.load
    # What the command line serves replaces what the file serves.
    if "backend.url" in values and "backend.load" not in values:
        values["backend.load"] = []
    elif "backend.load" in values and "backend.url" not in values:
        values["backend.url"] = ""
    if getattr(parsed, "no_index", False):
        values["index.enabled"] = False
    if getattr(parsed, "no_nl", False):
        values["nl.enabled"] = False
    if getattr(parsed, "allow_updates", False):
        values["policy.allow_updates"] = True
    return values


# -- commands; imports are late so that --help and config check stay quick


def _serve(parsed: argparse.Namespace) -> int:
    from proxy.commands import serve

    return serve(_config(parsed), reread=lambda: _config(parsed))


def _demo(parsed: argparse.Namespace) -> int:
    from proxy.commands import demo

    return demo(_config(parsed))


def _check(parsed: argparse.Namespace) -> int:
    from proxy.commands import check

    return check(_one(parsed), _read(parsed.file), as_json=parsed.format == "json")


def _ask(parsed: argparse.Namespace) -> int:
    from proxy.commands import ask

    return ask(_one(parsed), parsed.question, language=parsed.language, style=parsed.format)


def _eval(parsed: argparse.Namespace) -> int:
    from proxy.commands import evaluate

    wanted = {"compare": parsed.compare, "save": parsed.save, "limit": parsed.limit, "languages": parsed.language or ()}
    wanted |= {"plots": parsed.plots, "without": parsed.without or ()}
    return evaluate(_one(parsed), parsed.questions, **wanted)


def _index_show(parsed: argparse.Namespace) -> int:
    from proxy.commands import show_index

    return show_index(_one(parsed), as_json=parsed.format == "json")


def _index_ttql(parsed: argparse.Namespace) -> int:
    from proxy.commands import show_ttql

    limits = {"floor": parsed.floor, "budget_tokens": parsed.budget_tokens, "budget_lines": parsed.budget_lines}
    return show_ttql(_one(parsed), parsed.classes or (), depth=parsed.depth, sample=parsed.sample, **limits)


def _index_build(parsed: argparse.Namespace) -> int:
    from proxy.commands import build_index

    return build_index(_one(parsed))


def _index_verify(parsed: argparse.Namespace) -> int:
    from proxy.commands import verify_index

    as_json = parsed.format == "json"
    return verify_index(_one(parsed), cells=parsed.cells, paths=parsed.paths, seed=parsed.seed, as_json=as_json)


def _train_ranker(parsed: argparse.Namespace) -> int:
    from proxy.commands import train_ranker

    return train_ranker(
        _config(parsed), parsed.pairs or (), parsed.output, samples=parsed.samples or (), keep=parsed.keep_samples,
        limit=parsed.limit, from_scratch=parsed.from_scratch, encoder=parsed.cross_encoder, epochs=parsed.epochs,
        seed=parsed.seed,
    )  # fmt: skip


def _model_import(parsed: argparse.Namespace) -> int:
    from proxy.models import import_and_report

    forms = tuple(dict.fromkeys(parsed.form or ("int8",)))
    told = _say_on_stderr
    print(import_and_report(parsed.source, parsed.output, forms=forms, threads=parsed.threads, told=told))
    return DONE


def _model_check(parsed: argparse.Namespace) -> int:
    from proxy.models import check

    print(check(parsed.folder, threads=parsed.threads))
    return DONE


def _model_list(parsed: argparse.Namespace) -> int:
    from proxy.models import listed

    print(listed(parsed.parent))
    return DONE


def _say_on_stderr(text: str) -> None:
    print(text, file=sys.stderr)


def _pairs_synth(parsed: argparse.Namespace) -> int:
    from proxy.commands import synthesize

    return synthesize(_config(parsed), parsed.output, count=parsed.count, seed=parsed.seed)


def _pairs_lint(parsed: argparse.Namespace) -> int:
    from proxy.commands import lint_pairs

    return lint_pairs(_one(parsed), parsed.files)


def _pairs_import(parsed: argparse.Namespace) -> int:
    from proxy.commands import import_pairs

    return import_pairs(_one(parsed), parsed.files)


def _pairs_split(parsed: argparse.Namespace) -> int:
    from proxy.commands import split_pairs

    return split_pairs(parsed.files, parsed.output, share=parsed.share)


def _config_check(parsed: argparse.Namespace) -> int:
    config = _config(parsed)
    if config.plugins.enabled or config.plugins.options:
        from proxy.plugin.loading import load_plugins

        load_plugins(config.plugins.directory, enabled=config.plugins.enabled, options=config.plugins.options)
    print(f"{config.path or 'defaults'}: every setting can be used")
    return DONE


def _config_show(parsed: argparse.Namespace) -> int:
    from proxy.commands import config_as_toml

    print(config_as_toml(_config(parsed)), end="")
    return DONE


def _plugin_list(parsed: argparse.Namespace) -> int:
    from proxy.plugin.loading import available

    plugins = _config(parsed).plugins
    for name, summary in available(plugins.directory).items():
        print(f"{'on ' if name in plugins.enabled else 'off'}  {name:<20} {summary}")
    return DONE


def _key_new(parsed: argparse.Namespace) -> int:
    from proxy.access.keys import read_roles
    from proxy.keys import new_key

    limits = {"requests_per_minute": parsed.requests_per_minute, "query_seconds_per_minute": parsed.query_seconds_per_minute}
    token, key = new_key(_config(parsed), parsed.name, read_roles(parsed.role or ["query", "nl"]), days=parsed.days, **limits)
    print(token)
    until = f", valid until {key.expires}" if key.expires else ""
    print(f"key {key.id} ({', '.join(sorted(key.roles))}{until}): shown this once, only its hash is kept", file=sys.stderr)
    return DONE


def _key_list(parsed: argparse.Namespace) -> int:
    from proxy.keys import list_keys

    for key in list_keys(_config(parsed)):
        state = f"revoked {key.revoked}" if key.revoked else (f"until {key.expires}" if key.expires else "valid")
        print(f"{key.id:<14} {key.name:<24} {','.join(sorted(key.roles)):<24} {key.created:<21} {state}")
    return DONE


def _key_revoke(parsed: argparse.Namespace) -> int:
    from proxy.keys import revoke_key

    key = revoke_key(_config(parsed), parsed.name)
    print(f"key {key.id} ({key.name}) is revoked; servers notice within a second")
    return DONE


def _plugin_new(parsed: argparse.Namespace) -> int:
    from proxy.trial import new_plugin

    file = new_plugin(_config(parsed), parsed.name)
    print(f'{file} says which query form was asked; change it (docs/plugins.md), then try it:\n  sparlance plugin test {file}')
    print(f'and put "{parsed.name}" into enabled under [plugins]')
    return DONE


def _plugin_test(parsed: argparse.Namespace) -> int:
    from proxy.trial import try_plugin

    return DONE if try_plugin(_config(parsed), parsed.file) else REFUSED


def _read(file: str) -> str:
    if file == "-":
        return sys.stdin.read()
    try:
        return Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as exc:
        raise ProxyError(f"cannot read {file}: {getattr(exc, 'strerror', None) or exc}") from exc


# -- the parser


class Parser(argparse.ArgumentParser):
    """Complains of what it does not know with the usage of the command that was meant, and names the nearest."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        # A sub-command's parser is called by this way; left alone, what it does not know is the root parser's complaint.
        parsed, unknown = super().parse_known_args(args, namespace)
        if unknown:
            hints = [_nearest(word.partition("=")[0], self._option_string_actions) for word in unknown if word[:1] == "-"]
            self.error(f"unrecognized arguments: {' '.join(unknown)}{next(filter(None, hints), '')}")
        return parsed, unknown

    def _check_value(self, action: argparse.Action, value: Any) -> None:
        if action.choices is not None and value not in action.choices:
            choices = ", ".join(action.choices)
            raise argparse.ArgumentError(action, f'there is no "{value}"; there is {choices}{_nearest(value, action.choices)}')


def _nearest(word: str, known: Iterable[str]) -> str:
    close = difflib.get_close_matches(word, list(known), n=1)
    return f". Did you mean {close[0]}?" if close else ""


def parser() -> argparse.ArgumentParser:
    made = Parser(
        prog="sparlance",
        description="A SPARQL proxy: forwards what is sound, explains what cannot be, answers plain questions.",
        epilog=__doc__.partition("\n\n")[2].replace("``", ""),
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    made.add_argument("--version", action="version", version=f"sparlance {__version__}")
    commands = made.add_subparsers(metavar="COMMAND", required=True)

    serve = _command(
        commands,
        "serve",
        _serve,
        "Answer SPARQL and questions in front of a server, or of files.",
        "sparlance serve --load graph.ttl.gz\n  sparlance serve --backend oxigraph --url http://127.0.0.1:7878 --port 8080",
    )
    _listens(serve)
    _reads_from(serve)
    serve.add_argument("--workers", metavar="N", type=int, help="processes on the port; default 1")
    serve.add_argument("--no-index", action="store_true", help="pure proxy: no checks, no questions")
    serve.add_argument("--no-nl", action="store_true", help="no questions: saves the memory of the models")
    serve.add_argument("--allow-updates", action="store_true", help="forward SPARQL updates instead of refusing them (403)")

    demo = _command(
        commands,
        "demo",
        _demo,
        "Serve a graph to try Sparlance with, and print three things to paste.",
        "sparlance demo --port 9000",
    )
    _listens(demo)
    _configured(demo)

    check = _command(
        commands,
        "check",
        _check,
        "Say what is wrong with a query on this graph; it is not run. Exit code 1 if it would be rejected.",
        "sparlance check query.rq --load graph.ttl\n  echo 'SELECT * { ?s ?p ?o }' | sparlance check --url http://127.0.0.1:7878",
    )
    check.add_argument("file", nargs="?", default="-", metavar="FILE", help="the query; - (default): standard input")
    _reads_one(check)
    check.add_argument("--format", choices=("text", "json"), default="text", help="default: text")

    ask = _command(
        commands,
        "ask",
        _ask,
        "Answer a question in plain language. Exit code 1 if no answer is good enough.",
        'sparlance ask "Which harbour is the deepest?" --load graph.ttl --format query',
    )
    ask.add_argument("question", metavar="QUESTION", help="in quotes")
    ask.add_argument("--language", metavar="TAG", help="BCP 47 tag of the question, such as en or pt-BR; default: not said")
    _reads_one(ask)
    ask.add_argument(
        "--format", choices=("table", "json", "query"), default="table", help="table (default), SPARQL JSON, or the query alone"
    )

    evaluation = _command(
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
    _reads_one(evaluation)
    evaluation.add_argument("--save", metavar="FILE", type=Path, help="keep the run, as JSON")
    evaluation.add_argument("--compare", metavar="FILE", type=Path, help="an earlier run: paired bootstrap of the differences")
    evaluation.add_argument("--limit", metavar="N", type=_count, help="only the first N questions")
    evaluation.add_argument("--plots", metavar="FOLDER", type=Path, help="draw the run as SVG files (needs matplotlib)")
    parts = [str(part) for part in Part]
    evaluation.add_argument(
        "--without", metavar="PART", action="append", choices=parts, help=f"leave out {', '.join(parts)}; may be repeated"
    )
    evaluation.add_argument("--language", metavar="TAG", action="append", help="only questions in it (YAML); may be repeated")

    _trains(commands)
    _models(commands)
    index = commands.add_parser("index", help="What the index knows of a graph.").add_subparsers(
        metavar="ACTION", required=True
    )
    show = _command(
        index,
        "show",
        _index_show,
        "Build the index and print classes, properties and counts.",
        "sparlance index show --load graph.ttl",
    )
    _reads_one(show)
    show.add_argument("--format", choices=("text", "json"), default="text", help="default: text")

    ttql = _command(
        index,
        "ttql",
        _index_ttql,
        "Describe the graph as text, class by class: paths, how common they are, example values (docs/ttql.md).",
        "sparlance index ttql --load graph.ttl --depth 2 --budget-tokens 4000",
    )
    _reads_one(ttql)
    ttql.add_argument("--class", dest="classes", metavar="IRI", action="append", help="only this class; may be repeated")
    ttql.add_argument("--depth", metavar="H", type=_count, help="edges on a path, 1 to 8; default 3")
    ttql.add_argument("--sample", metavar="N", type=_count, help="instances of each class that examples come from; default 100")
    ttql.add_argument("--floor", metavar="F", type=_share, help="leave out edges that fewer than this share of nodes have")
    ttql.add_argument("--budget-tokens", metavar="N", type=_count, help="at most so many tokens, of four characters each")
    ttql.add_argument("--budget-lines", metavar="N", type=_count, help="at most so many lines")

    build = _command(
        index,
        "build",
        _index_build,
        "Build the index and keep it in its file, for a server to start from. Goes on where a killed build had come to.",
        "sparlance index build --url http://127.0.0.1:7878",
    )
    _reads_one(build)
    verify = _command(
        index,
        "verify",
        _index_verify,
        "Count a random part of the graph again and walk random paths of it. Exit code 1 if the index is wrong anywhere.",
        "sparlance index verify --load graph.ttl --paths 500",
    )
    _reads_one(verify)
    verify.add_argument("--cells", type=int, default=40, metavar="N", help="(class, property, class) to recount; default 40")
    verify.add_argument("--paths", type=int, default=100, metavar="N", help="paths to walk; default 100")
    verify.add_argument("--seed", type=int, default=0, metavar="N", help="another number: other cells and paths; default 0")
    verify.add_argument("--format", choices=("text", "json"), default="text", help="default: text")

    config = commands.add_parser("config", help="Check or show the settings.").add_subparsers(metavar="ACTION", required=True)
    for name, run, what in (
        ("check", _config_check, "Tell whether every setting can be used, and load the plugins; starts nothing."),
        ("show", _config_show, "Print the settings in effect as TOML, secrets left out."),
    ):
        _configured(_command(config, name, run, what, f"sparlance config {name} --config config.toml"))

    _keys(commands.add_parser("key", help="Make and revoke API keys.").add_subparsers(metavar="ACTION", required=True))
    plugin = commands.add_parser("plugin", help="What can be plugged in.").add_subparsers(metavar="ACTION", required=True)
    listing = _command(
        plugin, "list", _plugin_list, "List the plugins in the folder and which are on.", "sparlance plugin list"
    )
    _configured(listing)
    new = _command(plugin, "new", _plugin_new, "Begin a plugin in the folder of plugins.", "sparlance plugin new my_guard")
    new.add_argument("name", metavar="NAME", help="a name as of a Python module")
    _configured(new)
    trial = _command(
        plugin,
        "test",
        _plugin_test,
        "Send a plugin, with its options, every kind of request on a graph of its own. Exit code 1 if a hook fails.",
        "sparlance plugin test plugins/my_guard.py",
    )
    trial.add_argument("file", metavar="FILE", type=Path, help="the plugin")
    _configured(trial)
    return made


def _keys(actions: Any) -> None:
    new = _command(
        actions,
        "new",
        _key_new,
        "Make an API key and print it, once; its hash is kept in access.keys_file.",
        "sparlance key new wiki --role query --role nl\n  sparlance key new prometheus --role admin --days 365",
    )
    new.add_argument("name", metavar="NAME", help="who it is for; stands in lists, never in a request")
    roles = ("query", "nl", "update", "admin")
    new.add_argument("--role", action="append", choices=roles, help="what it may do; may be repeated; default query and nl")
    new.add_argument("--days", metavar="N", type=_count, help="how long it is valid; default: until it is revoked")
    for limit in ("--requests-per-minute", "--query-seconds-per-minute"):
        new.add_argument(limit, metavar="N", type=_count, default=0, help="a limit of its own; default: as for everybody")
    revoke = _command(
        actions, "revoke", _key_revoke, "Make a key worthless; servers notice within a second.", "sparlance key revoke wiki"
    )
    revoke.add_argument("name", metavar="NAME", help="its name or id")
    listing = _command(actions, "list", _key_list, "List the keys; they themselves are not kept.", "sparlance key list")
    for parser in (new, revoke, listing):
        _configured(parser)


def _models(commands: Any) -> None:
    actions = commands.add_parser("model", help="Language models for [nl] scorer: import, check, list.").add_subparsers(
        metavar="ACTION", required=True
    )
    importing = _command(
        actions,
        "import",
        _model_import,
        "Make the ONNX folder of a Hugging Face folder (llama, qwen2, gemma3_text), and hold it against the source (extra lm).",
        "sparlance model import SmolLM2-135M -o models/smollm2\n"
        "  sparlance model import SOURCE -o FOLDER --form int8 --form fp16",
    )
    importing.add_argument("source", metavar="SOURCE", type=Path, help="folder: config.json, tokenizer.json, *.safetensors")
    importing.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="empty or not there yet")
    importing.add_argument(
        "--form", action="append", choices=("int8", "fp16", "fp32"), help="int8 (default): CPU; fp16: CUDA; may be repeated"
    )
    checking = _command(
        actions, "check", _model_check, "Open a model and measure it here.", "sparlance model check models/smollm2"
    )
    checking.add_argument("folder", metavar="FOLDER", type=Path)
    for each in (importing, checking):
        each.add_argument("--threads", metavar="N", type=int, default=0, help="of one step; default: one per core")
    listing = _command(actions, "list", _model_list, "The models in the folders of a folder.", "sparlance model list models")
    listing.add_argument("parent", metavar="FOLDER", type=Path, nargs="?", default=Path("."), help="default: here")


def _trains(commands: Any) -> None:
    actions = commands.add_parser("train", help="Fit models to pairs of questions and queries.").add_subparsers(
        metavar="MODEL", required=True
    )
    ranker = _command(
        actions,
        "ranker",
        _train_ranker,
        "Fit the ranking of candidate queries, and write it into a folder for [nl] ranker (docs/models.md).",
        "sparlance train ranker --pairs pairs.jsonl --load graph.ttl -o my-ranker\n"
        "  sparlance train ranker --pairs GRAPHS --from-scratch --limit 40 --keep-samples samples.jsonl -o ranker",
    )
    ranker.add_argument(
        "--pairs",
        metavar="PATH",
        type=Path,
        action="append",
        help="JSONL (question, sparql) about the graph of --load or --url, or a folder of graphs; may be repeated",
    )
    ranker.add_argument("--samples", metavar="FILE", type=Path, action="append", help="what --keep-samples wrote")
    ranker.add_argument("--keep-samples", metavar="FILE", type=Path, help="keep what is collected, to fit again quickly")
    ranker.add_argument("--limit", metavar="N", type=_count, help="questions of each graph at most")
    ranker.add_argument("--from-scratch", action="store_true", help="do not start from the ranking in force")
    ranker.add_argument("--cross-encoder", metavar="FOLDER", type=Path, help="train one too, from this MiniLM (extra train)")
    ranker.add_argument("--epochs", metavar="N", type=_count, default=3, help="of the cross-encoder at most; default 3")
    ranker.add_argument("--seed", metavar="N", type=int, default=7, help="of the cross-encoder; default 7")
    ranker.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="where the ranking is written")
    _reads_from(ranker)

    pairs = commands.add_parser("pairs", help="Pairs of questions and queries, to train on.").add_subparsers(
        metavar="ACTION", required=True
    )
    synth = _command(
        pairs,
        "synth",
        _pairs_synth,
        "Make pairs about a graph: queries that it supports, in words, kept if the engine finds them again.",
        "sparlance pairs synth --load graph.ttl --count 200 -o synthetic.jsonl",
    )
    synth.add_argument("--count", metavar="N", type=_count, default=200, help="pairs to make; default 200")
    synth.add_argument("--seed", metavar="N", type=int, default=0, help="another number: other pairs; default 0")
    synth.add_argument("-o", "--output", metavar="FILE", type=Path, required=True, help="where they are written, as JSONL")
    _reads_from(synth)

    kinds = "JSONL, JSON or TEXT2SPARQL YAML"
    lint = _command(
        pairs,
        "lint",
        _pairs_lint,
        "Say what is wrong with pairs on this graph. Exit code 1 if one cannot be used.",
        "sparlance pairs lint mine.jsonl --load graph.ttl",
    )
    lint.add_argument("files", metavar="FILE", type=Path, nargs="+", help=kinds)
    _reads_one(lint)
    taken = _command(
        pairs,
        "import",
        _pairs_import,
        "Put pairs into the memory that questions are answered with ([nl] memory).",
        "sparlance pairs import mine.jsonl --config config.toml",
    )
    taken.add_argument("files", metavar="FILE", type=Path, nargs="+", help=kinds)
    _reads_one(taken)
    parted = _command(
        pairs,
        "split",
        _pairs_split,
        "Part pairs into train.jsonl and test.jsonl, no template of a query in both.",
        "sparlance pairs split mine.jsonl --share 0.2 -o split",
    )
    parted.add_argument("files", metavar="FILE", type=Path, nargs="+", help=kinds)
    parted.add_argument("--share", metavar="X", type=_share, default=0.2, help="of the pairs, to test with; default 0.2")
    parted.add_argument("-o", "--output", metavar="FOLDER", type=Path, required=True, help="where both files are written")


def _command(commands: Any, name: str, run: Any, what: str, example: str) -> argparse.ArgumentParser:
    noun = "example" if "\n" not in example else "examples"
    parser = commands.add_parser(
        name,
        help=what,
        description=what,
        epilog=f"{noun}:\n  {example}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.set_defaults(run=run)
    return parser  # type: ignore[no-any-return]


def _count(text: str) -> int:
    if not (text.isascii() and text.isdecimal() and 1 <= int(text) < 10**9):
        raise argparse.ArgumentTypeError("a whole number from 1 is wanted")
    return int(text)


def _share(text: str) -> float:
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise argparse.ArgumentTypeError("a number from 0 to 1 is wanted")
    return share


def _configured(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--config", metavar="FILE", help=f"settings; default: ${CONFIG_VARIABLE}, or ./config.toml if it exists"
    )


def _listens(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--host", metavar="HOST", help="address to listen on; default 127.0.0.1: only this machine")
    parser.add_argument("--port", metavar="PORT", type=int, help="default 8080; 0: a free one")


def _reads_from(parser: argparse.ArgumentParser) -> None:
    _configured(parser)
    kinds = ("oxigraph", "qlever", "graphdb", "sparql")
    parser.add_argument("--backend", choices=kinds, help="what kind of server --url is; default oxigraph")
    parser.add_argument("--url", metavar="ROOT_URL", help="root URL of the server")
    parser.add_argument("--repository", metavar="ID", help="GraphDB: the repository; QLever: the name behind /api/")
    parser.add_argument(
        "--load",
        metavar="RDF_FILE",
        action="append",
        help="serve this file from an embedded store: .nt .ttl .nq .trig .rdf, also .gz; may be repeated",
    )
    parser.add_argument("--timeout-s", metavar="N", type=float, help="seconds the backend may be silent; default 60")


def _reads_one(parser: argparse.ArgumentParser) -> None:
    _reads_from(parser)
    parser.add_argument("--dataset", metavar="NAME", help="which of several datasets in the settings")
