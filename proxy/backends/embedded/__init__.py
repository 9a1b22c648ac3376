"""A pyoxigraph store in this process, behind the same protocol as a server; it answers as Oxigraph's own server does.

pyoxigraph (0.5.13, the wheels from PyPI) evaluates SERVICE and LOAD by HTTP and has no switch for it. So no text that could
hold either reaches it: this module parses every text in which the words occur, and refuses what it cannot judge.

A call into the store blocks, and an aggregate cannot be cancelled. Calls run in daemon threads, results stream out in bounded
pieces, a client that leaves stops a result at its next piece. A query that is out of time is answered 504 and goes on counting
against the limit of queries at a time until it ends.
"""

from proxy.backends.embedded.store import EmbeddedBackend

__all__ = ["EmbeddedBackend"]
