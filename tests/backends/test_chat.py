import asyncio
import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from proxy.backends.chat import ANSWER_LIMIT_BYTES, ChatServer
from proxy.errors import ModelError
from proxy.nl.generate import Brought, Message, Wanted

SERVER = Path(__file__).parent.parent / "servers" / "chat.py"
ONE = Wanted()
ASKED = [Message("system", "rules"), Message("user", "Question: how many?")]
Start = Callable[[list[dict]], tuple[str, Path]]


@pytest.fixture
def start(tmp_path):
    """Start a scripted server; returns its base URL and its log."""
    processes = []

    def begin(steps: list[dict]) -> tuple[str, Path]:
        script, log = tmp_path / "script.json", tmp_path / "log"
        script.write_text(json.dumps(steps), encoding="utf-8")
        process = subprocess.Popen([sys.executable, str(SERVER), str(script), str(log)], stdout=subprocess.PIPE, text=True)
        processes.append(process)
        return f"http://127.0.0.1:{int(process.stdout.readline())}/v1", log

    yield begin
    for process in processes:
        process.kill()
        process.communicate()


def requests(log: Path) -> list[dict]:
    return [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]


def ask(url: str, *, key: str = "", wanted: Wanted = ONE, timeout_s: float = 20.0) -> Brought:
    async def run() -> Brought:
        server = ChatServer(url, "coder", key=key)
        try:
            return await server.write(ASKED, wanted, timeout_s=timeout_s)
        finally:
            await server.aclose()

    return asyncio.run(run())


def test_several_drafts_are_asked_for_at_once(start: Start) -> None:
    """The request is OpenAI's, with the key as bearer; what comes back are the texts and the server's own count of tokens."""
    url, log = start([{"texts": ["ASK {}", "SELECT * {}"]}])

    found = ask(url, key="k-1", wanted=Wanted(2, 64, 0.5, 7))
    assert found == Brought(("ASK {}", "SELECT * {}"), 100, 20)
    [seen] = requests(log)
    assert (seen["path"], seen["key"]) == ("/v1/chat/completions", "Bearer k-1")
    assert seen["body"] == {
        "model": "coder",
        "messages": [{"role": "system", "content": "rules"}, {"role": "user", "content": "Question: how many?"}],
        "n": 2, "max_tokens": 64, "temperature": 0.5, "seed": 7, "stream": False,
    }  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [{"status": 429, "headers": {"Retry-After": "0"}}, {"status": 500}, {"status": 503, "type": "text/html"}],
    ids=["429", "500", "503"],
)
def test_what_passes_is_tried_again(start: Start, step: dict) -> None:
    """A server that is busy, or fails once, is asked again."""
    url, log = start([step, {"texts": ["ASK {}"]}])
    assert ask(url).texts == ("ASK {}",)
    assert len(requests(log)) == 2


def test_a_server_that_stays_broken_is_asked_three_times(start: Start) -> None:
    url, log = start([{"status": 500, "headers": {"Retry-After": "0"}}])
    with pytest.raises(ModelError, match="busy or fails"):
        ask(url)
    assert len(requests(log)) == 3


def test_nobody_waits_longer_for_a_retry_than_there_is_time(start: Start) -> None:
    """Retry-After beyond the time limit ends it at once."""
    url, log = start([{"status": 429, "headers": {"Retry-After": "3600"}}])
    with pytest.raises(ModelError, match="busy or fails"):
        ask(url)
    assert len(requests(log)) == 1


@pytest.mark.parametrize(
    ("step", "words"),
    [
        ({"status": 401, "body": '{"error": "no such key"}'}, "status 401.*no such key"),
        ({"status": 400, "body": "stream must be true"}, "status 400: stream must be true"),
        ({"status": 307, "headers": {"Location": "http://127.0.0.1:1/"}}, "status 307"),
        ({"texts": ["ASK {}"], "cut": 20}, "did not answer in full"),
        ({"body": '{"choices": [{"mess'}, "did not answer with chat completions"),
        ({"body": "[" * 100_000}, "did not answer with chat completions"),
        ({"body": '{"choices": []}'}, "did not answer with chat completions"),
        ({"body": '{"choices": [{"message": {"content": null}}]}'}, "did not answer with chat completions"),
        ({"body": "data: {}\n\n", "type": "text/event-stream"}, "text/event-stream in place of JSON"),
        ({"texts": ["x"], "size": ANSWER_LIMIT_BYTES}, "more than 2,000,000 bytes"),
    ],
    ids=["401", "400", "redirect", "cut", "not closed", "deep", "none", "null", "stream", "huge"],
)
def test_what_is_no_answer_is_one_error(start: Start, step: dict, words: str) -> None:
    """Every fault is a ModelError that says what it was, and the server is asked once."""
    url, log = start([step])
    with pytest.raises(ModelError, match=words):
        ask(url)
    assert len(requests(log)) == 1


def test_a_server_that_hangs_is_left(start: Start) -> None:
    url, _ = start([{"texts": ["x"], "pause_s": 60}])
    with pytest.raises(ModelError, match="not done within"):
        ask(url, timeout_s=0.5)


def test_nobody_listens() -> None:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        with pytest.raises(ModelError, match="cannot be reached"):
            ask(f"http://127.0.0.1:{bound.getsockname()[1]}/v1")
