"""What Sparlance costs beside nginx and beside no proxy at all, measured in turn in one run.

    .venv/bin/python -m benchmarks.throughput [--seconds 1.5] [--rounds 3] [--out FILE.json] [--only small,single,canned,large]

Needs wrk; nginx is left out, with its reason, where it is missing. Less than four minutes. Fronts: *direct*; *nginx* as a
plain reverse proxy with kept upstream connections; *no index* is Sparlance with ``--no-index``; *cached* with an index,
verdicts known (1,000 texts in turn); *uncached* with an index, every text new. Sparlance logs a line for each request, nginx
none.

Small: ``SELECT ?p ?o {<entity> ?p ?o}`` by GET. Canned: the same from an nginx that answers one fixed body, so that the proxy
is the limit. Large: ``SELECT * {?s ?p ?o}``, more than 100 MB, one client. CPU is user + system time of the front's process
tree by request, the least of the rounds: the figure that other load disturbs least. Rates are medians; compare the ratios of
one run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

ENTITIES = 54_000
NS = "http://example.org/knowledge/"
TICKS = os.sysconf("SC_CLK_TCK")
SCRIPT = """
local start, is_new, n = 0, false, 0
function init(args)
  start, is_new = tonumber(args[1]), args[2] == "new"
  wrk.headers["Accept"] = "application/sparql-results+json"
  wrk.headers["User-Agent"] = "wrk"
end
function request()
  n = n + 1
  local i = is_new and (start + n) or (n % 1000)
  local path = "/query?query=SELECT%20%3Fp%20%3Fo%20%7B%3CNAMESPACEs" .. (i % ENTITIES) .. "%3E%20%3Fp%20%3Fo%7D"
  if is_new then path = path .. "%20LIMIT%20" .. (1000 + start + n) end
  return wrk.format("GET", path)
end
function done(summary, latency, requests)
  local e = summary.errors
  io.write(string.format('\\nRESULT {"requests": %d, "duration_s": %f, "p50_ms": %f, "p99_ms": %f, "errors": %d}\\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50) / 1e3, latency:percentile(99) / 1e3,
    e.connect + e.read + e.write + e.status + e.timeout))
end
"""
ROW = '{"p":{"type":"uri","value":"http://example.org/knowledge/p1"},"o":{"type":"literal","value":"entity 1"}}'
CANNED = '{"head":{"vars":["p","o"]},"results":{"bindings":[' + ",".join([ROW] * 15) + "]}}"
NGINX = """
daemon off;
master_process MASTER;
worker_processes WORKERS;
pid FOLDER/PORT.pid;
error_log stderr crit;
events { worker_connections 1024; }
http {
  access_log off;
  keepalive_requests 10000000;
  client_body_temp_path FOLDER/body; proxy_temp_path FOLDER/proxied;
  fastcgi_temp_path FOLDER/f; uwsgi_temp_path FOLDER/u; scgi_temp_path FOLDER/s;
  upstream backend { server 127.0.0.1:UPSTREAM; keepalive 64; keepalive_requests 10000000; }
  server {
    listen 127.0.0.1:PORT;
    location / { PLACE }
  }
}
"""
PASS = 'proxy_pass http://backend; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $host;'


class Front:
    """A server to be measured: its port, and the processes whose CPU counts (pid 0: nobody's)."""

    def __init__(self, name: str, port: int, pid: int = 0, *, is_new: bool = False) -> None:
        self.name, self.port, self.pid, self.is_new = name, port, pid, is_new

    def tree(self) -> list[int]:
        if not self.pid:
            return []
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                parents[int(stat.parent.name)] = int(stat.read_text().rpartition(")")[2].split()[1])
        found = [self.pid]
        for pid in found:
            found += [child for child, parent in parents.items() if parent == pid]
        return found

    def cpu_s(self) -> float:
        total = 0
        for pid in self.tree():
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += int(fields[11]) + int(fields[12])
        return total / TICKS

    def memory_mb(self, field: str) -> float:
        """VmRSS or VmHWM, of all processes together."""
        total = 0
        for pid in self.tree():
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            total += next(int(line.split()[1]) for line in lines if line.startswith(field + ":"))
        return total / 1024

    def forget_peak(self) -> None:
        for pid in self.tree():
            Path(f"/proc/{pid}/clear_refs").write_text("5")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as free:
        return int(free.getsockname()[1])


def wait_for(url: str, process: subprocess.Popen[bytes], limit_s: float = 60.0) -> None:
    ends = time.monotonic() + limit_s
    while True:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except urllib.error.HTTPError:
            return
        except OSError:
            if time.monotonic() > ends or process.poll() is not None:
                raise
            time.sleep(0.05)


@contextlib.contextmanager
def running(words: list[str], url: str) -> Iterator[int]:
    """Run a server until it answers at *url*; yields its process id."""
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=Path(__file__).parent.parent)
    try:
        wait_for(url, process)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Stage:
    """Starts what is measured, and stops it at the end."""

    def __init__(self, folder: Path, exits: contextlib.ExitStack) -> None:
        self.folder, self.exits = folder, exits
        self.nginx_binary = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin:/usr/local/sbin")

    def oxigraph(self) -> int:
        binary = str(Path(sys.executable).with_name("oxigraph"))
        data = self.folder / "data.nt"
        with data.open("w") as file:
            for i in range(ENTITIES):
                node = f"<{NS}s{i}>"
                file.write(f"{node} <http://www.w3.org/1999/02/22-rdf-syntax-ns#type> <{NS}C{i % 20}> .\n")
                file.write(f'{node} <{NS}name> "entity {i}" .\n')
                file.write(f'{node} <{NS}n> "{i}"^^<http://www.w3.org/2001/XMLSchema#integer> .\n')
                for j in range(7):
                    file.write(f"{node} <{NS}p{j}> <{NS}s{(i * 7 + j) % ENTITIES}> .\n")
        store = str(self.folder / "store")
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([binary, "load", "--location", store, "--file", str(data)], check=True, **quiet)  # type: ignore[call-overload]
        port = free_port()
        words = [binary, "serve-read-only", "--location", store, "--bind", f"127.0.0.1:{port}"]
        self.exits.enter_context(running(words, f"http://127.0.0.1:{port}/query?query=ASK%7B%7D"))
        return port

    def nginx(self, name: str, *, upstream: int = 9, place: str = PASS, workers: int = 1) -> Front | None:
        if self.nginx_binary is None:
            return None
        port = free_port()
        text = NGINX.replace("PLACE", place)
        values = {"FOLDER": str(self.folder), "PORT": str(port), "UPSTREAM": str(upstream), "WORKERS": str(workers)}
        for word, value in {**values, "MASTER": "on" if workers > 1 else "off"}.items():
            text = text.replace(word, value)
        config = self.folder / f"nginx-{port}.conf"
        config.write_text(text)
        words = [self.nginx_binary, "-p", str(self.folder), "-c", str(config)]
        pid = self.exits.enter_context(running(words, f"http://127.0.0.1:{port}/query?query=ASK%7B%7D"))
        return Front(name, port, pid)

    def sparlance(self, name: str, upstream: int, *, is_indexed: bool = False, workers: int = 1) -> Front:
        port = free_port()
        config = self.folder / f"sparlance-{port}.toml"
        index = f"[index]\nenabled = {str(is_indexed).lower()}\n"
        config.write_text(f"{index}[nl]\nenabled = false\n[server]\nworkers = {workers}\n")
        words = [sys.executable, "-m", "proxy", "serve", "--config", str(config), "--port", str(port)]
        words += ["--url", f"http://127.0.0.1:{upstream}"]
        pid = self.exits.enter_context(running(words, f"http://127.0.0.1:{port}/-/live"))
        ends = time.monotonic() + 90
        while is_indexed:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/-/index", timeout=10) as answer:
                state = json.load(answer)["state"]
            if state == "ready":
                break
            if state == "failed" or time.monotonic() > ends:
                raise RuntimeError(f"the index is {state}")
            time.sleep(0.2)
        return Front(name, port, pid)


class Wrk:
    """Runs wrk; texts that must be new never repeat within one run of the benchmark."""

    def __init__(self, folder: Path) -> None:
        self._script = folder / "load.lua"
        self._script.write_text(SCRIPT.replace("ENTITIES", str(ENTITIES)).replace("NAMESPACE", quote(NS, safe="")))
        self._start = 0

    def __call__(self, front: Front, connections: int, seconds: float) -> dict[str, float]:
        self._start += 1_000_000
        words = ["wrk", "-t1", f"-c{connections}", f"-d{max(1, round(seconds))}s", "-s", str(self._script)]
        words += [f"http://127.0.0.1:{front.port}", "--", str(self._start), "new" if front.is_new else "-"]
        before = front.cpu_s()
        told = subprocess.run(words, capture_output=True, text=True, check=True).stdout
        result: dict[str, float] = json.loads(told.partition("RESULT ")[2])
        result["cpu_us"] = (front.cpu_s() - before) / max(result["requests"], 1) * 1e6
        result["per_s"] = result["requests"] / result["duration_s"]
        return result


def compare(wrk: Wrk, fronts: list[Front], connections: int, seconds: float, rounds: int) -> dict[str, dict[str, float]]:
    """Measure *fronts* in turn; the first is what the others are compared with."""
    found: dict[str, list[dict[str, float]]] = {front.name: [] for front in fronts}
    for n in range(rounds + 1):
        for front in fronts:
            run = wrk(front, connections, seconds)
            if n:  # the first round fills caches and pools
                found[front.name].append(run)
    table = {}
    for name, runs in found.items():
        ratios = [r["per_s"] / d["per_s"] for r, d in zip(runs, found[fronts[0].name], strict=True)]
        table[name] = {
            "per_s": round(statistics.median(run["per_s"] for run in runs)),
            "ratio": round(statistics.median(ratios), 3),
            "cpu_us": round(min(run["cpu_us"] for run in runs), 1),
            "p50_ms": round(statistics.median(run["p50_ms"] for run in runs), 3),
            "p99_ms": round(statistics.median(run["p99_ms"] for run in runs), 3),
            "errors": sum(run["errors"] for run in runs),
        }
    return table


def download(front: Front) -> tuple[float, float, int]:
    """Seconds in all, seconds to the first byte, bytes."""
    with socket.create_connection(("127.0.0.1", front.port)) as client:
        started = time.perf_counter()
        query = quote("SELECT * {?s ?p ?o}").encode()
        head = b" HTTP/1.1\r\nHost: a\r\nAccept: application/sparql-results+json\r\nConnection: close\r\n\r\n"
        client.sendall(b"GET /query?query=" + query + head)
        size, first, buffer = 0, 0.0, bytearray(1 << 18)
        while count := client.recv_into(buffer):
            first = first or time.perf_counter() - started
            size += count
        return time.perf_counter() - started, first, size


def compare_large(fronts: list[Front], rounds: int) -> dict[str, dict[str, float]]:
    found: dict[str, list[dict[str, float]]] = {front.name: [] for front in fronts}
    for _ in range(rounds):
        for front in fronts:
            idle_mb = front.memory_mb("VmRSS")
            front.forget_peak()
            before = front.cpu_s()
            took, first, size = download(front)
            cpu = (front.cpu_s() - before) / size * 1e8
            found[front.name].append(
                {"mb_per_s": size / took / 1e6, "first_ms": first * 1e3, "cpu_s_per_100_mb": cpu, "megabytes": size / 1e6,
                 "peak_mb": front.memory_mb("VmHWM"), "idle_mb": idle_mb}
            )  # fmt: skip
    table = {}
    for name, runs in found.items():
        ratios = [r["mb_per_s"] / d["mb_per_s"] for r, d in zip(runs, found[fronts[0].name], strict=True)]
        table[name] = {
            "mb_per_s": round(statistics.median(run["mb_per_s"] for run in runs), 1),
            "ratio": round(statistics.median(ratios), 3),
            "first_ms": round(min(run["first_ms"] for run in runs), 1),
            "cpu_s_per_100_mb": round(min(run["cpu_s_per_100_mb"] for run in runs), 3),
            "peak_mb": round(max(run["peak_mb"] for run in runs), 1),
            "idle_mb": round(runs[0]["idle_mb"], 1),
            "megabytes": round(runs[0]["megabytes"], 1),
        }
    return table


def show(title: str, table: dict[str, dict[str, float]]) -> None:
    print(f"\n{title}")
    names = list(next(iter(table.values())))
    print(" " * 22 + "".join(f"{name:>17}" for name in names))
    for front, row in table.items():
        print(f"  {front:20}" + "".join(f"{row[name]:>17,}" for name in names), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=1.0, help="of each run of wrk; whole seconds, at least 1")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="small,single,canned,large")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    parts = set(options.only.split(","))
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed (apt-get install wrk)")
    began = time.monotonic()
    load_before = os.getloadavg()
    results: dict[str, object] = {"load_average_before": load_before}
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as exits:
        stage = Stage(Path(name), exits)
        wrk = Wrk(stage.folder)
        if stage.nginx_binary is None:
            results["left_out"] = "nginx: not installed (apt-get install nginx); the canned answers with it"
            print(results["left_out"])

        def measure(part: str, title: str, fronts: list[Front | None], connections: int) -> None:
            there = [front for front in fronts if front is not None]
            table = compare(wrk, there, connections, options.seconds, options.rounds)
            results[part] = table
            show(title, table)

        if parts & {"small", "single", "large"}:
            port = stage.oxigraph()
            direct = Front("direct", port)
            nginx = stage.nginx("nginx", upstream=port)
            plain = stage.sparlance("no index", port)
            known = stage.sparlance("cached", port, is_indexed=True)
            new = stage.sparlance("uncached", port, is_indexed=True)  # a process of its own: new texts drive known ones out
            new.is_new = True
            if "small" in parts:
                two = [stage.nginx("nginx, 2 workers", upstream=port, workers=2)]
                two += [stage.sparlance("no index, 2 workers", port, workers=2)]
                measure("small", "Small, Oxigraph, 16 connections", [direct, nginx, plain, known, new, *two], 16)
            if "single" in parts:
                measure("single", "Small, Oxigraph, 1 connection", [direct, nginx, plain, known, new], 1)
            if "large" in parts:
                large = compare_large([f for f in (direct, nginx, plain) if f is not None], min(options.rounds, 2))
                results["large"] = large
                show("Large, Oxigraph, 1 client", large)
        place = f"default_type application/sparql-results+json; return 200 '{CANNED}';"
        if "canned" in parts and (fixed := stage.nginx("direct", place=place)) is not None:
            fronts: list[Front | None] = [Front("direct", fixed.port), stage.nginx("nginx", upstream=fixed.port)]
            fronts += [stage.sparlance("no index", fixed.port)]
            fronts += [stage.nginx("nginx, 2 workers", upstream=fixed.port, workers=2)]
            fronts += [stage.sparlance("no index, 2 workers", fixed.port, workers=2)]
            measure("canned", "Canned, 16 connections", fronts, 16)
    results["load_average_after"] = os.getloadavg()
    results["took_s"] = round(time.monotonic() - began)
    print(f"\nload average {load_before[0]:.1f} … {os.getloadavg()[0]:.1f}, {results['took_s']} s")
    if options.out is not None:
        options.out.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
