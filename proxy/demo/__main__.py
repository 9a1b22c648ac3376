"""``python -m proxy.demo``: write the demo graph and its vocabulary to standard output, as Turtle (which N-Triples is, too)."""

import sys

from proxy.demo.coast import graph, ontology

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    sys.stdout.write(ontology() + graph())
