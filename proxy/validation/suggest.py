"""What would work instead, computed from the index: near names, the other direction, other classes, two-hop paths."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import SequenceMatcher
from functools import lru_cache

from proxy.index.support import SupportIndex
from proxy.query.effort import spend
from proxy.validation.supports import Supports

_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\-\s.]+|(?<=[A-Za-z])(?=[0-9])")
_SAFE_LOCAL = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9_\-]*)")
_MAX_SUGGESTIONS = 4
_MAX_COMPARED = 100
"""Characters of a name; what is longer is alike or not by how it starts."""
_MAX_SHOWN = 300
"""Characters of an IRI in a finding."""


def local_name(iri: str) -> str:
    return re.split(r"[#/:]", iri.rstrip("#/"))[-1]


class Names:
    """IRIs as the query's author writes them."""

    def __init__(self, prefixes: Mapping[str, str]) -> None:
        self._namespaces = sorted(((ns, p) for p, ns in prefixes.items() if ns), key=lambda x: -len(x[0]))

    def short(self, iri: str | None) -> str:
        """Prefixed where the query declares the prefix, else in full but for very long ones; None is said in words."""
        if iri is None:
            return "nodes without a class"
        for namespace, prefix in self._namespaces:
            if len(iri) > _MAX_SHOWN:
                break
            if iri.startswith(namespace) and _SAFE_LOCAL.fullmatch(iri[len(namespace) :]):
                return f"{prefix}:{iri[len(namespace) :]}"
        return f"<{iri}>" if len(iri) <= _MAX_SHOWN else f"<{iri[:_MAX_SHOWN]}…>"

    def counted(self, counts: Mapping[str | None, int], limit: int = 3) -> str:
        """The largest of *counts*: ``:Employee (53), :Agent (2)``."""
        ranked = sorted(counts.items(), key=lambda x: (-x[1], x[0] or ""))
        shown = ", ".join(f"{self.short(c)} ({n:,})" for c, n in ranked[:limit])
        more = len(ranked) - limit
        return f"{shown} and {more} more" if more > 0 else shown


@lru_cache(maxsize=50_000)
def _words(text: str) -> str:
    return " ".join(w for w in _CAMEL.split(text) if w).lower()


@lru_cache(maxsize=50_000)
def _trigrams(words: str) -> frozenset[str]:
    padded = f"  {words} "
    return frozenset(padded[i : i + 3] for i in range(len(padded) - 2))


def _dice(a: str, b: str) -> float:
    x, y = _trigrams(a), _trigrams(b)
    return 2 * len(x & y) / (len(x) + len(y))


def _names_of(iri: str, index: SupportIndex) -> list[str]:
    return [
        _words(local_name(iri)[:_MAX_COMPARED]),
        *(_words(text[:_MAX_COMPARED]) for text, _ in index.vocabulary.labels.get(iri, ())[:4]),
    ]


def nearest(iri: str, among: Iterable[str], index: SupportIndex, *, limit: int = 3, at_least: float = 0.3) -> list[str]:
    """The terms of *among* that are called most like *iri*, by local names and labels.

    Args:
        at_least: similarity from 0 to 1 (mean of trigram overlap and edit similarity); less is no suggestion.
    """
    among = tuple(among)
    spend(200 + 12 * len(among))
    wanted = _names_of(iri, index)
    overlaps = (
        (max(_dice(w, n) for w in wanted for n in _names_of(candidate, index)), candidate)
        for candidate in among
        if candidate != iri
    )
    coarse = sorted(overlaps, key=lambda x: (-x[0], x[1]))[:20]
    fine = []
    for overlap, candidate in coarse:
        edit = max(SequenceMatcher(None, w, n).ratio() for w in wanted for n in _names_of(candidate, index))
        fine.append(((overlap + edit) / 2, candidate))
    fine.sort(key=lambda x: (-x[0], x[1]))
    return [c for score, c in fine if score >= at_least][:limit]


def descendants(class_: str, index: SupportIndex) -> list[str]:
    """Declared subclasses, direct and further; cycles end."""
    children: dict[str, list[str]] = {}
    for sub, supers in index.vocabulary.superclasses.items():
        for s in supers:
            children.setdefault(s, []).append(sub)
    found: dict[str, None] = {}
    waiting = [class_]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found and child != class_:
                found[child] = None
                waiting.append(child)
    return list(found)


def for_class(class_: str, index: SupportIndex, names: Names) -> tuple[str, ...]:
    """Instead of a class without instances."""
    counts = index.class_instances
    below = sorted((c for c in descendants(class_, index) if counts.get(c)), key=lambda c: (-counts[c], c))
    found = [f"its subclass {names.short(c)} ({counts[c]:,} instances)" for c in below[:_MAX_SUGGESTIONS]]
    if not found:
        close = nearest(class_, (c for c in counts if counts[c]), index)
        found = [f"{names.short(c)} ({counts[c]:,} instances)" for c in close]
    return tuple(found)


def for_property(
    property_: str, index: SupportIndex, names: Names, *, subject_classes: Iterable[str] = (), object_class: str | None = None
) -> tuple[str, ...]:
    """Instead of a property that nodes of *subject_classes* do not have, or that does not lead to *object_class*."""
    found: list[str] = []
    users = index.subject_classes(property_)
    for c in subject_classes:
        table = index.properties_of(c)
        if any(c in index.targets(user, property_) for user in users):
            found.append(
                f"the other direction: {names.short(property_)} leads to {names.short(c)}, from {names.counted(users)}"
            )
        fits = [p for p in table if p != index.class_predicate]
        if object_class is not None:
            fits = [p for p in fits if object_class in index.targets(c, p)]
        close = nearest(property_, fits, index)
        if object_class is not None and not close:
            close = sorted(fits, key=lambda p: (-table[p], p))[:2]
        alike = [f"{names.short(p)} ({names.short(c)} has {table[p]:,})" for p in close]
        ways = _two_hops(c, property_, index, names)
        # a property that others have is no slip of the pen: it is meant, and reached over a neighbour
        found += [*alike, *ways] if object_class is not None else [*ways, *alike]
        found += _other_ways(c, property_, index, names)
        if not found and not users:
            most_used = sorted((p for p in table if p != index.class_predicate), key=lambda p: (-table[p], p))[:3]
            found += [f"what {names.short(c)} has: {', '.join(map(names.short, most_used))}"] if most_used else []
    if not subject_classes and not users:
        found += [f"{names.short(p)}" for p in nearest(property_, index.properties, index)]
    elif users:
        most = sorted(users.items(), key=lambda x: (-x[1], x[0] or ""))[:2]
        found += [f"{names.short(property_)} of {names.short(c)} ({n:,})" for c, n in most if c]
    return tuple(dict.fromkeys(found))[:_MAX_SUGGESTIONS]


def for_node(iri: str, supports: Supports, names: Names) -> tuple[str, ...]:
    """Instead of an IRI that is no node: the same with a slip of the pen less, else nodes that are called alike."""
    table = supports.index.nodes
    found = [c for c in _slips(iri) if c != iri and table is not None and table.kind(c) is not None]
    if not found and supports.observed is not None:
        found = supports.observed.called(_words(local_name(iri)[:_MAX_COMPARED]))
    return tuple(names.short(c) for c in dict.fromkeys(found))[:_MAX_SUGGESTIONS]


def _slips(iri: str) -> Iterator[str]:
    """What *iri* may have been meant to be: the other scheme, separator, case of the first letter, or form of a blank."""
    local = local_name(iri)
    space = iri.removesuffix(local) if local else iri
    spaces = [space]
    if space.startswith("http"):
        spaces.append(f"http{space[5:]}" if space.startswith("https") else f"https{space[4:]}")
    for s in spaces:
        for ending in dict.fromkeys((s[-1:], "#", "/")):
            for name in (local, local[:1].swapcase() + local[1:], local.replace(" ", "_"), local.replace("_", "-")):
                yield s[:-1] + ending + name
        yield s + local + "/"
    yield iri.rstrip("/")


def _other_ways(class_: str, property_: str, index: SupportIndex, names: Names) -> list[str]:
    """Another property, or one backwards, between the class and the classes that *property_* leads to."""
    goals = {
        t for user in index.subject_classes(property_) for t in index.targets(user, property_)
    } & index.class_instances.keys()
    ways: list[tuple[int, str]] = []
    for q in index.properties_of(class_):
        for goal in goals & index.targets(class_, q).keys():
            if q != property_ and goal is not None:
                ways.append((index.targets(class_, q)[goal], f"{names.short(q)}, which leads to {names.short(goal)}"))
    for q, sources in index.properties_into(class_).items():
        for goal in goals & sources.keys():
            if q != property_ and goal is not None:
                ways.append((sources[goal], f"^{names.short(q)}, which leads to {names.short(goal)}"))
    return [text for _, text in sorted(ways, key=lambda w: (-w[0], w[1]))[:2]]


def _two_hops(class_: str, property_: str, index: SupportIndex, names: Names) -> list[str]:
    """``q/p`` where the class has q, and what q leads to has p; ``^q/p`` where what has p points at the class by q."""
    ways: list[tuple[int, str]] = []
    for q in index.properties_of(class_):
        if q in (index.class_predicate, property_):
            continue
        for middle, n in index.targets(class_, q).items():
            if middle is not None and index.targets(middle, property_):
                ways.append((n, f"by way of {names.short(middle)}: {names.short(q)}/{names.short(property_)}"))
    for q, sources in index.properties_into(class_).items():
        if q == property_:
            continue
        for middle, n in sources.items():
            if middle is not None and index.targets(middle, property_):
                ways.append((n, f"by way of {names.short(middle)}: ^{names.short(q)}/{names.short(property_)}"))
    return [text for _, text in sorted(ways, key=lambda w: (-w[0], w[1]))[:2]]
