"""All hooks, in one class: what a plugin can see and change, and when.

A plugin overrides the hooks that it needs, each as ``def`` or as ``async def``; the others do nothing and cost nothing. Hooks
run in the order of ``[plugins] enabled``, ``response``, ``body`` and ``shutdown`` in reverse; the order is fixed at start.

A plugin with ``may_refuse = True`` is a *guard*. From a hook that may refuse it raises ``refusal(…)``, or another
``RequestError``, which the client gets with the plugin's name. Anything else that it raises, and a hook that takes longer
than ``[plugins] budget_s``, refuses the request with 500 and its name: a broken guard lets nothing through. A plugin with
``may_refuse = False`` is a *watcher*. Whatever it raises is logged and counted, what it had changed in the exchange is
undone, and the request goes on; so it is when it is too slow.

The budget ends an ``async def`` hook where it waits. A hook that computes cannot be stopped: it holds up every request
meanwhile, and is logged and counted as slow (``plugin_slow``, ``sparlance_plugin_slow_total``).
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Protocol

from proxy.errors import QueryRejected
from proxy.query.model import NOWHERE, Span
from proxy.validation.finding import Finding, Severity

if TYPE_CHECKING:
    from proxy.backends.base import BackendRequest
    from proxy.index.support import SupportIndex
    from proxy.pipeline.exchange import Exchange
    from proxy.query.model import ParsedQuery

Done = Awaitable[None] | None
"""What a hook without a result returns: ``def`` None, ``async def`` an awaitable of None."""


class BodyFilter(Protocol):
    """Reads one response body piece by piece, and gives what the client shall see of it."""

    def feed(self, chunk: bytes) -> bytes:
        """Take the next piece, of any size and cut anywhere; return what can be sent now, perhaps nothing."""

    def close(self) -> bytes:
        """The body is over: return the rest. Not called where the transfer breaks."""


class Plugin:
    """Base of every plugin; each method is a hook and does nothing by itself."""

    may_refuse: bool = False
    """True for a guard: it may refuse requests, and its failure refuses them too."""

    def startup(self) -> Done:
        """Called once, before the first request; a failure stops the start, whatever ``may_refuse`` says. Has no budget."""

    def shutdown(self) -> Done:
        """Called once, after the last request, for at most 5 s. A failure is logged."""

    def request(self, exchange: Exchange) -> Done:
        """Called when it is read what is asked for and by whom, before anything is parsed: the one hook that nothing passes by.

        ``exchange.operation`` is a query, an update, a step of the graph store or of a transaction (``kind`` tells); None: a
        page that tells of the data (``/-/index``, ``/-/ttql``, ``/-/check``), the service description, or what only the
        backend knows. ``exchange.method`` is the method, ``exchange.dataset`` the name of the dataset, ``exchange.caller``
        that of the API key. The query for a question comes here too, with ``exchange.question``; a query within a transaction
        comes as itself and as a step.

        May refuse. May change the text of a query or update with ``exchange.replace_text``. May call
        ``exchange.leave_unchecked``, ``exchange.limit_time`` and ``exchange.add_header``.
        """

    def question(self, exchange: Exchange) -> Done:
        """Called when a question in plain language was read, before it is translated.

        May refuse. May put another ``Question`` into ``exchange.question``. May call ``exchange.add_header``.
        """

    def candidate(self, exchange: Exchange, parsed: ParsedQuery, text: str) -> Done:
        """Called for each query that may answer a question, before it is tried on the backend to see how good it is.

        A guard that raises a ``RequestError`` drops the candidate; another failure of a guard refuses the question. The query
        that is chosen comes to ``request`` and ``query`` like any other. Candidates are tried with Sparlance's own rights and
        how many solutions each had is told to the client, so a guard on data decides here, or refuses the question.
        """

    def query(self, exchange: Exchange) -> Done:
        """Called when a query or update is understood, before it is checked against the index; also for that of a question.

        ``exchange.operation`` is what was asked, ``exchange.parsed`` its parse tree, or None where the text could not be parsed
        (then a guard decides what that means). Not called for the graph store: see ``request``.

        May refuse. May call ``exchange.replace_query(text)``: then the new text is parsed, shown to later plugins, checked and
        sent, and the response carries ``Sparlance-Query``. May call what ``request`` may.
        """

    def verdict(self, exchange: Exchange) -> Done:
        """Called for each operation when it is decided what becomes of it; once more where it is refused afterwards.

        ``exchange.verdict`` is ``pass``, ``unparsed`` (forwarded as it is), ``empty`` (answered without the backend),
        ``reject`` (proved empty, or refused by a guard) or ``refuse`` (policy, malformed); ``exchange.findings`` says why,
        ``exchange.refusal`` is the error that the client gets. May refuse what would pass; what is refused stays so, and a
        failure is then only logged.
        """

    def backend_request(
        self, exchange: Exchange, request: BackendRequest
    ) -> Awaitable[BackendRequest | None] | BackendRequest | None:
        """Called with what the backend (or the cache) will be asked, last of all.

        May refuse. May return another request (``dataclasses.replace``), with other headers or another query string; None
        leaves it as it is. What *request.operation* says must stay true of it: an embedded backend answers from the
        operation.
        """

    def response(self, exchange: Exchange) -> Done:
        """Called when the backend's response head is there, before any byte goes to the client.

        ``exchange.status`` and ``exchange.response_headers`` may be read; headers may be added with ``exchange.add_header``.
        May not refuse: raising is a failure of the plugin, which for a guard ends the response.
        """

    def body(self, exchange: Exchange) -> BodyFilter | None:
        """Called after ``response``; return a filter to be given the body, or None to let it stream past
        untouched. May refuse: nothing of the response is sent yet.

        Bodies then come without a content coding: Accept-Encoding is not passed on while a plugin overrides this hook. What a
        *guard's* filter returns replaces the body, and fields about the old one (Content-Length, ETag, digests) are dropped;
        its failure breaks the transfer off. A *watcher's* filter only reads. Answers to HEAD and empty answers have no body;
        an error of the backend has, and a result within the account of a question, too. A filter keeps a bounded amount of
        text.
        """

    def index_refreshed(self, dataset: str, index: SupportIndex) -> Done:
        """Called when the index of *dataset* was built or read, and after each rebuild; it is never changed. A failure is
        logged."""


def refusal(message: str, at: Span = NOWHERE) -> QueryRejected:
    """What a guard raises to refuse (400): *message* for the client, and a finding *at* the part of the query that it is
    about."""
    finding = Finding(
        severity=Severity.SUSPICIOUS,  # PROVED_EMPTY is for the validator
        pattern=at.text,
        line=at.line,
        column=at.column,
        message=message,
        evidence="",
        rule="plugin",
    )
    return QueryRejected(message, findings=[finding])
