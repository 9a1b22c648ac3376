"""``config.toml``, environment and command line → one frozen ``Config``.

Later sources win: defaults, the file, ``SPARLANCE_SECTION_KEY`` variables, the command line. Nothing is guessed: an unknown
key, a wrong type or a value out of range raises ConfigError with the dotted key, what was found and what is accepted.

``config.toml`` in the root of the repository documents every key with its default, unit and reason; a test keeps the two equal.
"""

from __future__ import annotations

import difflib
import ipaddress
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal, get_type_hints

import msgspec
from msgspec import Meta, Struct

from proxy.errors import ConfigError

PREFIX = "SPARLANCE_"
CONFIG_VARIABLE = PREFIX + "CONFIG"
DEFAULT_DATASET = "default"

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrOff = Annotated[float, Meta(ge=0, le=86_400)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Text = Annotated[str, Meta(min_length=1)]


class Secret:
    """A credential. ``value`` gives it away; ``str``, ``repr`` and ``config show`` do not. False when empty."""

    __slots__ = ("value",)

    def __init__(self, value: str = "") -> None:
        self.value = value

    def __repr__(self) -> str:
        return "(set)" if self.value else "(not set)"

    def __bool__(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other.value == self.value

    def __hash__(self) -> int:
        return hash(self.value)


class ServerSettings(Struct, frozen=True, kw_only=True):
    """Where Sparlance listens. Port 0: a free one.

    drain_s: of shutdown_timeout_s, in which new requests are still taken.
    workers: processes on that port. trusted_proxies: addresses and networks whose X-Forwarded-For is believed.
    """

    host: Text = "127.0.0.1"
    port: Port = 8080
    body_limit_bytes: Positive = 104_857_600
    shutdown_timeout_s: Seconds = 10.0
    send_timeout_s: Seconds = 60.0
    drain_s: SecondsOrOff = 0.0
    workers: Annotated[int, Meta(ge=1, le=256)] = 1
    trusted_proxies: tuple[Text, ...] = ()


class BackendSettings(Struct, frozen=True, kw_only=True):
    """The database: a server at *url*, or the files *load* in an embedded store.

    repository: GraphDB repository id, QLever access path name; unused elsewhere.
    update_url: kind "sparql" only: where updates go; empty: to *url*.
    client_authorization: what becomes of a client's Authorization; auto: "drop" for QLever, "pass" for the others.
    accept: "explicit" sends one media type upstream, the one of the backend's that the client likes best.
    forward_timeout: give *timeout_s* to the backend as its own limit where the client gives none.
    fetches_graphs: the server may fetch graphs named in FROM, so they are held to policy.allowed_services.
    max_nesting, max_operators: of a text, so that it cannot overflow the server's stack; 0: what the kind bears.
    authorization: value of the Authorization header that Sparlance's *own* queries carry, and with "replace" every
        request; by environment only.
    """

    kind: Literal["oxigraph", "qlever", "graphdb", "sparql"] = "oxigraph"
    url: str = ""
    load: tuple[Text, ...] = ()
    repository: str = ""
    update_url: str = ""
    client_authorization: Literal["auto", "pass", "drop", "replace"] = "auto"
    accept: Literal["pass", "explicit"] = "pass"
    forward_timeout: bool = False
    fetches_graphs: bool = False
    timeout_s: Seconds = 60.0
    idle_timeout_s: Seconds = 60.0
    total_timeout_s: SecondsOrOff = 0.0
    connect_timeout_s: Seconds = 5.0
    max_connections: Positive = 64
    max_nesting: Count = 0
    max_operators: Count = 0
    authorization: Secret = Secret()


class PolicySettings(Struct, frozen=True, kw_only=True):
    """What may pass. *allowed_services*: endpoint IRIs that SERVICE may name.

    allowed_parameters: names of administrative parameters of the backend (QLever's cmd, send …) that clients may use.
    """

    allow_updates: bool = False
    allowed_services: tuple[Text, ...] = ()
    allowed_parameters: tuple[Text, ...] = ()
    unparsable: Literal["forward", "refuse"] = "forward"


class LoadSettings(Struct, frozen=True, kw_only=True):
    """What bounds requests on their way to the backend (docs/load.md). *concurrency* 0: what the kind of backend bears."""

    concurrency: Count = 0
    max_waiting: Count = 1000
    max_wait_s: SecondsOrOff = 10.0
    orphan_bound_s: SecondsOrOff = 60.0
    breaker_failures: Positive = 5
    breaker_window_s: Seconds = 30.0
    breaker_open_first_s: Seconds = 1.0
    breaker_open_most_s: Seconds = 60.0
    coalesce: bool = True
    share_limit_bytes: Count = 262_144
    share_total_bytes: Count = 16_777_216
    hold_s: SecondsOrOff = 1.0


class LimitSettings(Struct, frozen=True, kw_only=True):
    """What one client may use. The six numbers replace those of *preset*; 0: as the preset has it."""

    preset: Literal["off", "wikidata"] = "off"
    requests_per_minute: Amount = 0.0
    requests_burst: Amount = 0.0
    query_seconds_per_minute: Amount = 0.0
    query_seconds_burst: Amount = 0.0
    errors_per_minute: Amount = 0.0
    errors_burst: Amount = 0.0
    max_clients: Positive = 10_000


class CacheSettings(Struct, frozen=True, kw_only=True):
    """Kept answers. *url*: of a Redis or Valkey server; empty: the memory of this process."""

    enabled: bool = False
    url: str = ""
    limit_bytes: Positive = 67_108_864
    entry_limit_bytes: Positive = 262_144
    ttl_s: Seconds = 60.0
    keeps_authenticated: bool = False
    trusted_s: SecondsOrOff = 0.0


class SharedSettings(Struct, frozen=True, kw_only=True):
    """What several processes and machines have in common beside the cache. *url*: of a Redis or Valkey server.

    index_limit_bytes: of one index file that is handed on by it; 0: none is.
    """

    url: str = ""
    index_limit_bytes: Count = 268_435_456


class IndexSettings(Struct, frozen=True, kw_only=True):
    """How the backend is enumerated. *values_per_property*: distinct literals kept for each (class, property).

    graphs: "named" merges the named graphs by FROM, for endpoints without a parameter for the union. "each": the union, and
        each of the largest named graphs alone.
    directory: of the archives; empty: memory only. duty: share of the time in which a rebuild asks.
    class_predicate: an IRI, or "auto": rdf:type, unless the graph uses another one (pipeline/class_predicate.py).
    ttql_depth: edges on a path of ``/-/ttql``. ttql_sample: instances of each class that its examples come from.
    """

    enabled: bool = True
    class_predicate: Text = "auto"
    excluded_namespaces: tuple[Text, ...] = ()
    chunk_timeout_s: Seconds = 60.0
    concurrency: Annotated[int, Meta(ge=1, le=64)] = 1
    values_per_property: Count = 20_000
    graphs: Literal["default", "union", "named", "each"] = "default"
    method: Literal["auto", "ask", "download"] = "auto"
    directory: str = "var/index"
    refresh_s: Annotated[float, Meta(ge=0, le=31_536_000)] = 0.0
    poll_s: SecondsOrOff = 60.0
    duty: Annotated[float, Meta(gt=0, le=1)] = 0.25
    ttql_depth: Annotated[int, Meta(ge=1, le=8)] = 3
    ttql_sample: Positive = 100
    ttql_queries: Positive = 5000


class ValidationSettings(Struct, frozen=True, kw_only=True):
    """What happens to a query that is proved empty."""

    policy: Literal["reject", "empty", "annotate", "off"] = "reject"
    allow_prefer: bool = True
    confirm_timeout_s: Seconds = 5.0


class NlSettings(Struct, frozen=True, kw_only=True):
    """Questions in plain language. *encoder*: folder with model.onnx and tokenizer.json; *ranker*: folder that
    ``sparlance train ranker`` wrote; empty: the packaged ones. *scorer*: folder that ``sparlance model import`` wrote;
    empty: none. *memory*: folder of what people confirmed; empty: nothing is kept. *answer*: what stands for an entity
    (nl/policy.py)."""

    enabled: bool = True
    encoder: str = ""
    ranker: str = ""
    scorer: str = ""
    scorer_weight: Amount = 0.25
    answer: Literal["label", "entity", "as-written"] = "label"
    max_candidates: Positive = 400
    execute: Positive = 4
    correct_above: Fraction = 0.5
    corrections: Count = 0
    execution_feedback: bool = True
    abstain_below: Fraction = 0.05
    lacking_above: Fraction = 0.6
    memory: str = "var/memory"
    row_limit: Positive = 10_000
    timeout_s: Seconds = 20.0
    threads: Count = 0


class PluginSettings(Struct, frozen=True, kw_only=True):
    """Which files of *directory*, or installed plugins, run, in this order. *budget_s*: for one call of one hook.

    options: the tables ``[plugins.NAME]``, by name.
    """

    directory: Text = "plugins"
    enabled: tuple[Text, ...] = ()
    budget_s: Seconds = 1.0
    options: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)


class AccessSettings(Struct, frozen=True, kw_only=True):
    """Who may do what. *keys_file*: written by ``sparlance key``; *keys*: more of them, by environment only.

    anonymous: roles of a request without a key.
    """

    keys_file: str = ""
    anonymous: tuple[Literal["query", "nl", "update"], ...] = ("query", "nl", "update")
    keys: Secret = Secret()


class TracingSettings(Struct, frozen=True, kw_only=True):
    """*endpoint*: of an OpenTelemetry collector, OTLP over HTTP; empty: no spans."""

    endpoint: str = ""


class LogSettings(Struct, frozen=True, kw_only=True):
    """*format* auto: for people on a terminal, JSON elsewhere."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["auto", "json", "console"] = "auto"


class Config(Struct, frozen=True, kw_only=True):
    """Everything that can be set. *path*: the file it came from, None without one.

    name: of the dataset that they are for. datasets: where the file has tables ``[datasets.NAME.…]``: each with everything
    that holds for it, in order.
    """

    server: ServerSettings = ServerSettings()
    backend: BackendSettings = BackendSettings()
    policy: PolicySettings = PolicySettings()
    load: LoadSettings = LoadSettings()
    limits: LimitSettings = LimitSettings()
    cache: CacheSettings = CacheSettings()
    shared: SharedSettings = SharedSettings()
    index: IndexSettings = IndexSettings()
    validation: ValidationSettings = ValidationSettings()
    nl: NlSettings = NlSettings()
    access: AccessSettings = AccessSettings()
    plugins: PluginSettings = PluginSettings()
    log: LogSettings = LogSettings()
    tracing: TracingSettings = TracingSettings()
    path: Path | None = None
    name: str = DEFAULT_DATASET
    datasets: Mapping[str, Config] = msgspec.field(default_factory=dict)

    def by_dataset(self) -> Mapping[str, Config]:
        """Name → the settings of each dataset, in order; without ``[datasets]`` there is one."""
        return self.datasets or {self.name: self}

    def of_dataset(self, name: str | None) -> Config:
        """The settings of dataset *name*; None: of the only one.

        Raises:
            ConfigError: there is no such dataset, or there are several.
        """
        found = self.by_dataset()
        if name is None and len(found) == 1:
            return next(iter(found.values()))
        if name is None or name not in found:
            said = "several" if name is None else f'no "{name}"'
            raise ConfigError("datasets", f"found {said}; accepted: one of {', '.join(found)} (--dataset NAME)")
        return found[name]


SECTIONS: Mapping[str, type[Struct]] = {
    "server": ServerSettings,
    "backend": BackendSettings,
    "policy": PolicySettings,
    "load": LoadSettings,
    "limits": LimitSettings,
    "cache": CacheSettings,
    "shared": SharedSettings,
    "index": IndexSettings,
    "validation": ValidationSettings,
    "nl": NlSettings,
    "access": AccessSettings,
    "plugins": PluginSettings,
    "log": LogSettings,
    "tracing": TracingSettings,
}
OF_A_DATASET = ("backend", "policy", "load", "cache", "index", "validation", "nl")
"""Sections that a dataset may have of its own; in the others there is nothing that could differ."""
MAX_DATASETS = 100
_DATASET_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_TAKEN_NAMES = frozenset(["sparql", "query", "update", "store", "repositories", "protocol", "api", "ping", "text2sparql"])
"""First segments of paths that mean something else at the root."""
SECRETS = frozenset({"backend.authorization", "access.keys"})
_NOT_KEYS = frozenset({"plugins.options"})  # gathered from the tables, never written


def keys(section: str) -> dict[str, Any]:
    """Every key of *section* → its annotated type, in order."""
    hints = get_type_hints(SECTIONS[section], include_extras=True)
    names = SECTIONS[section].__struct_fields__
    return {name: hints[name] for name in names if f"{section}.{name}" not in _NOT_KEYS}


def load_config(
    path: str | os.PathLike[str] | None = None,
    *,
    environ: Mapping[str, str] | None = None,
    overrides: Mapping[str, Any] | None = None,
    name: str = DEFAULT_DATASET,
) -> Config:
    """Read, merge and check the settings.

    Args:
        path: a TOML file; None: no file. Relative paths *in the file* are relative to its folder.
        environ: as ``os.environ``; variables that name no section are other people's.
        overrides: dotted key → value, what the command line said; relative paths are relative to the working directory. A
            backend among them replaces all that the file serves, its datasets too.
        name: of the dataset, where the file names none.
    Raises:
        ConfigError: the file cannot be read, or a setting cannot be used.
    """
    file = None if path is None else Path(path)
    tables = {} if file is None else _read(file)
    of_datasets = _tables_of_datasets(tables.pop("datasets", {}))
    variables = _split_variables(environ or {}, of_datasets)
    values, options = _from_file(tables)
    if file is not None:
        _resolve(values, file.parent)
    given = _from_environment(variables[""])
    given |= {key: _convert(key, value, source="the command line") for key, value in (overrides or {}).items()}
    base = _assemble(values | given, options, file, name)
    if not of_datasets or {"backend.url", "backend.load"} & (overrides or {}).keys():
        _check_together(base)
        return base
    _require_nothing_for_all(base)
    datasets = {}
    for name, own_tables in of_datasets.items():
        with _naming(f"datasets.{name}"):
            own, _ = _from_file(own_tables)
            if file is not None:
                _resolve(own, file.parent)
            own = values | own | given | _from_environment(variables[name])
            datasets[name] = _assemble(own, options, file, name)
            _check_together(datasets[name])
            if not (datasets[name].backend.url or datasets[name].backend.load):
                raise ConfigError("backend.url", "not set, nor backend.load; accepted: each dataset has a server or files")
    return msgspec.structs.replace(base, datasets=datasets)


def _assemble(values: Mapping[str, Any], options: Mapping[str, Mapping[str, Any]], file: Path | None, name: str) -> Config:
    sections: dict[str, Any] = {}
    for section, struct in SECTIONS.items():
        own = {key.partition(".")[2]: value for key, value in values.items() if key.partition(".")[0] == section}
        if section == "plugins":
            own["options"] = options
        sections[section] = struct(**own)
    return Config(**sections, path=file, name=name)


def _tables_of_datasets(tables: Any) -> dict[str, dict[str, Any]]:
    """Check the names under ``[datasets]``, and that each holds only what a dataset may have."""
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise ConfigError("datasets", f"found {_show(tables)}; accepted: tables such as [datasets.museum.backend]")
    if len(tables) > MAX_DATASETS:
        raise ConfigError("datasets", f"found {len(tables)}; accepted: up to {MAX_DATASETS}")
    for name, table in tables.items():
        if not _DATASET_NAME.fullmatch(name) or name in _TAKEN_NAMES:
            accepted = "a name of a-z, 0-9, _ and -, at most 32, which is no path of ours or a backend's"
            raise ConfigError("datasets", f"found the name {_show(name)}; accepted: {accepted}")
        for section in table:
            if section not in OF_A_DATASET:
                hint = "; it is the same for all datasets" if section in SECTIONS else _nearest(section, OF_A_DATASET)
                raise ConfigError(f"datasets.{name}.{section}", f"accepted here: {', '.join(OF_A_DATASET)}{hint}")
    if len({name.replace("-", "_") for name in tables}) < len(tables):
        raise ConfigError("datasets", "two names differ only in - and _, which their variables could not tell apart")
    return tables


def _split_variables(environ: Mapping[str, str], datasets: Mapping[str, Any]) -> dict[str, dict[str, str]]:
    """Variables by the dataset that they name, "" for those of all: SPARLANCE_DATASETS_MUSEUM_BACKEND_URL → museum."""
    start = f"{PREFIX}DATASETS_"
    split: dict[str, dict[str, str]] = {"": {}, **{name: {} for name in datasets}}
    starts = {start + name.replace("-", "_").upper() + "_": name for name in datasets}
    for variable, raw in environ.items():
        if not variable.startswith(start):
            split[""][variable] = raw
            continue
        found = max((prefix for prefix in starts if variable.startswith(prefix)), key=len, default=None)
        if found is None:
            known = ", ".join(datasets) or "none"
            raise ConfigError("datasets", f"the variable {variable} names no dataset; there is {known}")
        split[starts[found]][PREFIX + variable.removeprefix(found)] = raw
    return split


def _require_nothing_for_all(base: Config) -> None:
    """Refuse what would send every dataset to one backend, or one backend's credential to all."""
    backend = base.backend
    if backend.url or backend.load:
        key = "backend.url" if backend.url else "backend.load"
        raise ConfigError(key, "found together with [datasets]; accepted: in [datasets.NAME.backend]")
    if backend.authorization:
        variable = f"{PREFIX}DATASETS_NAME_BACKEND_AUTHORIZATION"
        raise ConfigError("backend.authorization", f"found for all datasets; accepted: {variable}, for the one it belongs to")


@contextmanager
def _naming(place: str) -> Iterator[None]:
    try:
        yield
    except ConfigError as error:
        raise ConfigError(f"{place}.{error.key}", error.reason) from error


def _read(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as exc:
        raise ConfigError("", f"cannot read {file}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:  # beside TOML's own error: no UTF-8, a number of 5,000 digits, deep nesting
        raise ConfigError("", f"{file} is not TOML: {exc}") from exc


def _from_file(tables: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Mapping[str, Any]]]:
    values: dict[str, Any] = {}
    options: dict[str, Mapping[str, Any]] = {}
    for section, table in tables.items():
        if section not in SECTIONS:
            raise ConfigError(section, f"unknown section; accepted: {', '.join(SECTIONS)}{_nearest(section, SECTIONS)}")
        if not isinstance(table, dict):
            raise ConfigError(section, f"found {_show(table)}; accepted: a table, [{section}]")
        for name, value in table.items():
            key = f"{section}.{name}"
            if section == "plugins" and isinstance(value, dict):
                options[name] = value
                continue
            _require_known(section, name)
            if key in SECRETS or holds_password(key, value):
                raise ConfigError(key, f"a secret does not belong in a file; set the variable {variable_of(key)} instead")
            values[key] = _convert(key, value)
    return values, options


def holds_password(key: str, value: Any) -> bool:
    """Whether *value* of *key* is a URL with a password, which belongs in the environment like every secret."""
    return key in ("cache.url", "shared.url", "tracing.endpoint") and isinstance(value, str) and "@" in value


def variable_of(key: str) -> str:
    """The environment variable that overrides *key*: ``server.port`` → ``SPARLANCE_SERVER_PORT``."""
    return PREFIX + key.replace(".", "_").upper()


def _from_environment(environ: Mapping[str, str]) -> dict[str, Any]:
    """Read SPARLANCE_SECTION_KEY variables: text as it is, other types as TOML (``["a", "b"]``, ``true``, ``2.5``).

    A variable outside these sections is left alone: Kubernetes sets SPARLANCE_PORT, SPARLANCE_SERVICE_HOST … for a
    service of this name.
    """
    values: dict[str, Any] = {}
    for variable, raw in environ.items():
        for section in SECTIONS:
            if variable.startswith(f"{PREFIX}{section.upper()}_"):
                name = variable[len(PREFIX) + len(section) + 1 :].lower()
                _require_known(section, name, source=f"the variable {variable}")
                key = f"{section}.{name}"
                values[key] = _convert(key, _as_value(raw, keys(section)[name]), source=f"the variable {variable}")
    return values


def _as_value(raw: str, type_: Any) -> Any:
    if isinstance(msgspec.inspect.type_info(type_), msgspec.inspect.StrType | msgspec.inspect.LiteralType) or type_ is Secret:
        return raw
    try:
        return tomllib.loads(f"value = {raw}")["value"]
    except (ValueError, RecursionError):
        return raw  # the conversion says what was expected


def _require_known(section: str, name: str, *, source: str = "") -> None:
    known = [k for k in keys(section) if source or f"{section}.{k}" not in SECRETS | _NOT_KEYS]
    if name not in keys(section):
        hint = _nearest(name, known)
        where = f" (from {source})" if source else ""
        raise ConfigError(f"{section}.{name}", f"unknown key{where}; [{section}] accepts: {', '.join(known)}{hint}")


def _nearest(name: str, known: Any) -> str:
    close = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return f'. Did you mean "{close[0]}"?' if close else ""


def _convert(key: str, value: Any, *, source: str = "") -> Any:
    section, _, name = key.partition(".")
    type_ = keys(section)[name]
    if type_ is Secret:
        return Secret(str(value))
    try:
        return msgspec.convert(value, type_, strict=True)
    except msgspec.ValidationError as exc:
        where = f" in {source}" if source else ""
        raise ConfigError(key, f"found {_show(value)}{where}; accepted: {describe(type_)}") from exc


def describe(type_: Any) -> str:
    """What a key accepts, in words: ``a whole number from 0 to 65535``."""
    info = msgspec.inspect.type_info(type_)
    match info:
        case msgspec.inspect.BoolType():
            return "true or false"
        case msgspec.inspect.LiteralType(values=values):
            return "one of " + ", ".join(f'"{v}"' for v in values)
        case msgspec.inspect.StrType(min_length=minimum):
            return "a non-empty text" if minimum else "a text"
        case msgspec.inspect.VarTupleType(item_type=item):
            return f"a list, each item {describe_info(item)}"
    return describe_info(info)


def describe_info(info: msgspec.inspect.Type) -> str:
    match info:
        case msgspec.inspect.IntType() | msgspec.inspect.FloatType():
            noun = "a whole number" if isinstance(info, msgspec.inspect.IntType) else "a number"
            parts = [f"over {info.gt:g}" if info.gt is not None else "", f"from {info.ge:g}" if info.ge is not None else ""]
            parts.append(f"up to {info.le}" if info.le is not None else "")
            return " ".join([noun, *filter(None, parts)])
        case msgspec.inspect.StrType(min_length=minimum):
            return "a non-empty text" if minimum else "a text"
    return type(info).__name__


_CREDENTIALS = re.compile(r'(//)[^\s"]*@')
"""User and password in a URL, which no message repeats."""


def _show(value: Any) -> str:
    kind = {str: "the text", bool: "", int: "the number", float: "the number", list: "the list", dict: "the table"}
    try:
        shown = _CREDENTIALS.sub(r"\1***@", msgspec.json.encode(value, enc_hook=str).decode())
    except ValueError:  # 0xfff…: Python writes no number of more than 4,300 digits
        shown = "of too many digits"
    return f"{kind.get(type(value), 'the value')} {shown[:200]}".strip()


def _resolve(values: dict[str, Any], folder: Path) -> None:
    """Make the paths of a file relative to that file, so that it means the same wherever the command is started."""
    if "backend.load" in values:
        values["backend.load"] = tuple(str(folder / p) for p in values["backend.load"])
    for key in ("nl.encoder", "nl.ranker", "nl.memory", "plugins.directory", "index.directory", "access.keys_file"):
        if values.get(key):
            values[key] = str(folder / values[key])


def _check_together(config: Config) -> None:
    """Refuse settings that are fine alone and contradict each other."""
    backend = config.backend
    if backend.url and backend.load:
        raise ConfigError("backend.load", "found together with backend.url; accepted: one of them, a server or files")
    if backend.url and not backend.url.lower().startswith(("http://", "https://")):
        raise ConfigError("backend.url", f"found {_show(backend.url)}; accepted: a root URL such as http://127.0.0.1:7878")
    for key, url in (("backend.url", backend.url), ("backend.update_url", backend.update_url)):
        if "@" in url.partition("://")[2].partition("/")[0]:
            message = f"found {_show(url)}; accepted: no user and password in it, but in {variable_of('backend.authorization')}"
            raise ConfigError(key, message)
    if backend.url and backend.kind == "graphdb" and not backend.repository:
        raise ConfigError("backend.repository", "not set; accepted: the id of the GraphDB repository")
    if backend.update_url and backend.kind != "sparql":
        raise ConfigError("backend.update_url", f'found with backend.kind = "{backend.kind}"; accepted: only with "sparql"')
    if backend.client_authorization == "replace" and not backend.authorization:
        variable = variable_of("backend.authorization")
        raise ConfigError("backend.client_authorization", f'found "replace"; accepted: only with the variable {variable} set')
    _check_load(config)
    if len(set(config.plugins.enabled)) < len(config.plugins.enabled):
        raise ConfigError("plugins.enabled", f"found {_show(config.plugins.enabled)}; accepted: each plugin once")


def _check_load(config: Config) -> None:
    backend, load, server = config.backend, config.load, config.server
    if server.drain_s and server.drain_s >= server.shutdown_timeout_s:
        found = f"{server.drain_s:g}, of server.shutdown_timeout_s = {server.shutdown_timeout_s:g}"
        raise ConfigError("server.drain_s", f"found {found}; accepted: less, as running requests get the rest")
    if load.concurrency > backend.max_connections:
        found = f"{load.concurrency}, more than backend.max_connections = {backend.max_connections}"
        raise ConfigError("load.concurrency", f"found {found}; accepted: at most as many as there are connections")
    if load.breaker_open_first_s > load.breaker_open_most_s:
        raise ConfigError("load.breaker_open_first_s", "found more than load.breaker_open_most_s; accepted: at most that")
    for name in server.trusted_proxies:
        try:
            ipaddress.ip_network(name, strict=False)
        except ValueError as exc:
            message = f"found {_show(name)}; accepted: addresses and networks such as 10.0.0.7 or 10.0.0.0/8"
            raise ConfigError("server.trusted_proxies", message) from exc
    if server.workers > 1 and config.policy.allow_updates:
        if backend.load:
            raise ConfigError(
                "server.workers",
                f"found {server.workers} with backend.load and policy.allow_updates: each worker has a store of its own, and "
                "an update would reach one of them; accepted: 1, or a server at backend.url, or no updates",
            )
        if config.cache.enabled and not config.cache.url:
            raise ConfigError(
                "cache.url",
                f"not set, with {server.workers} workers and updates allowed: one worker would serve what another has made "
                "old; accepted: the URL of a Redis or Valkey server, or cache.enabled = false",
            )
    endpoint = config.tracing.endpoint
    if endpoint and not endpoint.startswith(("http://", "https://")):
        accepted = "a URL such as http://localhost:4318/v1/traces"
        raise ConfigError("tracing.endpoint", f"found {_show(endpoint)}; accepted: {accepted}")
    for key, url in (("cache.url", config.cache.url), ("shared.url", config.shared.url)):
        if url and not url.startswith(("redis://", "rediss://", "unix://")):
            raise ConfigError(key, f"found {_show(url)}; accepted: redis://host:port/db, rediss://…, unix://…")
