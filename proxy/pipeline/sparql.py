"""The order of steps of one SPARQL operation: parse, hooks, policy, validation with its live confirmation, backend, hooks.

Two rules outrank the rest. What cannot be parsed is forwarded where the policy can still be guaranteed: the backend is the
judge of its dialect. What is proved empty is only acted on when the live graph agrees: a stale index costs a proof, never an
answer. A failure of our own analysis makes a query one that cannot be parsed, or that was not checked; never an error.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlencode

from proxy.backends.base import BackendRequest, BackendResponse, Headers
from proxy.errors import (
    BackendError,
    MalformedQuery,
    MalformedRequest,
    OperationForbidden,
    PluginError,
    ProxyError,
    QueryRejected,
    RequestError,
)
from proxy.pipeline.dataset import Dataset
from proxy.pipeline.exchange import Exchange
from proxy.pipeline.filtered import BodyFilters, FilteredResponse, HurriedResponse, out_of_time
from proxy.pipeline.gateway import in_doubt
from proxy.pipeline.stack import stack_guard
from proxy.pipeline.unforeseen import unreadable
from proxy.pipeline.variables import solution_variables
from proxy.query.effort import TooMuchEffort, limited
from proxy.query.keywords import holds_keyword
from proxy.query.model import ParsedOperation, ParsedQuery, ParsedUpdate, QueryForm
from proxy.query.operation import DatasetDescription, OperationKind, SparqlOperation
from proxy.query.parse import parse
from proxy.query.policy import holds_service_keyword, holds_update_keywords, require_allowed, require_local_graphs
from proxy.query.touched import touched_properties
from proxy.validation.finding import Finding, Severity, not_checked, worst_first

if TYPE_CHECKING:
    from proxy.index.support import SupportIndex

CACHED_TEXTS = 2048
CACHED_TEXT_LIMIT = 16 * 1024
"""Characters; a longer text is parsed anew each time, so that the cache is bounded in bytes too."""
LONG_TEXT = 2 * 1024
"""Characters; a longer text is parsed in a worker thread: hostile ones of this length take up to 5 ms."""
EFFORT_HERE = 1_000
"""Units (query/effort.py); a check that takes more is made in a worker thread."""
SUMMARISED_MOST = 10
"""Findings in the field ``Sparlance-Validation``."""
UNCHECKED_INTERNAL = b"unchecked;reason=internal"
_FAILED = "an unforeseen failure of Sparlance; its log tells where"
_PRESENTATION = frozenset(["format", "output", "results", "action", "send", "timeout", "callback", "queryLn"])
"""Parameters about how an answer is given, not about which solutions there are."""
_READ_METHODS = frozenset(["GET", "HEAD"])


class Handling(StrEnum):
    """What happens to a query that is proved empty (``[validation] policy``, and ``nl_policy`` for that of a question)."""

    REJECT = "reject"
    EMPTY = "empty"
    ANNOTATE = "annotate"
    OFF = "off"


class Hooks(Protocol):
    """The plugins, in order (``proxy/plugin/hooks.py``)."""

    @property
    def active(self) -> frozenset[str]:
        """The hooks that anybody listens to; the others need not be called."""

    async def request(self, exchange: Exchange) -> None: ...

    async def question(self, exchange: Exchange) -> None: ...

    async def candidate(self, exchange: Exchange, parsed: ParsedQuery, text: str) -> bool: ...

    async def query(self, exchange: Exchange) -> None: ...

    async def verdict(self, exchange: Exchange) -> None: ...

    async def refused(self, exchange: Exchange, error: RequestError | PluginError) -> None: ...

    async def backend_request(self, exchange: Exchange, request: BackendRequest) -> BackendRequest: ...

    async def response(self, exchange: Exchange) -> None: ...

    async def body(self, exchange: Exchange) -> BodyFilters | None: ...


@dataclass(frozen=True, slots=True)
class EmptyAnswer:
    """A query that is proved and confirmed to have no solutions, to be answered without the backend.

    form: SELECT, CONSTRUCT or DESCRIBE. variables: of a SELECT, in order.
    """

    form: QueryForm
    variables: tuple[str, ...]


class SparqlPath:
    """The steps, for one dataset. Safe to use from many tasks of one event loop."""

    def __init__(self, dataset: Dataset, hooks: Hooks) -> None:
        self.dataset = dataset
        self.hooks = hooks
        self._policy = dataset.settings.policy
        self._validation = dataset.settings.validation
        self._guard = stack_guard(dataset.settings.backend)
        self._parsed: OrderedDict[str, ParsedOperation | MalformedQuery] = OrderedDict()
        self._allowed: OrderedDict[tuple[str, OperationKind], ParsedOperation] = OrderedDict()
        self._checked: OrderedDict[tuple[str, DatasetDescription, str | None], tuple[Finding, ...]] = OrderedDict()
        self._checked_index: SupportIndex | None = None
        self._passed: dict[str, tuple[SparqlOperation, ParsedQuery]] = {}
        self._passed_index: SupportIndex | None = None

    async def run(
        self, exchange: Exchange, request: BackendRequest, *, prefer: Handling | None = None
    ) -> BackendResponse | EmptyAnswer:
        """Take ``exchange.operation`` through all steps; *request* is what the backend gets if nothing changes the operation.

        Args:
            prefer: what holds in place of the configured policy: a client's wish, already allowed, or a question's policy.
        Raises:
            OperationForbidden, MalformedRequest, MalformedQuery: the operation may not pass.
            QueryRejected: it is proved empty, or a plugin refuses it.
            BackendError: there is no response to pass back.
        """
        if not self.hooks.active:
            return await self._run(exchange, request, prefer)
        exchange.dataset, exchange.method, exchange.path = self.dataset.name, request.method, _path_of(request)
        try:
            return await self._run(exchange, request, prefer)
        except (RequestError, PluginError) as error:
            await self._refused(exchange, error)
            raise

    async def _run(
        self, exchange: Exchange, request: BackendRequest, prefer: Handling | None
    ) -> BackendResponse | EmptyAnswer:
        hooks, active = self.hooks, self.hooks.active
        if "request" in active:
            await hooks.request(exchange)
        operation = exchange.operation
        assert operation is not None
        if operation.kind is OperationKind.GRAPH_STORE:
            self._require_store_allowed(request.method)
        elif operation.kind is OperationKind.TRANSACTION:
            self._require_transactions_allowed()
        else:
            operation = await self._understand(exchange, operation)
            answer = await self._validate(exchange, operation, request.headers, prefer)
            if answer is not None:
                exchange.verdict = "empty"
                if "verdict" in active:
                    await hooks.verdict(exchange)
                return answer
            if exchange.is_rewritten:
                request = rewritten(request, operation, path=self._path(operation.kind))
                exchange.added_headers.append((b"sparlance-query", quote(operation.text, safe="").encode("ascii")))
        exchange.verdict = exchange.verdict or "pass"
        if "verdict" in active:
            await hooks.verdict(exchange)
        return await self._send(exchange, request)

    @property
    def may_pass_now(self) -> bool:
        """Whether ``pass_now`` has a chance: nobody listens who would have to be awaited."""
        return not self.hooks.active

    def pass_now(
        self, exchange: Exchange, request: BackendRequest, *, prefer: Handling | None = None
    ) -> BackendRequest | None:
        """Take a query through the steps of ``run`` up to the backend, at once.

        Returns:
            What to send, by ``Gateway.start``. None: something has to be waited for, and ``run`` begins anew.
        Raises:
            As ``run``.
        """
        operation = exchange.operation
        assert operation is not None
        if (parsed := self._passed_before(operation, request.headers)) is not None:
            exchange.parsed, exchange.verdict = parsed, exchange.verdict or "pass"
            exchange.timings_ms["parse"] = 0.0
            if self._passed_index is not None:
                exchange.timings_ms["validate"] = 0.0
            return request
        if len(operation.text) > LONG_TEXT and operation.text not in self._parsed:
            return None
        self._parse_into(exchange, operation)
        if exchange.parsed is not None:
            self._require_allowed(exchange, operation)
            handling = prefer or Handling(self._validation.policy)
            index = self._index_for(exchange, request.headers, handling)
            is_judged = index is not None or self.dataset.index is None
            if index is not None:
                assert isinstance(exchange.parsed, ParsedQuery)
                started = time.perf_counter()
                found = self._check_here(operation, exchange.parsed, index)
                if found is None:
                    return None
                exchange.findings = found
                exchange.timings_ms["validate"] = (time.perf_counter() - started) * 1000
                try:
                    proof = self._proof(exchange, operation, index, handling)
                except Exception:  # ``run`` comes to it again, and passes the query on
                    return None
                if proof is not None:
                    return None  # the live graph must agree
            if is_judged and not exchange.findings and not exchange.added_headers:
                self._remember_passed(operation, exchange.parsed)
        exchange.verdict = exchange.verdict or "pass"
        return request

    def _passed_before(self, operation: SparqlOperation, headers: Headers) -> ParsedQuery | None:
        """The tree of a query that has passed every step with nothing to say of it: one look in place of four."""
        index = self.dataset.index
        if index is not self._passed_index:
            self._passed.clear()
            self._passed_index = index
        if (known := self._passed.get(operation.text)) is None:
            return None
        same, parsed = known
        if same is not operation and (same.parameters != operation.parameters or same.dataset != operation.dataset):
            return None
        return parsed if index is None or self.dataset.backend.sees_what_we_see(headers) else None

    def _remember_passed(self, operation: SparqlOperation, parsed: ParsedOperation) -> None:
        if self.dataset.backend.fetches_graphs or not isinstance(parsed, ParsedQuery):
            return
        if len(operation.text) <= CACHED_TEXT_LIMIT and self.dataset.index is self._passed_index:
            if len(self._passed) >= CACHED_TEXTS:
                self._passed.clear()
            self._passed[operation.text] = operation, parsed

    async def _refused(self, exchange: Exchange, error: RequestError | PluginError) -> None:
        if "verdict" in self.hooks.active:
            exchange.verdict = "reject" if isinstance(error, QueryRejected) else "refuse"
            await self.hooks.refused(exchange, error)

    @property
    def allows_prefer(self) -> bool:
        """Whether clients may choose the handling of a query that is proved empty."""
        return self._validation.allow_prefer

    async def check(self, operation: SparqlOperation) -> tuple[Finding, ...] | None:
        """Say what the index finds in a query, running nothing; None without an index.

        Raises:
            MalformedQuery: it is not SPARQL. MalformedRequest: it is an update.
        """
        text = operation.text
        try:
            await self._parse_elsewhere(text)
            parsed = await asyncio.to_thread(self._parse, text) if len(text) > CACHED_TEXT_LIMIT else self._parse(text)
        except MalformedQuery as error:
            if error.reason == "syntax":
                raise
            return (not_checked(error.reason, error.message, line=error.line, column=error.column),)
        if isinstance(parsed, ParsedUpdate) and not parsed.operations:
            raise MalformedRequest("there is no query in the text")
        if not isinstance(parsed, ParsedQuery):
            raise MalformedRequest("an update has nothing to check: only queries can be proved empty")
        index = self.dataset.index
        return None if index is None else await self._check(operation, parsed, index)

    async def judge(self, exchange: Exchange, operation: SparqlOperation) -> SparqlOperation:
        """Hold the text within a transaction to the policy; return it as the plugins leave it. Nothing is proved about it:
        it reads what only its transaction sees.

        Raises:
            As ``run``.
        """
        self._require_transactions_allowed()
        exchange.operation = operation
        exchange.dataset = self.dataset.name
        try:
            if "request" in self.hooks.active:
                await self.hooks.request(exchange)
            return await self._understand(exchange, exchange.operation)
        except (RequestError, PluginError) as error:
            await self._refused(exchange, error)
            raise

    async def describe(self, exchange: Exchange, request: BackendRequest) -> BackendResponse:
        """Pass on a GET that names no operation: the service description, or what only the backend knows."""
        exchange.method, exchange.path = request.method, _path_of(request)
        await self.admit(exchange)
        exchange.verdict = "pass"
        return await self._send(exchange, request)

    async def admit(self, exchange: Exchange) -> None:
        """Let the plugins refuse what names no operation (hook ``request``).

        Raises:
            RequestError, PluginError: one does.
        """
        exchange.dataset = self.dataset.name
        if "request" in self.hooks.active:
            try:
                await self.hooks.request(exchange)
            except (RequestError, PluginError) as error:
                await self._refused(exchange, error)
                raise

    # -- parse and policy

    async def _understand(self, exchange: Exchange, operation: SparqlOperation) -> SparqlOperation:
        if operation.kind is OperationKind.UPDATE and not self._policy.allow_updates:
            raise OperationForbidden("updates are not allowed here (policy.allow_updates, --allow-updates)")
        await self._parse_elsewhere(operation.text)
        if len(operation.text) <= CACHED_TEXT_LIMIT:
            self._parse_into(exchange, operation)
        else:
            await asyncio.to_thread(self._parse_into, exchange, operation)
        if "query" in self.hooks.active:
            await self.hooks.query(exchange)
            operation = exchange.operation or operation
        if exchange.parsed is not None:
            self._require_allowed(exchange, operation)
        return operation

    def _parse_into(self, exchange: Exchange, operation: SparqlOperation) -> None:
        """Set ``exchange.parsed``; where the text cannot be parsed, let it pass or not as the policy says."""
        started = time.perf_counter()
        try:
            exchange.parsed = self._recall(operation.text) or self._parse(operation.text)
        except MalformedQuery as error:
            self._require_harmless(operation, error)
            self._pass_unparsed(exchange, operation, error)
        exchange.timings_ms["parse"] = (time.perf_counter() - started) * 1000

    def _pass_unparsed(self, exchange: Exchange, operation: SparqlOperation, error: MalformedQuery) -> None:
        exchange.verdict = "unparsed"
        if self.dataset.index is not None and operation.kind is OperationKind.QUERY:
            reason = error.reason.encode("ascii")
            exchange.added_headers.append((b"sparlance-validation", b"unchecked;reason=" + reason))

    def _require_allowed(self, exchange: Exchange, operation: SparqlOperation) -> None:
        """Hold ``exchange.parsed`` to the policy; where a bug of ours prevents it, its text, as if it could not be parsed."""
        parsed = exchange.parsed
        assert parsed is not None
        try:
            self._require_parsed_allowed(parsed, operation)
        except RequestError:
            raise
        except Exception as error:  # unknown is not allowed: the rules for text that nobody can read are the stricter ones
            self.dataset.failures.note(operation.text, "policy", error)
            exchange.parsed, unread = None, unreadable()
            self._require_harmless(operation, unread)
            self._pass_unparsed(exchange, operation, unread)

    def _require_parsed_allowed(self, parsed: ParsedOperation, operation: SparqlOperation) -> None:
        key = operation.text, operation.kind
        if self._allowed.get(key) is parsed:
            return  # this very tree was judged before
        require_allowed(
            parsed,
            expected=operation.kind,
            allow_updates=self._policy.allow_updates,
            allowed_services=self._policy.allowed_services,
        )
        if self.dataset.backend.fetches_graphs:
            require_local_graphs(parsed, operation.dataset, allowed_services=self._policy.allowed_services)
            return  # the graphs of the protocol are not in the key
        if len(operation.text) <= CACHED_TEXT_LIMIT:
            _remember(self._allowed, key, parsed)

    def _recall(self, text: str) -> ParsedOperation | None:
        known = self._parsed.get(text)
        if known is None or isinstance(known, MalformedQuery):
            return None
        self._parsed.move_to_end(text)
        return known

    async def _parse_elsewhere(self, text: str) -> None:
        """Parse a long text that will be remembered in a worker thread; the caches belong to the event loop."""
        if LONG_TEXT < len(text) <= CACHED_TEXT_LIMIT and text not in self._parsed:
            _remember(self._parsed, text, await asyncio.to_thread(self._attempt, text))

    def _attempt(self, text: str) -> ParsedOperation | MalformedQuery:
        try:
            return self._parse_now(text)
        except MalformedQuery as error:
            return error.with_traceback(None)

    def _parse(self, text: str) -> ParsedOperation:
        if len(text) > CACHED_TEXT_LIMIT:
            return self._parse_now(text)
        known = self._parsed.get(text)
        if known is None:
            known = self._attempt(text)
            _remember(self._parsed, text, known)
        else:
            self._parsed.move_to_end(text)
        if isinstance(known, MalformedQuery):
            raise MalformedQuery(known.message, line=known.line, column=known.column, reason=known.reason)
        return known

    def _parse_now(self, text: str) -> ParsedOperation:
        if self._guard is not None:
            self._guard(text)
        try:
            return parse(text, prefixes=self.dataset.backend.prefixes)
        except MalformedQuery:
            raise
        except Exception as error:  # a bug of ours must not cost an answer; see unforeseen.py
            self.dataset.failures.note(text, "parse", error)
        raise unreadable()  # out here, so that what is remembered holds no frames

    def _require_harmless(self, operation: SparqlOperation, error: MalformedQuery) -> None:
        """Let an unparsable text pass only if no rule of the policy could apply to it."""
        if self._policy.unparsable == "refuse":
            raise error
        if operation.kind is OperationKind.QUERY and holds_update_keywords(operation.text):
            raise OperationForbidden(
                f"the text cannot be parsed and may be an update, so it is not forwarded: {error}"
            ) from error
        is_update = operation.kind is OperationKind.UPDATE
        if holds_service_keyword(operation.text) or (is_update and holds_keyword(operation.text, "LOAD")):
            raise OperationForbidden(
                f"the text cannot be parsed and may call a SERVICE or LOAD, so it is not forwarded: {error}"
            ) from error
        if self.dataset.backend.fetches_graphs and (operation.dataset or holds_keyword(operation.text, "FROM", "USING")):
            raise OperationForbidden(
                f"the text cannot be parsed and may have the backend fetch a graph, so it is not forwarded: {error}"
            ) from error

    def _require_store_allowed(self, method: str) -> None:
        if method not in _READ_METHODS and not self._policy.allow_updates:
            raise OperationForbidden(
                f"{method} changes the graph store, which is not allowed here (policy.allow_updates, --allow-updates)"
            )

    def _require_transactions_allowed(self) -> None:
        if not self._policy.allow_updates:
            raise OperationForbidden("transactions are for updates, which are not allowed here (policy.allow_updates)")

    # -- validation

    async def _validate(
        self, exchange: Exchange, operation: SparqlOperation, headers: Headers, prefer: Handling | None
    ) -> EmptyAnswer | None:
        handling = prefer or Handling(self._validation.policy)
        index = self._index_for(exchange, headers, handling)
        if index is None:
            return None
        try:
            return await self._act_on_proof(exchange, operation, index, handling)
        except ProxyError:
            raise
        except Exception as error:  # as above
            self.dataset.failures.note(operation.text, "check", error)
            exchange.findings = ()
            exchange.added_headers.append((b"sparlance-validation", UNCHECKED_INTERNAL))
            return None

    async def _act_on_proof(
        self, exchange: Exchange, operation: SparqlOperation, index: SupportIndex, handling: Handling
    ) -> EmptyAnswer | None:
        parsed = exchange.parsed
        assert isinstance(parsed, ParsedQuery)
        started = time.perf_counter()
        exchange.findings = findings = await self._check(operation, parsed, index)
        exchange.timings_ms["validate"] = (time.perf_counter() - started) * 1000
        proof = self._proof(exchange, operation, index, handling)
        if proof is None:
            return None
        if not await self._is_confirmed(exchange, proof, operation):
            # The index was contradicted, or nobody could tell: what it says about this query is worth nothing.
            exchange.findings = ()
            return None
        if handling is Handling.REJECT:
            self.dataset.counters.rejected += 1
            exchange.verdict = "reject"
            message = f"the query can have no solutions: {proof.message}"
            raise QueryRejected(message, findings=findings, epoch=index.epoch)
        answer = EmptyAnswer(parsed.form, solution_variables(parsed))
        exchange.added_headers.append((b"sparlance-validation", summarise(findings)))
        exchange.added_headers.append((b"sparlance-epoch", b"%d" % index.epoch))
        return answer

    def _index_for(self, exchange: Exchange, headers: Headers, handling: Handling) -> SupportIndex | None:
        """The index that may judge ``exchange.parsed``; None: there is none, or none that may."""
        index = self.dataset.index
        if index is None or handling is Handling.OFF or not isinstance(exchange.parsed, ParsedQuery):
            return None
        if exchange.is_unchecked:
            exchange.added_headers.append((b"sparlance-validation", b"unchecked;reason=plugin"))
            return None
        if not len(index.count):
            return None  # an empty graph refutes everything, which tells nobody anything: a new database has to start somewhere
        if not self.dataset.backend.sees_what_we_see(headers):
            # The index and the live ASK know what *we* are shown: neither a proof about others' data, nor theirs to be told.
            exchange.added_headers.append((b"sparlance-validation", b"unchecked;reason=credential"))
            return None
        return index

    def _proof(
        self, exchange: Exchange, operation: SparqlOperation, index: SupportIndex, handling: Handling
    ) -> Finding | None:
        """The finding that would refuse the query, to be confirmed; None: there is none, and the others are told in a field."""
        findings, parsed = exchange.findings, exchange.parsed
        if (unlike := _unlike(operation, index)) is not None:
            exchange.added_headers.append((b"sparlance-validation", f"unchecked;parameter={unlike}".encode("ascii")))
        if not findings:
            return None
        assert isinstance(parsed, ParsedQuery)
        if findings[0].rule == "internal":
            exchange.added_headers.append((b"sparlance-validation", UNCHECKED_INTERNAL))
            return None
        proofs = [f for f in findings if f.severity is Severity.PROVED_EMPTY and f.confirmation is not None]
        if not proofs or handling is Handling.ANNOTATE or not may_be_refused(parsed):
            exchange.added_headers.append((b"sparlance-validation", summarise(findings)))
            return None
        return proofs[0]

    async def _check(self, operation: SparqlOperation, parsed: ParsedQuery, index: SupportIndex) -> tuple[Finding, ...]:
        known = self._check_here(operation, parsed, index)
        if known is None:
            known = await asyncio.to_thread(self._find, operation, parsed, index)
            if len(operation.text) <= CACHED_TEXT_LIMIT and self._checked_index is index:
                _remember(self._checked, _key_of(operation, index), known)
        return known

    def _check_here(
        self, operation: SparqlOperation, parsed: ParsedQuery, index: SupportIndex
    ) -> tuple[Finding, ...] | None:
        """What is remembered, or found with the effort that the event loop has; None: it takes more."""
        if self._checked_index is not index:
            self._checked.clear()
            self._checked_index = index
        key = _key_of(operation, index)
        known = self._checked.get(key)
        if known is None:
            if len(operation.text) > LONG_TEXT:
                return None
            try:
                with limited(EFFORT_HERE):
                    known = self._find(operation, parsed, index)
            except TooMuchEffort:
                return None
            _remember(self._checked, key, known)
        else:
            self._checked.move_to_end(key)
        return known

    def _find(self, operation: SparqlOperation, parsed: ParsedQuery, index: SupportIndex) -> tuple[Finding, ...]:
        from proxy.validation.check import check  # late: a proxy without an index needs no arrays

        try:
            return check(
                parsed,
                index,
                values=self.dataset.values,
                dataset=operation.dataset,
                parameters=operation.parameters,
                fetches_graphs=self.dataset.backend.fetches_graphs,
            )
        except TooMuchEffort:
            raise
        except Exception as error:  # as above
            self.dataset.failures.note(operation.text, "check", error)
            return (not_checked("internal", _FAILED),)

    async def _is_confirmed(self, exchange: Exchange, proof: Finding, operation: SparqlOperation) -> bool:
        """Ask the live graph whether the contradicted part is empty there too, under the client's own graph parameters."""
        assert proof.confirmation is not None
        counters = self.dataset.counters
        started = time.perf_counter()
        try:
            has_solutions = await self.dataset.checking.ask(
                proof.confirmation,
                timeout_s=self._validation.confirm_timeout_s,
                parameters=scope_parameters(operation),
            )
        except BackendError:
            counters.unconfirmed += 1
            return False
        finally:
            exchange.timings_ms["confirm"] = (time.perf_counter() - started) * 1000
        if has_solutions:
            counters.contradicted += 1
            self.dataset.mark_stale()
            await self.dataset.gateway.renew()
            return False
        counters.confirmed += 1
        return True

    # -- backend

    def _path(self, kind: OperationKind) -> str:
        return self.dataset.backend.update_path if kind is OperationKind.UPDATE else self.dataset.backend.query_path

    async def _send(self, exchange: Exchange, request: BackendRequest) -> BackendResponse:
        operation, active = exchange.operation, self.hooks.active
        request = replace(request, operation=operation) if request.operation is not operation else request
        if "body" in active:  # a filter reads no content codings
            headers = [field for field in request.headers if field[0] not in (b"accept-encoding", b"range")]
            request = replace(request, headers=headers)
        if "backend_request" in active:
            request = await self.hooks.backend_request(exchange, request)
        is_write = operation is not None and changes_data(request, operation)
        if exchange.timeout_s:
            response = await self._hurried(exchange, request, is_write)
        else:
            response = await self.dataset.gateway.send(exchange, request, is_write=is_write)
        try:
            exchange.status = response.status
            exchange.response_headers = tuple(response.headers)
            if is_write and response.status < 400:
                parsed = exchange.parsed
                self.dataset.mark_stale(touched_properties(parsed) if isinstance(parsed, ParsedUpdate) else None)
            if "response" in active:
                await self.hooks.response(exchange)
            if "body" in active and request.method != "HEAD" and (filters := await self.hooks.body(exchange)) is not None:
                return FilteredResponse(response, filters)
        except BaseException:
            await response.aclose()
            raise
        return response

    async def _hurried(self, exchange: Exchange, request: BackendRequest, is_write: bool) -> BackendResponse:
        """Send *request*, and stop it where it takes longer than a plugin leaves it."""
        limit_s, name = exchange.timeout_s, self.dataset.backend.name
        deadline = time.perf_counter() + limit_s
        timeout = asyncio.timeout(limit_s)
        try:
            async with timeout:
                response = await self.dataset.gateway.send(exchange, request, is_write=is_write)
        except TimeoutError as exc:
            error = out_of_time(name, limit_s)
            raise (in_doubt(error) if is_write else error) from exc
        return HurriedResponse(response, deadline=deadline, limit_s=limit_s, backend=name)


def _path_of(request: BackendRequest) -> str:
    return request.target.partition(b"?")[0].decode("latin-1")


def may_be_refused(query: ParsedQuery) -> bool:
    """Whether an empty pattern makes the answer worthless: not for ASK (false is an answer), nor where a count of 0 is one."""
    return query.form is not QueryForm.ASK and not query.is_aggregate_without_group_by


def changes_data(request: BackendRequest, operation: SparqlOperation) -> bool:
    """Whether the data may be others once *request* has succeeded. Of a transaction only the commit changes them."""
    match operation.kind:
        case OperationKind.QUERY:
            return False
        case OperationKind.UPDATE:
            return True
        case OperationKind.GRAPH_STORE:
            return request.method not in _READ_METHODS
        case OperationKind.TRANSACTION:
            return ("action", "COMMIT") in operation.parameters


def scope_parameters(operation: SparqlOperation) -> tuple[tuple[str, str], ...]:
    """The parameters that decide which solutions a query has: its graphs, and whatever is not about presentation."""
    graphs = [("default-graph-uri", g) for g in operation.dataset.default_graphs]
    graphs += [("named-graph-uri", g) for g in operation.dataset.named_graphs]
    return (*graphs, *(p for p in operation.parameters if p[0] not in _PRESENTATION))


def rewritten(request: BackendRequest, operation: SparqlOperation, *, path: str) -> BackendRequest:
    """Send *operation* as POST direct, with all its other parameters in the query string."""
    is_update = operation.kind is OperationKind.UPDATE
    names = ("using-graph-uri", "using-named-graph-uri") if is_update else ("default-graph-uri", "named-graph-uri")
    parameters = [(names[0], g) for g in operation.dataset.default_graphs]
    parameters += [(names[1], g) for g in operation.dataset.named_graphs]
    parameters += operation.parameters
    target = path + ("?" + urlencode(parameters, quote_via=quote) if parameters else "")
    dropped = (b"content-type", b"content-length", b"content-encoding")
    headers = [field for field in request.headers if field[0] not in dropped]
    headers.append((b"content-type", b"application/sparql-update" if is_update else b"application/sparql-query"))
    return BackendRequest("POST", target.encode("ascii"), headers, operation.text.encode("utf-8"), operation)


def summarise(findings: Sequence[Finding]) -> bytes:
    """Findings as a structured field: a list of tokens with parameters (RFC 9651).

    Of more than ten the worst, then what was not analysed or listed, then ``more;count=`` of those left out here.
    """
    listed = list(findings)
    if len(listed) > SUMMARISED_MOST:
        about = [f for f in listed if f.severity is Severity.NOT_ANALYSED][:SUMMARISED_MOST]
        rest = [f for f in listed if f.severity is not Severity.NOT_ANALYSED]
        listed = worst_first(rest)[: SUMMARISED_MOST - len(about)] + about
    shown = [f"{f.severity};line={f.line};column={f.column}" + (f";rule={f.rule}" if f.rule else "") for f in listed]
    if left := len(findings) - len(listed):
        shown.append(f"more;count={left}")
    return ", ".join(shown).encode("ascii", "replace")


def _key_of(operation: SparqlOperation, index: SupportIndex) -> tuple[str, DatasetDescription, str | None]:
    return operation.text, operation.dataset, _unlike(operation, index)


def _unlike(operation: SparqlOperation, index: SupportIndex) -> str | None:
    """The parameter that makes the backend show what the index does not hold."""
    if not operation.parameters:
        return None
    from proxy.validation.check import unlike_the_index  # late: as above

    return unlike_the_index(operation.parameters, index)


def _remember(cache: OrderedDict, key: object, value: object) -> None:  # type: ignore[type-arg]
    cache[key] = value
    if len(cache) > CACHED_TEXTS:
        cache.popitem(last=False)
