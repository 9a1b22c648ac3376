"""Generate graphs by shape and size, as N-Triples: python -m benchmarks.graphs SHAPE TRIPLES FILE

Shapes: plain-20, plain-200, plain-2000 (classes; labels, references, texts, numbers, dates; skewed instances; a tenth of the
nodes multi-typed), deep (200 classes in a chain of subclasses eight deep, every super-class materialised), wikidata (classes by
a property P31, 10,000 of them, 2,000 properties, most objects without a class). The same arguments give the same file.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

from proxy.query.term import RDF_TYPE, RDFS, RDFS_LABEL, XSD

EX = "http://example.org/"
P31 = EX + "prop/direct/P31"
WORDS = "alpha beta gamma delta north south river stone green market house valley harbour bridge island winter".split()


def _skewed(rng: random.Random, n: int) -> int:
    """0 to n-1, the small ones far more often."""
    return min(int(rng.paretovariate(0.6)) - 1, n - 1)


def plain(triples: int, rng: random.Random, *, classes: int) -> Iterator[str]:
    """Eight properties to a class, of three times as many as there are classes, up to 1,000."""
    properties = min(1_000, 3 * classes)
    of_class = [rng.sample(range(properties), min(8, properties)) for _ in range(classes)]
    nodes = max(1, triples // 10)
    node = 0
    while True:
        c = _skewed(rng, classes)
        s = f"<{EX}n{node}>"
        yield f"{s} <{RDF_TYPE}> <{EX}C{c}> ."
        yield f'{s} <{RDFS_LABEL}> "{rng.choice(WORDS)} {rng.choice(WORDS)} {node}"@en .'
        if rng.random() < 0.1:
            yield f"{s} <{RDF_TYPE}> <{EX}C{(c + 1) % classes}> ."
        for p in of_class[c]:
            yield f"{s} <{EX}p{p}> {_object(p, rng, nodes)} ."
        node += 1


def _object(p: int, rng: random.Random, nodes: int) -> str:
    match p % 4:
        case 0:
            return f"<{EX}n{rng.randrange(nodes)}>"
        case 1:
            return f'"{rng.choice(WORDS)} {rng.choice(WORDS)} {rng.randrange(nodes)}"'
        case 2:
            return f'"{rng.randrange(10_000)}"^^<{XSD}integer>'
        case _:
            return f'"{rng.randrange(1900, 2020)}-01-{rng.randrange(1, 29):02}"^^<{XSD}date>'


def deep(triples: int, rng: random.Random) -> Iterator[str]:
    """Every instance has its class and all above it, as a reasoner leaves them."""
    classes, depth, nodes = 200, 8, max(1, triples // 12)
    for c in range(classes):
        if c % depth:
            yield f"<{EX}C{c}> <{RDFS}subClassOf> <{EX}C{c - 1}> ."
    node = 0
    while True:
        c = _skewed(rng, classes)
        s = f"<{EX}n{node}>"
        for above in range(c - c % depth, c + 1):
            yield f"{s} <{RDF_TYPE}> <{EX}C{above}> ."
        for p in range(c % depth + 4):
            yield f"{s} <{EX}p{p}> {_object(p, rng, nodes)} ."
        node += 1


def wikidata(triples: int, rng: random.Random) -> Iterator[str]:
    """Items with two labels, one class each as a rule, and statements to items most of which are described nowhere."""
    classes, properties, items = 10_000, 2_000, max(1, triples // 6)
    node = 0
    while True:
        s = f"<{EX}entity/Q{node}>"
        yield f'{s} <{RDFS_LABEL}> "{rng.choice(WORDS)} {node}"@en .'
        yield f'{s} <{RDFS_LABEL}> "{rng.choice(WORDS)} {node}"@de .'
        if rng.random() < 0.9:
            yield f"{s} <{P31}> <{EX}entity/Q{items * 10 + _skewed(rng, classes)}> ."
        for _ in range(rng.randrange(2, 8)):
            p = _skewed(rng, properties)
            o = f"<{EX}entity/Q{rng.randrange(items * 10)}>" if p % 4 else _object(p + 1 + p // 4 % 3, rng, items)
            yield f"{s} <{EX}prop/direct/P{1000 + p}> {o} ."
        node += 1


SHAPES: dict[str, Callable[[int, random.Random], Iterator[str]]] = {
    "plain-20": lambda n, rng: plain(n, rng, classes=20),
    "plain-200": lambda n, rng: plain(n, rng, classes=200),
    "plain-2000": lambda n, rng: plain(n, rng, classes=2_000),
    "deep": deep,
    "wikidata": wikidata,
}


def class_predicate(shape: str) -> str:
    return P31 if shape == "wikidata" else RDF_TYPE


def write(shape: str, triples: int, path: Path, *, seed: int = 1) -> None:
    """Write *triples* lines of *shape* into *path*; a few may say the same twice."""
    with path.open("w", encoding="ascii") as file:
        file.writelines(line + "\n" for line in islice(SHAPES[shape](triples, random.Random(seed)), triples))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shape", choices=SHAPES)
    parser.add_argument("triples", type=int)
    parser.add_argument("file", type=Path)
    options = parser.parse_args()
    write(options.shape, options.triples, options.file)


if __name__ == "__main__":
    main()
