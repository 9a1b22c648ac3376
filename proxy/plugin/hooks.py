"""All hooks, in one class: what a plugin can see and change, and when.

A plugin is a file in ``plugins/`` with ``load(options) -> Plugin``. It overrides the hooks that it needs; the others do nothing
and cost nothing. Hooks run in the order of ``[plugins] enabled``, those of a response in reverse; the order is fixed at start.

A plugin with ``may_refuse = True`` (a guard) *refuses* a request by raising ``QueryRejected`` (or another ``RequestError``)
from a hook that says it may. Any other exception of a guard refuses the request with 500 and the plugin's name, so that a
broken guard lets nothing through. Whatever a plugin with ``may_refuse = False`` (a watcher) raises is logged, what it had
changed in the exchange is undone, and the request goes on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from proxy.pipeline.exchange import Exchange


class Plugin:
    """Base of every plugin; each method is a hook and does nothing by itself."""

    may_refuse: bool = False
    """True for a guard: it may refuse requests, and its failure refuses them too."""

    async def startup(self) -> None:
        """Called once, before the first request; a failure stops the start, whatever ``may_refuse`` says."""

    async def shutdown(self) -> None:
        """Called once, after the last request. A failure is logged."""

    async def query(self, exchange: Exchange) -> None:
        """Called when a query or update is understood, before it is checked against the index.

        The query may come from the client or from a question: ``exchange.question`` tells. ``exchange.operation`` is what was
        asked, ``exchange.parsed`` its parse tree or None where the text could not be parsed (then a guard decides what that
        means). May refuse. May call ``exchange.replace_query(text)``: then the new text is parsed, shown to later plugins,
        checked and sent, and the response carries ``Sparlance-Query``. May call ``exchange.add_header``.
        """

    async def response(self, exchange: Exchange) -> None:
        """Called when the backend's response head is there, before any byte goes to the client.

        ``exchange.status`` and ``exchange.response_headers`` may be read; headers may be added with ``exchange.add_header``.
        The body streams past untouched. May not refuse: raising is a failure of the plugin.
        """
