"""Read what a TTQL document says from the graph: exact counts along paths, and examples from a sample of each class.

The first hop of every class comes first, then the second of all, and so on, in the order of the ranking: what the bounds on
queries and time cut off is depth, never a class. What a query does not bring is counted over the sample instead, and marked so;
what that does not bring either is taken from the matrix, with its frequency unknown.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field

from proxy.index import chunks
from proxy.index import ttql_queries as queries
from proxy.index.build import Row, number, text
from proxy.index.support import SupportIndex
from proxy.index.ttql import Document
from proxy.index.ttql_grow import (
    Branch,
    EdgeKey,
    Expected,
    Reading,
    Rules,
    complete,
    expected,
    grow,
    kinds_at_ends,
    missing,
    pattern,
    read_edges,
    read_examples,
)
from proxy.index.ttql_queries import Nodes, Route, Sample
from proxy.index.ttql_rank import has_subjects_without_class, ranked
from proxy.index.ttql_select import with_prefixes
from proxy.pipeline.asking import Asker, Failure
from proxy.query.term import Iri

ROWS_MOST = 100_000
"""Solutions of one counting query."""
GROUPS_AT_ONCE = 10
"""Groups of literals without an example that one query asks for."""
EXAMPLE_ROWS_MOST = 5_000
"""Literals that one look at a sample brings; groups left without an example are asked for by themselves."""


@dataclass(frozen=True, slots=True)
class HarvestSettings:
    """How much is read.

    depth: edges on a path. sample: instances per class that examples come from (and, where counting fails, estimates).
    rare: instances with each property that the sample holds at least, where there are as many. examples: per group of literals.
    floor: share of the nodes of a path under which an edge below the root is left out and a target is not followed.
    queries_most, elapsed_most_s, lines_most: then paths are not followed further.
    """

    depth: int = 3
    sample: int = 100
    rare: int = 2
    examples: int = 3
    floor: float = 0.01
    queries_most: int = 5_000
    elapsed_most_s: float = 300.0
    lines_most: int = 50_000
    excluded_namespaces: tuple[str, ...] = ()


@dataclass(slots=True)
class Harvested:
    """The document, unpruned, and what it cost. *incomplete*: what could not be counted exactly, a sentence each."""

    document: Document
    queries: int
    elapsed_s: float
    incomplete: list[str] = field(default_factory=list)


async def harvest(
    asker: Asker, index: SupportIndex, settings: HarvestSettings, *, classes: Collection[str] | None = None
) -> Harvested:
    """Describe the graph that *asker* reads, from each of its classes.

    Args:
        classes: only the patterns of these; None: of all, and of the subjects without a class.
    Raises:
        BackendUnreachable: the backend is gone.
    """
    return await _Run(asker, index, settings).run(classes)


class _Run:
    def __init__(self, asker: Asker, index: SupportIndex, settings: HarvestSettings) -> None:
        self._asker = asker
        self._index = index
        self._settings = settings
        self._queries_before = asker.queries
        self._started = time.perf_counter()
        self._instances = dict(index.class_instances)
        self._expected = expected(index)
        self._readings: dict[Route, Reading] = {}
        self._sizes: dict[Route, int | None] = {}
        self._samples: dict[str | None, Sample | None] = {}
        self._incomplete: list[str] = []
        self._is_out_of_bounds = False
        self._lines = 0

    async def run(self, classes: Collection[str] | None) -> Harvested:
        settings, index = self._settings, self._index
        roots: list[str | None] = [c for c in ranked(index) if chunks.is_writable(c) and (classes is None or c in classes)]
        if classes is None and has_subjects_without_class(index):
            roots.append(None)
        await self._count_instances()
        with_edges = {
            c
            for c, edges in self._expected.items()
            if any(not is_inverse for _, is_inverse in edges) and (c is None or chunks.is_writable(c))
        }
        rules = Rules(settings.depth, settings.floor, self._instances, with_edges, kinds_at_ends(index))
        branches = [Branch(c, Route(c)) for c in roots]
        opened = branches
        for hop in range(1, settings.depth + 1):
            await self._read(f"paths of length {hop}", opened)
            opened = self._grow(opened, rules)
        patterns = tuple(
            pattern(b, instances=self._readings[b.route].nodes, sample=self._readings[b.route].sample)
            for b in branches
            if b.route in self._readings
        )
        elapsed_s = time.perf_counter() - self._started
        document = with_prefixes(Document(patterns, {}, tuple(self._notes())))
        return Harvested(document, self._asker.queries - self._queries_before, elapsed_s, self._incomplete)

    def _notes(self) -> Iterable[str]:
        settings = self._settings
        yield (
            f"TTQL: paths of up to {settings.depth} edges; examples from {settings.sample} instances of each class; "
            f"below the first edge nothing rarer than {settings.floor:g}"
        )
        if self._is_out_of_bounds:
            yield (
                f"not all paths were followed: the bound of {settings.queries_most} queries or {settings.elapsed_most_s:g} s "
                f"was reached"
            )
        if self._lines > settings.lines_most:
            yield f"not all paths were followed: the bound of {settings.lines_most} lines was reached"
        for sentence in self._incomplete:
            yield " ".join(f"incomplete: {sentence}".split())

    # -- asking

    async def _ask(self, query: str, *, limit_rows: int = ROWS_MOST) -> list[Row] | Failure:
        return await self._asker.ask(query, limit_rows=limit_rows)

    def _may_go_on(self) -> bool:
        queries, elapsed_s = self._asker.queries - self._queries_before, time.perf_counter() - self._started
        if queries >= self._settings.queries_most or elapsed_s >= self._settings.elapsed_most_s:
            self._is_out_of_bounds = True
        return not self._is_out_of_bounds

    async def _count_instances(self) -> None:
        """Count again, so that all shares are of one time; without an answer the counts of the index stand."""
        rows = await self._ask(chunks.classes(self._index.class_predicate))
        if not isinstance(rows, Failure):
            self._instances = {c.value: number(row["n"]) for row in rows if isinstance(c := row["c"], Iri)}

    # -- paths

    async def _read(self, phase: str, branches: Sequence[Branch]) -> None:
        # What the hop before has counted is not counted again.
        self._sizes |= {b.route: b.nodes for b in branches if b.nodes is not None and b.route.steps}
        routes = [r for r in dict.fromkeys(b.route for b in branches) if r not in self._readings]

        async def read(route: Route) -> None:
            if not route.steps or self._may_go_on():
                reading = await self._reading(route)
                if reading is not None:
                    self._readings[route] = reading

        await self._asker.each(phase, routes, read)

    def _grow(self, branches: Sequence[Branch], rules: Rules) -> list[Branch]:
        opened: list[Branch] = []
        for branch in branches:
            reading = self._readings.get(branch.route)
            if reading is not None and (branch.depth == 0 or self._lines <= self._settings.lines_most):
                opened += grow(branch, reading, rules)
                self._lines += branch.lines
        return opened

    def _nodes(self, route: Route, sample: Sample | None = None) -> Nodes:
        return Nodes(self._index.class_predicate, route, sample, cap=10 * self._settings.sample)

    async def _reading(self, route: Route) -> Reading | None:
        """Count the edges at the end of *route*, and find examples; None: nothing could be learnt."""
        nodes = self._nodes(route)
        if route not in self._sizes:
            self._sizes[route] = await self._size(route)
        reading = Reading(self._sizes[route])
        if not route.steps and not self._may_go_on():
            complete(reading, self._wanted(route.root))
            return reading
        failed = None
        for is_inverse in (False, True) if self._has_inverse(route) else (False,):
            failed = await self._count(reading, nodes, is_inverse=is_inverse) or failed
        sample = await self._sample(route.root)
        reading.sample = reading.nodes or 0 if sample is None else len(sample)
        if route.steps:
            if failed is not None and not await self._estimate(reading, route, sample, failed):
                return None
        else:
            await self._complete(reading, nodes, sample, failed)
        await self._find_examples(reading, nodes, self._nodes(route, sample))
        return reading

    async def _size(self, route: Route) -> int | None:
        if not route.steps and route.root is not None:
            return self._instances.get(route.root, 0)
        rows = await self._ask(queries.size(self._nodes(route)))
        return None if isinstance(rows, Failure) or not rows else number(rows[0]["n"])

    def _has_inverse(self, route: Route) -> bool:
        return not route.steps and any(is_inverse for _, is_inverse in self._wanted(route.root))

    def _wanted(self, class_: str | None) -> dict[EdgeKey, Expected]:
        """What the matrix has of *class_*; of subjects without a class only what leads out of them."""
        edges = self._expected.get(class_, {})
        return {key: edge for key, edge in edges.items() if class_ is not None or not key[1]}

    async def _count(
        self,
        reading: Reading,
        nodes: Nodes,
        *,
        is_inverse: bool,
        property_: str | None = None,
        of: int | None = None,
    ) -> Failure | None:
        """Count all edges, or one, into *reading*; *of*: how many nodes there are where *nodes* are a sample."""
        rows = await self._ask(queries.edges(nodes, is_inverse=is_inverse, property_=property_))
        if isinstance(rows, Failure):
            return rows
        whole, is_estimated = (reading.nodes or 0, False) if of is None else (of, True)
        found = read_edges(rows, of=whole, is_inverse=is_inverse, property_=property_, is_estimated=is_estimated)
        # As in the index: nothing is said of these.
        for p in [p for p, _ in found if p.startswith(self._settings.excluded_namespaces) or not chunks.is_writable(p)]:
            del found[p, is_inverse]
        split = sorted(p for (p, _), edge in found.items() if edge.is_split)
        if split:
            rows = await self._ask(queries.holders(nodes, split, is_inverse=is_inverse))
            if isinstance(rows, Failure):
                return rows
            for row in rows:
                found[text(row["p"]), is_inverse].holders = number(row["n"])
        reading.edges |= found
        return None

    async def _estimate(
        self, reading: Reading, route: Route, sample: Sample | None, failed: Failure, *, keys: Sequence[EdgeKey] = ()
    ) -> bool:
        """Count over the sample what could not be counted over all; False if that fails too."""
        self._incomplete.append(f"{_path(route)}: {failed.reason}; counted over the sample")
        if sample is None:
            return False
        nodes = self._nodes(route, sample)
        rows = await self._ask(queries.size(nodes))
        if isinstance(rows, Failure) or not rows:
            return False
        size = number(rows[0]["n"])
        known = dict(reading.edges)
        for is_inverse in {is_inverse for _, is_inverse in keys} or {False}:
            if await self._count(reading, nodes, is_inverse=is_inverse, of=size) is not None:
                return False
        reading.edges |= known  # an exact count stays
        return True

    async def _complete(self, reading: Reading, nodes: Nodes, sample: Sample | None, failed: Failure | None) -> None:
        """See to it that a root shows every edge that the matrix has: edge by edge, over the sample, or as unknown."""
        wanted = self._wanted(nodes.route.root)
        for property_, is_inverse in missing(reading, wanted):
            if self._may_go_on():
                part = await self._count(reading, nodes, is_inverse=is_inverse, property_=property_)
                failed = part or failed
        lacking = missing(reading, wanted)
        if lacking and failed is not None and self._may_go_on():
            await self._estimate(reading, nodes.route, sample, failed, keys=lacking)
        if number_of_unknown := complete(reading, wanted):
            name = nodes.route.root or "_"
            self._incomplete.append(f"{name}: {number_of_unknown} edges are known from the index only")

    # -- sample and examples

    async def _sample(self, class_: str | None) -> Sample | None:
        """Choose instances of *class_*; None: all of them. The same ones again as long as the data stay."""
        if class_ not in self._samples:
            self._samples[class_] = await self._choose(class_)
        return self._samples[class_]

    async def _choose(self, class_: str | None) -> Sample | None:
        wanted, rare = self._settings.sample, self._settings.rare
        instances = self._sizes.get(Route(class_))
        if instances is not None and instances <= wanted:
            return None
        nodes = self._nodes(Route(class_))
        chosen: dict[str, None] = {}
        for property_, share in self._shares(class_):
            # A property that the rest of the sample can be expected to hold needs no place of its own.
            if share * wanted < rare:
                chosen |= dict.fromkeys(await self._instances_of(nodes, property_, rare))
        chosen |= dict.fromkeys(await self._instances_of(nodes, None, max(0, wanted - len(chosen))))
        iris = tuple(i for i in chosen if chunks.is_writable(i))
        return Sample(iris, max(0, wanted - len(iris)) if len(iris) < wanted else 0)

    def _shares(self, class_: str | None) -> Iterable[tuple[str, float]]:
        reading = self._readings.get(Route(class_))
        if reading is None:
            triples, instances = self._index.properties_of(class_), self._instances.get(class_ or "", 0)
            return [(p, n / max(1, instances)) for p, n in sorted(triples.items()) if p != self._index.class_predicate]
        return [(p, (e.holders or 0) / max(1, e.of)) for (p, inverse), e in sorted(reading.edges.items()) if not inverse]

    async def _instances_of(self, nodes: Nodes, property_: str | None, limit: int) -> list[str]:
        for in_order in (True, False):
            if limit and self._may_go_on():
                rows = await self._ask(queries.instances(nodes, property_=property_, limit=limit, in_order=in_order))
                if not isinstance(rows, Failure):
                    return [x.value for row in rows if isinstance(x := row["x"], Iri)]
        return []

    async def _find_examples(self, reading: Reading, nodes: Nodes, sampled: Nodes) -> None:
        if not reading.groups_without_examples():
            return
        most = self._settings.examples
        rows = await self._ask(queries.literals(sampled, limit=EXAMPLE_ROWS_MOST), limit_rows=EXAMPLE_ROWS_MOST)
        failed = rows if isinstance(rows, Failure) else None
        if not isinstance(rows, Failure):
            reading.examples = read_examples(rows, most=most)
        lacking = [(p, datatype, language) for p, (datatype, language) in reading.groups_without_examples()]
        for i in range(0, len(lacking), GROUPS_AT_ONCE):
            if not self._may_go_on():
                return
            found = await self._ask(queries.literals_of(nodes, lacking[i : i + GROUPS_AT_ONCE], limit=most))
            if isinstance(found, Failure):
                failed = found
            else:
                reading.examples |= read_examples(found, most=most)
        if failed is not None and reading.groups_without_examples():
            self._incomplete.append(f"{_path(nodes.route)}: {failed.reason}; literals without examples")


def _path(route: Route) -> str:
    """*route* for people."""
    return " / ".join([route.root or "_", *(("^" if s.is_inverse else "") + s.property for s in route.steps)])
