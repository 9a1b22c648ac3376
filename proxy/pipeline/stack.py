"""Keep from a server what would overflow its stack: one such query ends the process, and everybody's queries with it.

Oxigraph 0.5 parses, plans and evaluates by recursion, on threads with 2 MiB of stack. Measured on the real server, by bisection
(docs/backends.md): it dies from 200 EXISTS or 225 calls of a function in each other, 525 groups, 625 OPTIONAL, MINUS or BIND in
a row, 1,575 UNION. The limits leave it two thirds of its stack, whatever is mixed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from proxy.errors import OperationForbidden
from proxy.query.weight import Weight, excess

if TYPE_CHECKING:
    from proxy.config import BackendSettings

NESTING = {"oxigraph": 64}
"""Kind → levels of brackets; no limit for the others, which answer such a query with an error."""
OPERATORS = {"oxigraph": 500}

NO_LIMIT = 2**31

Guard = Callable[[str], None]


def stack_guard(settings: BackendSettings) -> Guard | None:
    """What raises OperationForbidden on a text that is too much for the server; None: nothing is."""
    if settings.load:
        return None  # the embedded store looks after its own stack
    nesting = settings.max_nesting or NESTING.get(settings.kind, 0)
    operators = settings.max_operators or OPERATORS.get(settings.kind, 0)
    if not nesting and not operators:
        return None
    limits = {"limit_depth": nesting or NO_LIMIT, "limit_operators": operators or NO_LIMIT}

    def guard(text: str) -> None:
        found = excess(text, **limits)
        if found is Weight.NESTING:
            raise OperationForbidden(
                f"the text nests brackets more than {nesting} deep, which may overflow its stack (backend.max_nesting)"
            )
        if found is not None:
            raise OperationForbidden(
                f"the text has more than {operators} operators in one operation (OPTIONAL, MINUS, AS count 2; UNION, FILTER, "
                f"!, |, & and arithmetic 1), which may overflow its stack (backend.max_operators)"
            )

    return guard
