"""A server of OpenAI's protocol with scripted answers, as a process of its own: ``python chat.py SCRIPT LOG``.

SCRIPT: JSON, a list of steps, the last of which repeats: texts (or body, raw), status, headers, type, pause_s, size, cut.
LOG: a line of JSON for each request that came. Prints its port.
"""

import json
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

STEPS = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
LOG = Path(sys.argv[2])
seen = 0


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        global seen
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        with LOG.open("a", encoding="utf-8") as log:
            log.write(json.dumps({"path": self.path, "key": self.headers.get("authorization"), "body": body}) + "\n")
        step = STEPS[min(seen, len(STEPS) - 1)]
        seen += 1
        time.sleep(step.get("pause_s", 0))
        choices = [{"index": i, "message": {"role": "assistant", "content": t}} for i, t in enumerate(step.get("texts", []))]
        usage = {"prompt_tokens": 100, "completion_tokens": 10 * len(choices)}
        data = step.get("body", json.dumps({"choices": choices, "usage": usage})).encode() + b" " * step.get("size", 0)
        self.send_response(step.get("status", 200))
        self.send_header("content-type", step.get("type", "application/json; charset=utf-8"))
        for name, value in step.get("headers", {}).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        try:
            self.wfile.write(data[: step.get("cut", len(data))])
        except OSError:
            pass
        if "cut" in step:
            self.close_connection = True

    def log_message(self, *args):
        pass


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
