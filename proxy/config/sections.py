"""What can be set: one frozen struct for each section of ``config.toml``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_type_hints

import msgspec
from msgspec import Meta, Struct

from proxy.errors import ConfigError

DEFAULT_DATASET = "default"

Seconds = Annotated[float, Meta(gt=0, le=86_400)]
SecondsOrOff = Annotated[float, Meta(ge=0, le=86_400)]
Amount = Annotated[float, Meta(ge=0, le=1e9)]
Positive = Annotated[int, Meta(ge=1)]
Count = Annotated[int, Meta(ge=0)]
Fraction = Annotated[float, Meta(ge=0, le=1)]
Port = Annotated[int, Meta(ge=0, le=65_535)]
Text = Annotated[str, Meta(min_length=1)]
_PATH = "a path"
AnyPath = Annotated[str, _PATH]
"""Of a file or folder; in a file relative to it. Empty: none."""
TextPath = Annotated[Text, _PATH]


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
    load: tuple[TextPath, ...] = ()
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
    directory: AnyPath = "var/index"
    refresh_s: Annotated[float, Meta(ge=0, le=31_536_000)] = 0.0
    poll_s: SecondsOrOff = 60.0
    duty: Annotated[float, Meta(gt=0, le=1)] = 0.25
    ttql_depth: Annotated[int, Meta(ge=1, le=8)] = 3
    ttql_sample: Positive = 100
    ttql_queries: Positive = 5000


class ValidationSettings(Struct, frozen=True, kw_only=True):
    """What happens to a query that is proved empty. *policy*: of the queries that clients send. *nl_policy*: of the query that
    answers a question."""

    policy: Literal["reject", "empty", "annotate", "off"] = "reject"
    nl_policy: Literal["reject", "empty", "annotate", "off"] = "reject"
    allow_prefer: bool = True
    confirm_timeout_s: Seconds = 5.0


class NlSettings(Struct, frozen=True, kw_only=True):
    """Questions in plain language. *encoder*: folder with model.onnx and tokenizer.json; *ranker*, *gate*: folders that
    ``sparlance train`` wrote; empty: the packaged ones. *scorer*: folder that ``sparlance model import`` wrote;
    empty: none. *prefix_cache*: folder of what it has read for all questions alike; empty: none. *memory*: folder of what
    people confirmed; empty: nothing is kept. *answer*: what stands for an entity (nl/policy.py)."""

    enabled: bool = True
    encoder: AnyPath = ""
    ranker: AnyPath = ""
    gate: AnyPath = ""
    scorer: AnyPath = ""
    scorer_weight: Amount = 0.25
    prefix_cache: AnyPath = "var/prefixes"
    prefix_cache_bytes: Positive = 1_000_000_000
    answer: Literal["label", "entity", "as-written"] = "label"
    max_candidates: Positive = 400
    execute: Positive = 4
    correct_above: Fraction = 0.5
    corrections: Count = 0
    execution_feedback: bool = True
    abstain_below: Fraction = 0.2
    lacking_above: Fraction = 0.6
    memory: AnyPath = "var/memory"
    row_limit: Positive = 10_000
    timeout_s: Seconds = 20.0
    threads: Count = 0


class WriterSettings(Struct, frozen=True, kw_only=True):
    """A language model that writes queries. *url*: of a server that speaks OpenAI's protocol, up to ``/v1``; empty: none.
    *folder*: in its place, a model that ``sparlance model import`` wrote.

    key: its bearer token; by environment only.
    """

    url: str = ""
    model: str = ""
    folder: AnyPath = ""
    drafts: Annotated[int, Meta(ge=1, le=8)] = 3
    repairs: Annotated[int, Meta(ge=0, le=8)] = 2
    temperature: Annotated[float, Meta(ge=0, le=2)] = 0.7
    seed: Count = 0
    prompt_tokens: Positive = 6000
    max_tokens: Annotated[int, Meta(ge=16, le=4096)] = 512
    examples: Annotated[int, Meta(ge=0, le=20)] = 3
    timeout_s: Seconds = 8.0
    key: Secret = Secret()


class PluginSettings(Struct, frozen=True, kw_only=True):
    """Which files of *directory*, or installed plugins, run, in this order. *budget_s*: for one call of one hook.

    options: the tables ``[plugins.NAME]``, by name.
    """

    directory: TextPath = "plugins"
    enabled: tuple[Text, ...] = ()
    budget_s: Seconds = 1.0
    options: Mapping[str, Mapping[str, Any]] = msgspec.field(default_factory=dict)


class AccessSettings(Struct, frozen=True, kw_only=True):
    """Who may do what. *keys_file*: written by ``sparlance key``; *keys*: more of them, by environment only.

    anonymous: roles of a request without a key.
    """

    keys_file: AnyPath = ""
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
    writer: WriterSettings = WriterSettings()
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
    "writer": WriterSettings,
    "access": AccessSettings,
    "plugins": PluginSettings,
    "log": LogSettings,
    "tracing": TracingSettings,
}
OF_A_DATASET = ("backend", "policy", "load", "cache", "index", "validation", "nl", "writer")
"""Sections that a dataset may have of its own; in the others there is nothing that could differ."""
SECRETS = frozenset({"backend.authorization", "access.keys", "writer.key"})
NOT_KEYS = frozenset({"plugins.options"})  # gathered from the tables, never written


def keys(section: str) -> dict[str, Any]:
    """Every key of *section* → its annotated type, in order."""
    hints = get_type_hints(SECTIONS[section], include_extras=True)
    names = SECTIONS[section].__struct_fields__
    return {name: hints[name] for name in names if f"{section}.{name}" not in NOT_KEYS}


def paths() -> frozenset[str]:
    """The dotted keys whose values are paths, or lists of paths."""
    of = {f"{section}.{name}": type_ for section in SECTIONS for name, type_ in keys(section).items()}
    return frozenset(key for key, type_ in of.items() if _is_path(type_) or any(map(_is_path, get_args(type_))))


def _is_path(type_: Any) -> bool:
    return _PATH in getattr(type_, "__metadata__", ())
