"""Config → the parts of a dataset and of the server: backend, index, engine, cache, limits, keys; each made in one function."""

from __future__ import annotations

import threading
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import structlog

from proxy import backends
from proxy.access.file import KeyFile
from proxy.access.keys import read_environment, read_roles
from proxy.backends.base import Backend
from proxy.backends.loading import Progress as LoadProgress
from proxy.config import Config
from proxy.errors import ConfigError
from proxy.pipeline.cache import CacheStore, MemoryStore, ResponseCache
from proxy.pipeline.dataset import Dataset, MakeEngine
from proxy.pipeline.gateway import Gateway
from proxy.pipeline.limits import PRESETS, Allowance, Allowances, ClientLimits
from proxy.protocol.access import AccessGate, is_loopback

if TYPE_CHECKING:
    from proxy.config import CacheSettings, LimitSettings
    from proxy.index.support import SupportIndex
    from proxy.index.values import ValueIndex
    from proxy.nl.engine import QuestionEngine
    from proxy.nl.lm.prefixes import PrefixCache
    from proxy.nl.lm.scorer import LmScorer
    from proxy.nl.lm.step import OnnxStepModel
    from proxy.nl.onnx import OnnxEncoder
    from proxy.pipeline.judging import Judge
    from proxy.pipeline.local_model import LocalModel
    from proxy.pipeline.model_queue import ModelQueue
    from proxy.pipeline.redis_link import RedisLink
    from proxy.pipeline.snapshots import Snapshots
    from proxy.pipeline.writing import Writer
    from proxy.tracing import Tracer

Encoders = dict[tuple[str, int], "OnnxEncoder"]
"""Encoders by what they were loaded from; each takes some hundred MB, and datasets share them."""
_loading = threading.Lock()
"""Held while an encoder is looked for and loaded: datasets make their engines at once, in threads of their own."""


SHARED_TIMEOUT_S = 2.0
"""For one command to the server of ``[shared]``: no request waits for it."""


def no_progress(name: str, done: int, total: int) -> None:
    """Nobody is told how far the files are read."""


def make_dataset(
    name: str,
    config: Config,
    encoders: Encoders,
    *,
    backend: Backend | None = None,
    is_configured: bool | None = None,
    load_progress: LoadProgress = no_progress,
) -> Dataset:
    """One backend with its index and engine.

    Args:
        config: of this dataset. encoders: those that are loaded, for all datasets. backend: in place of a new one.
        is_configured: whether *backend* is what the settings describe, so that the file of its index is this one's too.
    Raises:
        ConfigError
    """
    is_own = backend is None if is_configured is None else is_configured
    backend = backend or make_backend(config, load_progress)
    is_indexed, upkeep = config.index.enabled, None
    if is_indexed:
        from proxy.indexing import make_upkeep  # late: a proxy without an index needs no arrays

        upkeep = make_upkeep(config, name, is_configured=is_own, rebuilds_elsewhere=True)
        upkeep.snapshots = make_snapshots(config, upkeep.path, upkeep.fingerprint)
    return Dataset(
        name=name,
        backend=backend,
        settings=config,
        gateway=Gateway(name, backend, config, cache=make_cache(config.cache)),
        distil=None if upkeep is None else upkeep.build,
        upkeep=upkeep,
        make_engine=engine_maker(config, encoders) if is_indexed and config.nl.enabled else None,
        judge=make_judge(config) if is_indexed and config.nl.enabled else None,
        writer=make_writer(config) if is_indexed and config.nl.enabled else None,
    )


def make_backend(config: Config, progress: LoadProgress) -> Backend:
    """The server at ``backend.url``, or an embedded store with the files of ``backend.load``.

    Raises:
        ConfigError
    """
    settings = config.backend
    if not settings.load:
        return backends.connect(settings, allowed_parameters=config.policy.allowed_parameters)
    from proxy.backends.embedded import EmbeddedBackend  # late: a proxy in front of a server needs no store

    return EmbeddedBackend.load(settings.load, progress=progress, timeout_s=settings.timeout_s)


def make_cache(settings: CacheSettings) -> ResponseCache | None:
    """The cache of answers, or None where none is wanted; connects to nothing yet.

    Raises:
        ConfigError: ``cache.url`` cannot be used.
    """
    if not settings.enabled:
        return None
    store: CacheStore
    if settings.url:
        from proxy.pipeline.cache_redis import RedisStore  # late: the package is an extra

        store = RedisStore(settings.url)
    else:
        store = MemoryStore(settings.limit_bytes)
    return ResponseCache(
        store,
        ttl_s=settings.ttl_s,
        entry_limit_bytes=settings.entry_limit_bytes,
        keeps_authenticated=settings.keeps_authenticated,
        trusted_s=settings.trusted_s or None,
        is_json=is_json,
    )


def is_json(document: bytes) -> bool:
    """Whether *document* is one JSON object or array and nothing else; seven times as fast as the standard library."""
    try:
        msgspec.json.decode(document, type=msgspec.Raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return document.lstrip()[:1] in (b"{", b"[")


def make_limits(settings: LimitSettings) -> ClientLimits | None:
    """What each client may use, or None where nobody is limited."""
    preset = PRESETS[settings.preset]

    def allowance(per_minute: float, burst: float, default: Allowance | None) -> Allowance | None:
        rate = per_minute or (default.per_minute if default is not None else 0.0)
        if not rate:
            return None
        return Allowance(rate, burst or (default.burst if default is not None and not per_minute else rate))

    allowances = Allowances(
        requests=allowance(settings.requests_per_minute, settings.requests_burst, preset.requests),
        query_seconds=allowance(settings.query_seconds_per_minute, settings.query_seconds_burst, preset.query_seconds),
        errors=allowance(settings.errors_per_minute, settings.errors_burst, preset.errors),
    )
    return None if allowances == Allowances() else ClientLimits(allowances, max_clients=settings.max_clients)


def make_link(config: Config) -> RedisLink | None:
    """The server of ``[shared]``, or None; connects to nothing yet.

    Raises:
        ConfigError: it cannot be used.
    """
    if not config.shared.url:
        return None
    from proxy.pipeline.redis_link import RedisLink  # late: the package is an extra

    return RedisLink(config.shared.url, setting="shared.url", timeout_s=SHARED_TIMEOUT_S)


def make_tracer(config: Config) -> Tracer | None:
    """Who makes spans, or None where there are none.

    Raises:
        ConfigError: its packages are not installed.
    """
    if not config.tracing.endpoint:
        return None
    from proxy.tracing import Tracer  # late: the packages are an extra

    return Tracer(config.tracing.endpoint)


def make_snapshots(config: Config, path: Path | None, fingerprint: str) -> Snapshots | None:
    """Where the index file at *path* is handed on to other machines; None: it is not.

    Raises:
        ConfigError: ``shared.url`` cannot be used.
    """
    limit_bytes = config.shared.index_limit_bytes
    if path is None or not limit_bytes or not config.backend.url or (link := make_link(config)) is None:
        return None
    from proxy.pipeline.snapshots import Snapshots

    return Snapshots(link, f"{path.name} {fingerprint}", limit_bytes=limit_bytes)


def make_gate(config: Config) -> AccessGate:
    """Who may do what, by the keys in the file and in the environment.

    Raises:
        ConfigError: they cannot be read.
    """
    settings = config.access
    try:
        given = read_environment(settings.keys.value)
    except ValueError as error:
        raise ConfigError("access.keys", str(error)) from error
    path = Path(settings.keys_file) if settings.keys_file else None

    def complain(error: ConfigError) -> None:
        structlog.get_logger().error("keys_unreadable", error=str(error))

    keys = KeyFile(path, given, complain=complain)
    return AccessGate(keys, read_roles(settings.anonymous), is_local=is_loopback(config.server.host))


def make_judge(config: Config) -> Judge | None:
    """The language model of ``nl.scorer``, or None where none is named. Opening it takes about a second.

    Raises:
        ModelError: it cannot be used.
    """
    if not config.nl.scorer:
        return None
    from proxy.pipeline.judging import Judge

    nl = config.nl
    scorer, queue = _scorer(nl.scorer, nl.threads, nl.prefix_cache, nl.prefix_cache_bytes)
    return Judge(scorer, nl.scorer_weight, queue)


def make_writer(config: Config) -> Writer | None:
    """The language model at ``writer.url`` or in ``writer.folder``, or None where none is named; connects to nothing yet.

    Raises:
        ModelError: the one in the folder cannot be used.
    """
    if not config.writer.url and not config.writer.folder:
        return None
    from proxy.backends.chat import ChatServer  # late: httpx takes a while to import
    from proxy.pipeline.writing import Writer

    if config.writer.folder:
        from proxy.pipeline.local_generator import LocalGenerator

        nl = config.nl
        local = _local_writer(config.writer.folder, nl.threads, nl.prefix_cache, nl.prefix_cache_bytes)
        return Writer(LocalGenerator(local), config.writer)
    return Writer(ChatServer(config.writer.url, config.writer.model, key=config.writer.key.value), config.writer)


@lru_cache(maxsize=2)
def _scorer(folder: str, threads: int, prefix_cache: str, prefix_cache_bytes: int) -> tuple[LmScorer, ModelQueue]:
    """One for all datasets, kept over reloads: it takes some hundred MB."""
    from proxy.nl.lm.scorer import LmScorer
    from proxy.pipeline.model_queue import ModelQueue

    model, prefixes = _language_model(folder, threads, prefix_cache, prefix_cache_bytes)
    structlog.get_logger().info("scorer_loaded", form=model.form, device=model.device)
    _tell_of_gpu("scorer", model.notice)
    return LmScorer(model, prefixes), ModelQueue(name="scorer")


@lru_cache(maxsize=2)
def _local_writer(folder: str, threads: int, prefix_cache: str, prefix_cache_bytes: int) -> LocalModel:
    """One for all datasets, kept over reloads."""
    from proxy.pipeline.local_model import WRITTEN_TOGETHER, LocalModel
    from proxy.pipeline.model_queue import ModelQueue

    model, prefixes = _language_model(folder, threads, prefix_cache, prefix_cache_bytes)
    structlog.get_logger().info("writer_loaded", form=model.form, device=model.device)
    _tell_of_gpu("writer", model.notice)
    return LocalModel(model, ModelQueue(name="writer", together_most=WRITTEN_TOGETHER), prefixes)


def _language_model(
    folder: str, threads: int, prefix_cache: str, prefix_cache_bytes: int
) -> tuple[OnnxStepModel, PrefixCache]:
    """The model in *folder*, and the prefixes that it has read."""
    from proxy.nl.lm.prefixes import PrefixCache  # late: onnxruntime is heavy
    from proxy.nl.lm.step import OnnxStepModel

    model = OnnxStepModel(Path(folder), threads=threads)
    kept_in = Path(prefix_cache) if prefix_cache else None
    return model, PrefixCache(model, folder=kept_in, disk_bytes=prefix_cache_bytes)


def _tell_of_gpu(model: str, notice: str) -> None:
    """One line where there is a GPU and *model* does not use it."""
    if notice:
        structlog.get_logger().warning("gpu_unused", model=model, reason=notice)


def engine_maker(config: Config, encoders: Encoders) -> MakeEngine:
    """How a question engine is made; the encoder is loaded once and kept over rebuilds."""

    def make(index: SupportIndex, values: ValueIndex) -> QuestionEngine:
        from proxy.nl.engine import QuestionEngine
        from proxy.nl.gate import read_gates
        from proxy.nl.onnx import OnnxEncoder  # late: onnxruntime and transformers are heavy
        from proxy.nl.ranker import read_ranker

        which = config.nl.encoder, config.nl.threads
        with _loading:
            if which not in encoders:
                folder = Path(config.nl.encoder) if config.nl.encoder else None
                encoders[which] = encoder = OnnxEncoder(folder, threads=config.nl.threads)
                _tell_of_gpu("encoder", encoder.notice)
        ranker = read_ranker(Path(config.nl.ranker), threads=config.nl.threads) if config.nl.ranker else None
        gates = read_gates(Path(config.nl.gate)) if config.nl.gate else None
        return QuestionEngine(index, values, encoders[which], config.nl, ranker, gates)

    return make
