"""``/-/metrics``: numbers in the Prometheus text format, version 0.0.4 (written by hand: docs/dependencies.md)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate

from proxy.pipeline.breaker import BreakerState
from proxy.pipeline.dataset import BuildState, Dataset
from proxy.pipeline.limits import ClientLimits
from proxy.pipeline.metrics import BOUNDS_S, RISK_BOUNDS, Metrics, QuestionMetrics
from proxy.pipeline.shared_limits import SharedLimits
from proxy.pipeline.unforeseen import STAGES
from proxy.plugin.chain import LoadedPlugin

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Labels = Mapping[str, str]
Sample = tuple[Labels, float]


class _Page:
    """Metrics in the order in which they are added; *common*: labels of every sample."""

    def __init__(self, common: Labels) -> None:
        self._common = common
        self._lines: list[str] = []

    def add(self, name: str, kind: str, help_: str, samples: Iterable[Sample]) -> None:
        written = [self._sample(name, labels, value) for labels, value in samples]
        if written:
            self._lines += [f"# HELP sparlance_{name} {help_}", f"# TYPE sparlance_{name} {kind}", *written]

    def add_histograms(self, name: str, help_: str, metrics: Metrics) -> None:
        self._lines += [f"# HELP sparlance_{name} {help_}", f"# TYPE sparlance_{name} histogram"]
        for stage, histogram in sorted(metrics.stages.items()):
            seen = 0
            for bound, count in zip((*BOUNDS_S, None), histogram.counts, strict=True):
                seen += count
                le = "+Inf" if bound is None else f"{bound:g}"
                self._lines.append(self._sample(f"{name}_bucket", {"stage": stage, "le": le}, seen))
            self._lines.append(self._sample(f"{name}_sum", {"stage": stage}, histogram.total_s))
            self._lines.append(self._sample(f"{name}_count", {"stage": stage}, seen))

    def add_risks(self, name: str, help_: str, asked: Sequence[tuple[Labels, QuestionMetrics]]) -> None:
        if asked:
            self._lines += [f"# HELP sparlance_{name} {help_}", f"# TYPE sparlance_{name} histogram"]
        for labels, questions in asked:
            seen = list(accumulate(questions.risks))
            for bound, number in zip(RISK_BOUNDS, seen, strict=True):
                self._lines.append(self._sample(f"{name}_bucket", {**labels, "le": f"{bound:g}"}, number))
            self._lines.append(self._sample(f"{name}_bucket", {**labels, "le": "+Inf"}, seen[-1]))
            self._lines.append(self._sample(f"{name}_sum", labels, questions.risk_total))
            self._lines.append(self._sample(f"{name}_count", labels, seen[-1]))

    def text(self) -> str:
        return "\n".join([*self._lines, ""])

    def _sample(self, name: str, labels: Labels, value: float) -> str:
        pairs = ",".join(f'{key}="{_escape(text)}"' for key, text in {**self._common, **labels}.items())
        return f"sparlance_{name}{{{pairs}}} {value:.10g}" if pairs else f"sparlance_{name} {value:.10g}"


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def expose(
    metrics: Metrics,
    datasets: Sequence[Dataset],
    *,
    limits: ClientLimits | None,
    plugins: Sequence[LoadedPlugin] = (),
    shared: SharedLimits | None = None,
    worker: int | None,
    version: str,
) -> str:
    """Write all of them.

    Args:
        worker: number of this process where there are several; each counts for itself, so it is a label of every sample.
    """
    page = _Page({} if worker is None else {"worker": str(worker)})
    page.add("info", "gauge", "Always 1; the version is a label.", [({"version": version}, 1)])
    page.add("start_time_seconds", "gauge", "When this process started, since the epoch.", [({}, metrics.started_at)])
    page.add(
        "requests_total",
        "counter",
        "Requests that are over, by form of the operation, verdict and class of status.",
        [
            ({"form": str(form), "verdict": verdict, "status": status}, number)
            for (form, verdict, status), number in sorted(metrics.requests.items())
        ],
    )
    page.add("tasks", "gauge", "Tasks of the event loop, this page's own included.", [({}, len(asyncio.all_tasks()))])
    page.add("response_bytes_total", "counter", "Bytes of response bodies.", [({}, metrics.response_bytes)])
    page.add("broken_transfers_total", "counter", "Responses that began and could not be completed.", [({}, metrics.broken)])
    page.add_histograms("stage_seconds", "Time of one stage of one request; total is all of it, plugins all hooks.", metrics)
    _load(page, datasets)
    _index(page, datasets)
    _questions(page, datasets)
    _models(page, datasets)
    _plugins(page, plugins)
    if limits is not None:
        stats = limits.stats()
        page.add("limited_clients", "gauge", "Clients with an account.", [({}, stats.clients)])
        page.add("limit_admitted_total", "counter", "Requests within the limits.", [({}, stats.admitted)])
        refused = [({"limit": str(limit)}, number) for limit, number in stats.refused.items()]
        page.add("limit_refused_total", "counter", "Requests answered 429, by limit.", refused)
        page.add("limit_forgotten_total", "counter", "Clients in debt dropped from a full table.", [({}, stats.forgotten)])
    if shared is not None:
        page.add("shared_up", "gauge", "0 while the server of [shared] is left alone.", [({}, float(not shared.link.is_out))])
        page.add("shared_failures_total", "counter", "Commands to it that failed.", [({}, shared.link.failures)])
        page.add("shared_exchanges_total", "counter", "Times that limits were told and learned.", [({}, shared.exchanges)])
    return page.text()


def merge(pages: Sequence[str]) -> str:
    """Put the pages of several workers together: each metric once, with the samples of all under it."""
    heads: dict[str, list[str]] = {}
    samples: dict[str, list[str]] = {}
    for page in pages:
        name = ""
        for line in page.splitlines():
            if line.startswith("# HELP "):
                name = line.split(" ", 3)[2]
                heads.setdefault(name, [line])
            elif line.startswith("# TYPE "):
                heads[name] = [heads[name][0], line]
            elif line:
                samples.setdefault(name, []).append(line)
    return "\n".join([line for name, head in heads.items() for line in (*head, *samples.get(name, ()))] + [""])


def _load(page: _Page, datasets: Sequence[Dataset]) -> None:
    queues = [({"dataset": d.name}, d.gateway.queue.stats()) for d in datasets]
    page.add("queue_running", "gauge", "Places at the backend that are taken.", [(n, q.running) for n, q in queues])
    places = [({"dataset": d.name}, d.gateway.queue.concurrency) for d in datasets]
    page.add("queue_places", "gauge", "Places at the backend.", places)
    page.add("queue_waiting", "gauge", "Requests that wait for a place.", [(n, q.waiting) for n, q in queues])
    page.add("queue_orphans", "gauge", "Places kept by queries without a client.", [(n, q.orphans) for n, q in queues])
    page.add("queue_granted_total", "counter", "Places given.", [(n, q.granted) for n, q in queues])
    page.add("queue_waited_seconds_total", "counter", "Time waited for places.", [(n, q.waited_s) for n, q in queues])
    reasons = ("full", "expired", "displaced", "left")
    page.add(
        "queue_refused_total",
        "counter",
        "Requests that got no place, by reason; left: the client did.",
        [({**n, "reason": reason}, getattr(q, reason)) for n, q in queues for reason in reasons],
    )
    breakers = [({"dataset": d.name}, d.gateway.breaker.stats()) for d in datasets]
    page.add(
        "circuit_state",
        "gauge",
        "1 for the state that the circuit breaker has.",
        [({**n, "state": str(state)}, float(b.state is state)) for n, b in breakers for state in BreakerState],
    )
    page.add("circuit_opened_total", "counter", "How often the circuit opened.", [(n, b.opened) for n, b in breakers])
    page.add("circuit_refused_total", "counter", "Requests refused by it.", [(n, b.refused) for n, b in breakers])
    pools = [({"dataset": d.name}, pool) for d in datasets if (pool := getattr(d.backend, "pool", None)) is not None]
    page.add("pool_busy", "gauge", "Connections that carry an exchange.", [(n, p.open_connections) for n, p in pools])
    page.add("pool_idle", "gauge", "Connections kept for the next one.", [(n, p.idle_connections) for n, p in pools])
    page.add("pool_retries_total", "counter", "Reads repeated on a new connection.", [(n, p.retries) for n, p in pools])
    shared = [({"dataset": d.name}, c.stats()) for d in datasets if (c := d.gateway.coalescer) is not None]
    page.add("coalesced_total", "counter", "Reads answered by another one in flight.", [(n, s.joined) for n, s in shared])
    page.add("coalesce_parted_total", "counter", "Reads that joined and then asked.", [(n, s.parted) for n, s in shared])
    page.add("coalesce_held_bytes", "gauge", "Bytes held for sharing.", [(n, s.held_bytes) for n, s in shared])
    caches = [({"dataset": d.name}, d.gateway.cache.counters) for d in datasets if d.gateway.cache is not None]
    outcomes = ("hits", "misses", "passed", "stored", "unfit", "incomplete", "renewals")
    page.add(
        "cache_events_total",
        "counter",
        "What the cache did; incomplete: answers with status 200 that do not close.",
        [({**n, "event": outcome}, getattr(c, outcome)) for n, c in caches for outcome in outcomes],
    )


    stores = [({"dataset": d.name}, d.gateway.cache.store) for d in datasets if d.gateway.cache is not None]
    failures = [(n, getattr(store, "failures", 0)) for n, store in stores]
    page.add("cache_failures_total", "counter", "Commands to the server of the cache that failed.", failures)


def _questions(page: _Page, datasets: Sequence[Dataset]) -> None:
    asked = [({"dataset": d.name}, d.questions) for d in datasets if d.make_engine is not None]
    outcomes = [({**n, "outcome": outcome}, number) for n, q in asked for outcome, number in q.outcomes.items()]
    page.add("questions_total", "counter", "Questions translated, by what came of it.", outcomes)
    page.add_risks("question_risk", "Risk of the first choice, by the gate.", asked)
    page.add("gate_fired_total", "counter", "First choices risky enough to be corrected.", [(n, q.fired) for n, q in asked])
    steps = [({**n, "outcome": outcome}, number) for n, q in asked for outcome, number in q.corrections.items()]
    page.add("corrections_total", "counter", "Requirements tried; accepted: the query was replaced.", steps)


def _models(page: _Page, datasets: Sequence[Dataset]) -> None:
    writers = [(d.name, d.writer) for d in datasets if d.writer is not None]
    states = [({"dataset": n, "outcome": o}, number) for n, w in writers for o, number in sorted(w.outcomes.items())]
    page.add("writer_questions_total", "counter", "Questions to a language model that writes queries.", states)
    tokens = [({"dataset": n, "kind": k}, number) for n, w in writers for k, number in sorted(w.tokens.items())]
    page.add("writer_tokens_total", "counter", "Tokens that writing language models have read and written.", tokens)
    judge = next((d.judge for d in datasets if d.judge is not None), None)  # all datasets have the same
    if judge is None:
        return
    use, queue, counts = {"use": "scorer"}, judge.queue, asdict(judge.scorer.prefixes.counts)
    tally = queue.tally
    page.add("model_tokens_total", "counter", "Tokens that language models have read.", [(use, judge.scorer.model.tokens_read)])
    outcomes = [({**use, "outcome": outcome}, number) for outcome, number in sorted(tally.outcomes.items())]
    page.add("model_questions_total", "counter", "Questions to a language model; late, busy: answered without it.", outcomes)
    page.add("model_seconds_total", "counter", "Time that a language model has worked.", [(use, tally.seconds)])
    page.add("model_batches_total", "counter", "Batches that it has worked on.", [(use, tally.batches)])
    page.add("model_waiting", "gauge", "Questions that it works on or that wait for it.", [(use, queue.waiting)])
    prefixes = [({**use, "outcome": outcome}, number) for outcome, number in counts.items()]
    page.add("model_prefixes_total", "counter", "Prefixes found or read; files damaged or not kept.", prefixes)


def _plugins(page: _Page, plugins: Sequence[LoadedPlugin]) -> None:
    counts = [({"plugin": p.name, "hook": hook}, c) for p in plugins for hook, c in p.counts.items()]
    page.add("plugin_calls_total", "counter", "Calls of a hook.", [(n, c.calls) for n, c in counts])
    page.add("plugin_failures_total", "counter", "Calls that failed.", [(n, c.failures) for n, c in counts])
    page.add("plugin_refusals_total", "counter", "Requests that a guard refused.", [(n, c.refusals) for n, c in counts])
    page.add("plugin_slow_total", "counter", "Calls that took longer than plugins.budget_s.", [(n, c.slow) for n, c in counts])
    page.add("plugin_seconds_total", "counter", "Time spent in a hook.", [(n, c.seconds) for n, c in counts])


def _index(page: _Page, datasets: Sequence[Dataset]) -> None:
    built = [({"dataset": d.name}, d.index) for d in datasets]
    now = time.time()
    indexes = [(n, i) for n, i in built if i is not None]
    states = [({"dataset": d.name, "state": str(s)}, float(d.index_build.state is s)) for d in datasets for s in BuildState]
    page.add("index_state", "gauge", "1 for the state of the building of the index.", states)
    page.add("index_age_seconds", "gauge", "Since the index was built.", [(n, max(now - i.built_at, 0)) for n, i in indexes])
    page.add("index_complete", "gauge", "1 if no part of it is missing.", [(n, float(not i.incomplete)) for n, i in indexes])
    page.add("index_triples", "gauge", "Triples that it describes.", [(n, i.triples) for n, i in indexes])
    stale = [({"dataset": d.name}, float(d.is_stale)) for d in datasets]
    page.add("index_stale", "gauge", "1 if the data are known to have changed.", stale)
    counters = [({"dataset": d.name}, d.counters) for d in datasets]
    page.add(
        "analysis_failures_total",
        "counter",
        "Queries at whose analysis Sparlance failed (event analysis_failed), by stage.",
        [({"dataset": d.name, "stage": stage}, d.failures.counts[stage]) for d in datasets for stage in STAGES],
    )
    outcomes = ("confirmed", "contradicted", "unconfirmed")
    page.add(
        "proofs_total",
        "counter",
        "Proofs of emptiness, by what the live graph said.",
        [({**n, "outcome": outcome}, getattr(c, outcome)) for n, c in counters for outcome in outcomes],
    )
