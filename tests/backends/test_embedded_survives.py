"""The embedded store and texts made to end the process: tried in a process of their own."""

from __future__ import annotations

import subprocess
import sys
import textwrap

SCRIPT = textwrap.dedent("""
    import asyncio, os
    from proxy.backends.base import BackendRequest
    from proxy.backends.embedded import EmbeddedBackend
    from proxy.query.operation import OperationKind, SparqlOperation
    import pyoxigraph as ox

    N = {n}
    TEXTS = [
        "SELECT * {{ ?s ?p ?o FILTER(" + "(" * N + "1" + ")" * N + ") }}",
        "SELECT * " + "{{" * N + "?s ?p ?o" + "}}" * N,
        "SELECT * {{ ?s ?p ?o FILTER(" + "!" * N + "?s) }}",
        "SELECT * {{ ?s ?p ?o FILTER(" + "||".join(["?s"] * (N // 4)) + ") }}",
        "SELECT * {{ ?s ?p ?o " + "FILTER(?s) " * (N // 6) + "}}",
        "SELECT * {{ " + " UNION ".join(["{{ ?s ?p ?o }}"] * (N // 6)) + " }}",
        "SELECT * " + "{{ SELECT * " * (N // 3) + "{{ ?s ?p ?o }}" + "}}" * (N // 3),
        "SELECT * {{ ?s " + "(" * (N // 3) + "<p:>" + ")*" * (N // 3) + " ?o }}",
        "SELECT * {{ ?s ?p ?o " + "FILTER EXISTS {{ ?s ?p ?o " * (N // 8) + "}}" * (N // 8) + "}}",
    ]

    async def main():
        store = ox.Store()
        store.add(ox.Quad(ox.NamedNode("http://e/s"), ox.NamedNode("http://e/p"), ox.NamedNode("http://e/o")))
        backend = EmbeddedBackend(store, timeout_s={timeout_s}, max_queries=32)
        for text in TEXTS:
            operation = SparqlOperation(OperationKind.QUERY, text)
            try:
                response = await backend.send(BackendRequest("POST", b"/query", (), text.encode(), operation))
                print(response.status, flush=True)
                await response.aclose()
            except Exception as error:
                print(type(error).__name__, flush=True)
        print(await backend.ask("ASK {{ ?s ?p ?o }}", timeout_s=5), flush=True)

    asyncio.run(main())
    os._exit(0)  # what is still planned need not be waited for
""")


def _outcomes(n: int, timeout_s: float) -> list[str]:
    script = SCRIPT.format(n=n, timeout_s=timeout_s)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-500:]
    return done.stdout.split()


def test_texts_at_the_limit_do_not_end_the_process():
    """What is just light enough is answered or runs out of time; the store goes on serving."""
    *outcomes, alive = _outcomes(18_000, timeout_s=1.0)
    assert alive == "True"
    assert set(outcomes) <= {"200", "400", "500", "BackendTimeout"}
    assert "200" in outcomes


def test_texts_past_the_limit_are_refused():
    """Heavier texts never reach the store."""
    *outcomes, alive = _outcomes(400_000, timeout_s=60.0)
    assert (alive, set(outcomes)) == ("True", {"400"})
