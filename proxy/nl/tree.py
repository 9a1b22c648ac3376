"""Join trees: instances of classes connected by edges that the index supports."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from proxy.nl.schema import Schema, Step


@dataclass(frozen=True, slots=True)
class Branch:
    """From node *source* by *step* to node *target*; nodes are positions in ``Tree.nodes``."""

    source: int
    step: Step
    target: int


@dataclass(frozen=True, slots=True)
class Tree:
    """*nodes*: the class of each. *branches*: every node but the first is the target of exactly one."""

    nodes: tuple[str, ...]
    branches: tuple[Branch, ...] = ()

    def find(self, class_: str) -> int | None:
        """The first node of *class_*."""
        return self.nodes.index(class_) if class_ in self.nodes else None

    def repeats(self, node: int, schema: Schema) -> bool:
        """Whether an instance at position *node* may be in several solutions: an edge leads away from it to more than one."""
        reached, ahead = {node}, [node]
        while ahead:
            here = ahead.pop()
            for b in self.branches:
                there = b.target if b.source == here else b.source
                if here not in (b.source, b.target) or there in reached:
                    continue
                edge, is_inverse = b.step.edge, b.step.is_inverse == (b.source == here)
                if is_inverse or edge.count > schema.classes[edge.subject_class].instances:
                    return True
                reached.add(there)
                ahead.append(there)
        return False

    def extended(self, source: int, walk: Sequence[Step]) -> Tree:
        """With *walk* attached at *source*; every node of it is new."""
        nodes, branches, here = list(self.nodes), list(self.branches), source
        for step in walk:
            nodes.append(step.target)
            branches.append(Branch(here, step, len(nodes) - 1))
            here = len(nodes) - 1
        return Tree(tuple(nodes), tuple(branches))


def attach(tree: Tree, class_: str, schema: Schema, *, limit: int = 3, max_steps: int = 4) -> list[Tree]:
    """The ways to have *class_* in *tree*: it itself if it is there, else the shortest walks from any node, at most *limit*."""
    if class_ in tree.nodes:
        return [tree]
    found: list[tuple[int, int, Tree]] = []
    for i, node in enumerate(tree.nodes):
        for walk in schema.paths(node, class_, limit=limit, max_steps=max_steps):
            found.append((len(walk), i, tree.extended(i, walk)))
    found.sort(key=lambda x: (x[0], x[1]))
    shortest = found[0][0] if found else 0
    return [t for length, _, t in found if length <= shortest + 1][:limit]


def connect(classes: Sequence[str], schema: Schema, *, limit: int = 4, max_nodes: int = 6) -> list[Tree]:
    """Trees that hold every one of *classes*, rooted at the first; few nodes first, at most *limit*."""
    trees = [Tree((classes[0],))]
    for class_ in dict.fromkeys(classes[1:]):
        trees = [extended for t in trees for extended in attach(t, class_, schema)]
        trees = sorted((t for t in trees if len(t.nodes) <= max_nodes), key=lambda t: len(t.nodes))[: 2 * limit]
    return trees[:limit]
