"""The syntax verdict of a complete SPARQL implementation; the one place of the domain that knows pyoxigraph.

``parse`` reads SPARQL 1.1 for analysis and is lenient about rules that do not change the analysis (a projected variable that
is neither grouped nor aggregated, for one). Where *we* answer for the text, for a question or for ``/-/check``, this says no.
"""

from __future__ import annotations

import re

from pyoxigraph import Store

from proxy.errors import MalformedQuery
from proxy.query.parse import parse
from proxy.query.policy import is_read_only

_EMPTY = Store()
_PLACE = re.compile(r"^error at (\d+):(\d+): ", re.DOTALL)


def syntax_error(text: str) -> MalformedQuery | None:
    """Say what is wrong with the query *text*; None if it is a well-formed read-only query.

    Nothing is evaluated but the set-up over an empty store, and no other server is called: an update, LOAD or SERVICE, or text
    that ``parse`` cannot read, is answered before pyoxigraph sees it.
    """
    try:
        parsed = parse(text)
    except MalformedQuery as error:
        return error
    if not is_read_only(parsed):
        return MalformedQuery("expected a query without SERVICE; updates and calls to other servers are not checked here")
    try:
        # an ASK would be evaluated; its answer over nothing costs nothing, and nobody iterates the others
        _EMPTY.query(text, base_iri="http://base.invalid/")
    except SyntaxError as exc:
        message = str(exc)
        place = _PLACE.match(message)
        line, column = (int(place[1]), int(place[2])) if place else (None, None)
        return MalformedQuery(message[:500], line=line, column=column)
    except (OSError, ValueError, RuntimeError):
        # evaluation may refuse what is well-formed, such as a function that this store does not have
        return None
    return None
