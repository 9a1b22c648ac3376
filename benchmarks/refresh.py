"""Does a rebuild slow requests down? Paired windows with and without one, before a real Oxigraph server or a store of ours.

python -m benchmarks.refresh [--triples N] [--windows N] [--seconds N] [--method ask|download] [--duty F] [--embedded [--here]]

One client asks small queries through Sparlance, one after another, 50 a second. Windows alternate: quiet, rebuild, quiet, ….
A window's figures are over all of its requests; the pairs' differences are what counts, as the machine is never quite quiet.
"""

from __future__ import annotations

import argparse
import http.client
import json
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.graphs import EX, write

QUERIES = [
    f"SELECT ?o {{ <{EX}n7> ?p ?o }}",
    f"SELECT ?s {{ ?s a <{EX}C3> }} LIMIT 20",
    f"ASK {{ <{EX}n11> <{EX}p4> ?o }}",
]


def window(port: int, seconds: float) -> list[float]:
    """Milliseconds of each request."""
    connection = http.client.HTTPConnection("127.0.0.1", port)
    taken, ends, i = [], time.perf_counter() + seconds, 0
    while (started := time.perf_counter()) < ends:
        connection.request("GET", "/sparql?" + urllib.parse.urlencode({"query": QUERIES[i % len(QUERIES)]}))
        connection.getresponse().read()
        taken.append((time.perf_counter() - started) * 1e3)
        i += 1
        time.sleep(max(0.0, 0.02 - (time.perf_counter() - started)))
    connection.close()
    return sorted(taken)


def call(port: int, method: str) -> dict[str, object]:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request(method, "/-/index")
    found: dict[str, object] = json.loads(connection.getresponse().read())
    connection.close()
    return found


@contextmanager
def source(file: Path, *, is_embedded: bool) -> Iterator[list[str]]:
    """Options of ``serve`` that say where the data are."""
    from tests.servers.oxigraph import Oxigraph

    if is_embedded:
        yield ["--load", str(file)]
        return
    with Oxigraph(files=[file]) as server:
        yield ["--url", server.url]


def measure(options: argparse.Namespace) -> None:
    from tests.servers.process import free_port

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "graph.nt")
        write("plain-200", options.triples, file)
        with source(file, is_embedded=options.embedded) as where:
            port = free_port()
            settings = Path(folder, "config.toml")
            settings.write_text(
                f'[index]\ndirectory = "{folder}"\nmethod = "{options.method}"\nduty = {options.duty}\npoll_s = 0.0\n'
                f'[nl]\nenabled = false\n[log]\nlevel = "error"\n[cache]\nenabled = false\n'
            )
            command = [sys.executable, "-m", "proxy"]
            if options.here:  # a snapshot of any size is small
                code = "import proxy.rebuild as r, proxy.cli as c; r.HERE_MOST_BYTES = 1 << 60; raise SystemExit(c.main())"
                command = [sys.executable, "-c", code]
            command += ["serve", "--config", str(settings), *where, "--port", str(port)]
            child = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            try:
                while True:
                    try:
                        if call(port, "GET").get("epoch"):
                            break
                    except OSError:
                        pass
                    time.sleep(0.2)
                differences = []
                window(port, 1.0)
                for _ in range(options.windows):
                    quiet = window(port, options.seconds)
                    epoch = call(port, "GET")["epoch"]
                    call(port, "POST")
                    busy = window(port, options.seconds)
                    is_whole = call(port, "GET")["epoch"] == epoch
                    figures = {}
                    for name, share in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
                        q, b = quiet[int(len(quiet) * share)], busy[int(len(busy) * share)]
                        figures[name] = (round(q, 2), round(b, 2))
                    differences.append({n: b - q for n, (q, b) in figures.items()})
                    print(figures, "rebuild all the window" if is_whole else "rebuild ended within", flush=True)
                    while call(port, "GET")["epoch"] == epoch:
                        time.sleep(0.2)
                for name in ("p50", "p95", "p99"):
                    print(name, "median difference, ms:", round(statistics.median(d[name] for d in differences), 3))
            finally:
                child.terminate()
                child.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--triples", type=int, default=200_000)
    parser.add_argument("--windows", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--method", choices=("ask", "download"), default="ask")
    parser.add_argument("--duty", type=float, default=0.25)
    parser.add_argument("--embedded", action="store_true", help="a store in the server's own process")
    parser.add_argument("--here", action="store_true", help="rebuild in that process too, as it was before")
    measure(parser.parse_args())


if __name__ == "__main__":
    main()
