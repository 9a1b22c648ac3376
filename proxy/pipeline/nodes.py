"""Ask which IRIs are nodes, and what nodes have together, where the graph is read by chunk queries (index/nodes.py).

Every node has a class, and is listed by it, or has none, and is listed by the properties that S shows at nodes without one.
One answer that is missing, and there is no table: an IRI must never be taken for absent by mistake.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from proxy.index import chunks
from proxy.index.build import IndexBuilder, number, text
from proxy.index.nodes import PAIRS_MOST, Features, fingerprint
from proxy.index.support import UNTYPED, Kind
from proxy.pipeline.asking import Asker, Failure
from proxy.query.term import Iri

NODES_ASKED_MOST = 500_000
"""Instances and triples that lead to or from nodes without a class; with more, nodes are not listed."""
FEATURES_ASKED_MOST = 300
"""Properties; with more, which of them meet is not asked: three queries each."""


async def read_nodes(asker: Asker, builder: IndexBuilder, instances: Mapping[str, int]) -> None:
    """List all nodes, if there are not too many, and hand them over.

    Args:
        instances: class → nodes.
    """
    ends = builder.untyped_ends()
    if any(c.property is None for c in builder.incomplete):
        return
    if sum(instances.values()) + sum(ends.values()) > NODES_ASKED_MOST:
        return
    classes: dict[str, list[str]] = {}
    is_whole = True

    async def read_class(class_: str) -> None:
        nonlocal is_whole
        rows = await asker.ask(chunks.instances(builder.class_predicate, class_))
        # as many as were counted before: an answer that lost rows would make nodes absent
        is_whole = is_whole and not isinstance(rows, Failure) and len(rows) == instances[class_]
        for row in rows if not isinstance(rows, Failure) else ():
            if isinstance(row["s"], Iri):
                classes.setdefault(row["s"].value, []).append(class_)

    async def read_ends(end: tuple[str, chunks.End]) -> None:
        nonlocal is_whole
        found = await _untyped(asker, builder.class_predicate, *end)
        is_whole = is_whole and found is not None
        for node in found or ():
            classes.setdefault(node, [])

    await asker.each("nodes", instances, read_class)
    await asker.each("nodes", ends, read_ends)
    if is_whole:
        kinds: dict[Kind | None, int] = {None: 0}
        number = [
            kinds.setdefault(
                Kind(frozenset(own)) if builder.are_kinds_exact or len(set(own)) < 2 else None, len(kinds)
            )
            for own in classes.values()
        ]
        prints = np.fromiter(map(fingerprint, classes), dtype=np.uint32, count=len(classes))
        builder.set_nodes(prints, list(kinds), np.array(number, dtype=np.int64))


async def _untyped(asker: Asker, class_predicate: str, property_: str, end: chunks.End) -> list[str] | None:
    """The IRIs without a class at one end of a property; None: not all of them came, by the backend's own count."""
    rows = await asker.ask(chunks.untyped_nodes(class_predicate, property_, end))
    counted = await asker.ask(chunks.untyped_count(class_predicate, property_, end))
    if isinstance(rows, Failure) or isinstance(counted, Failure) or not counted or number(counted[0].get("n")) != len(rows):
        return None
    return [text(row["s"]) for row in rows]


async def read_more_nodes(asker: Asker, builder: IndexBuilder, properties: Collection[str]) -> bool:
    """Add the nodes without a class at both ends of *properties*; False: they could not be listed, the table must go.

    For a change that leaves the class predicate alone: what it brings has no class, and other nodes keep theirs.
    """
    found: set[str] = set()
    for p in properties:
        for end in chunks.ENDS:
            nodes = await _untyped(asker, builder.class_predicate, p, end)
            if nodes is None:
                return False
            found.update(nodes)
    builder.add_nodes(np.fromiter(map(fingerprint, found), dtype=np.uint32, count=len(found)), UNTYPED)
    return True


async def read_features(
    asker: Asker, builder: IndexBuilder, together: Mapping[str, Collection[str]], properties: Sequence[str]
) -> None:
    """Ask which properties meet at one node, and hand over what is known of all features.

    Args:
        together: class → all classes that its instances have; a class that is not in it is not known.
        properties: all, but for excluded ones.
    """
    if len(properties) > FEATURES_ASKED_MOST or any(c.property is None for c in builder.incomplete):
        return
    classes = sorted(together)
    table = Features(classes, properties, np.empty(0, dtype=np.int64))
    met: set[tuple[int, int]] = set()
    unknown = {f for c in builder.incomplete if c.property for f in (table.of_subject(c.property), table.of_object(c.property))}

    def note(a: int | None, b: int | None) -> None:
        if a is not None and b is not None and a != b:
            met.add((min(a, b), max(a, b)))

    for class_, others in together.items():
        for other in others:
            note(table.of_class(class_), table.of_class(other))
    for subject, p, object_ in builder.cells():
        for class_ in subject.classes:
            note(table.of_class(class_), table.of_subject(p))
        for class_ in object_.classes:
            note(table.of_class(class_), table.of_object(p))

    async def read(p: str) -> None:
        for end, other_end, own, others in (
            ("subject", "subject", table.of_subject(p), table.of_subject),
            ("subject", "object", table.of_subject(p), table.of_object),
            ("object", "object", table.of_object(p), table.of_object),
        ):
            rows = await asker.ask(chunks.properties_beside(p, end, other_end))  # type: ignore[arg-type]
            if isinstance(rows, Failure):
                unknown.update((table.of_subject(p), table.of_object(p)))
                return
            for row in rows:
                if isinstance(q := row["q"], Iri):
                    note(own, others(q.value))

    await asker.each("properties together", properties, read)
    if len(met) <= PAIRS_MOST:
        keys = np.array(sorted(a * table.size + b for a, b in met), dtype=np.int64)
        builder.features = Features(classes, properties, keys, {f for f in unknown if f is not None})
