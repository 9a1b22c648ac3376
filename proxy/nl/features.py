"""What the ranking sees of a candidate: how well its links fit, what of the question it covers, how far it had to reach."""

from __future__ import annotations

from collections.abc import Sequence

from proxy.nl.anchors import Anchor
from proxy.nl.coverage import Coverage
from proxy.nl.ir import Aggregate, Operator
from proxy.nl.linking import Linker
from proxy.nl.plan import Plan, owner
from proxy.nl.schema import Attribute, ClassTerm
from proxy.nl.sketch import Item, Sketch
from proxy.nl.tree import Tree
from proxy.nl.words import STOPWORDS, stem, stems


def features(
    items: Sequence[Item],
    linker: Linker,
    plan: Plan,
    tree: Tree,
    walk: Tree | None,
    scores: dict[str, float],
    sketch: Sketch,
    rank: int,
    anchors: Sequence[Anchor],
    coverage: Coverage,
) -> dict[str, float]:
    """The features of *plan*, joined by *tree* (and by *walk* to what must be absent), with the *scores* of its links."""
    question = [stem(i.lower) for i in items if i.kind == "word" and i.lower not in STOPWORDS]
    asked = set(question)
    terms: list[Attribute | ClassTerm] = [s.term for s in plan.shown]
    terms += [c.attribute for c in (*plan.conditions, *plan.also, *plan.absent, *plan.either)]
    terms += [x.attribute for c in plan.conditions for x in c.within] + ([plan.besides] if plan.besides is not None else [])
    if plan.group is not None:
        terms.append(plan.group)
    if plan.sorting is not None and plan.sorting.term is not None:
        terms.append(plan.sorting.term)
    nodes = list(tree.nodes) + (list(walk.nodes[1:]) if walk is not None else [])
    class_stems = {s for c in nodes for w in linker.schema.classes[c].words[:2] for s in stems(w)}
    class_stems |= {s for s, c in linker.heads.items() if c in nodes}
    term_stems = {s for t in terms for s in stems(t.words[0])}
    branches = tree.branches + (walk.branches if walk is not None else ())
    edge_stems = [frozenset(stems(b.step.edge.words)) - class_stems for b in branches]
    edges_said = sum(1.0 for e in edge_stems if e and e & asked)
    covered = asked & (class_stems | term_stems | {s for e in edge_stems for s in e})
    mentioned = {a.class_ for a in anchors if a.score >= 0.6} | {owner(t) for t in terms}
    strong = {a.class_ for a in anchors if a.score >= 0.99}
    shown_stems = {s for x in plan.shown for s in stems(x.term.words[0])}
    known = asked & linker.schema_stems
    owners = {owner(t) for t in terms}
    constrained = {c.attribute for c in plan.conditions if c.operator is Operator.EQUAL and c.against is None}
    sorted_by = plan.sorting.term if plan.sorting is not None else None
    said = [w for c in nodes for w in linker.schema.classes[c].words[:2]] + [w for t in terms for w in t.words[:2]]
    said += [b.step.edge.words for b in branches] + [w for c in owners for w in linker.schema.classes[c].words[:2]]
    context = {s for x in sketch.select for s in stems(x.context)}
    unsaid_owner = [
        x.term for x in plan.shown
        if isinstance(x.term, Attribute) and context and not context & _owner_stems(x.term, linker)
        and owner(x.term) not in strong
    ]  # fmt: skip
    condition_stems = {
        s for c in (*plan.conditions, *plan.also, *plan.absent, *plan.either) for s in stems(c.attribute.words[0])
    }
    return {
        **scores,
        **coverage.features(plan, said, sketch),
        "owner_unsaid": float(bool(unsaid_owner)),
        "coverage": len(covered) / max(1, len(asked)),
        "precision": len(term_stems & asked) / max(1, len(term_stems)),
        "shown_precision": len(shown_stems & asked) / max(1, len(shown_stems)),
        "known_covered": len(known & covered) / max(1, len(known)),
        "known_missed": float(len(known - covered)),
        "owners": float(len(owners)),
        "owners_anchored": len(owners & strong) / max(1, len(owners)),
        "condition_precision": len(condition_stems & asked) / max(1, len(condition_stems)),
        "order_precision": _share(sorted_by, asked),
        "group_precision": _share(plan.group, asked),
        "shown_constrained": float(any(s.aggregate is None and s.term in constrained for s in plan.shown)),
        "order_shown": float(any(s.term == sorted_by for s in plan.shown)),
        "order_text": float(isinstance(sorted_by, Attribute) and not (sorted_by.is_number or sorted_by.is_temporal)),
        "composite": float(any(isinstance(t, Attribute) and len(t.path) > 1 for t in terms)),
        "average_of_id": float(
            any(_is_identifier(s.term) for s in plan.shown if s.aggregate not in (None, Aggregate.COUNT))
        ),
        "compared_id": float(
            any(c.numbers and c.operator is not Operator.EQUAL and _is_identifier(c.attribute) for c in plan.conditions)
        ),
        "order_id": float(plan.sorting is not None and plan.sorting.limit is not None and _is_identifier(sorted_by)),
        "nodes": float(len(tree.nodes)),
        "bridges": float(sum(1 for c in tree.nodes if c not in mentioned)),
        "anchors_missed": float(len(strong - set(nodes))) / max(1, len(strong)),
        "edges_said": edges_said / max(1, len(branches)),
        "shown_anchored": float(bool(plan.shown) and owner(plan.shown[0].term) in strong),
        "shown_class": float(any(isinstance(s.term, ClassTerm) and s.aggregate is None for s in plan.shown)),
        "count_class": float(any(isinstance(s.term, ClassTerm) and s.aggregate is Aggregate.COUNT for s in plan.shown)),
        "count_attribute": float(
            any(isinstance(s.term, Attribute) and s.aggregate is Aggregate.COUNT for s in plan.shown)
        ),
        "order_count": float(plan.sorting is not None and isinstance(plan.sorting.term, ClassTerm)),
        "order_rows": float(plan.sorting is not None and plan.sorting.term is None),
        "having": float(plan.counted is not None),
        "absent": float(bool(plan.absent) or plan.absent_class is not None),
        "also": float(bool(plan.also)),
        "either": float(bool(plan.either)),
        "either_said": float(sketch.is_union == bool(plan.either or _has_alternatives(plan))),
        "besides": float(plan.besides is not None),
        "absent_shares_value": float(plan.absent_shares_value),
        "scoped": float(any(c.within for c in plan.conditions)),
        "both_said": float(sketch.is_both == bool(plan.also)),
        "sketch_rank": float(rank),
        f"note:{sketch.note}": float(bool(sketch.note)),
    }  # fmt: skip


def _owner_stems(term: Attribute, linker: Linker) -> set[str]:
    return {s for w in linker.schema.classes[term.subject_class].words for s in stems(w)}


def _has_alternatives(plan: Plan) -> bool:
    return any(c.operator is Operator.IN or c.otherwise is not None for c in plan.conditions)


def _is_identifier(term: Attribute | ClassTerm | None) -> bool:
    """Whether *term* only tells things apart, so that its order and its average mean nothing."""
    return term is not None and term.words[0].split()[-1] in ("id", "identifier", "code")


def _share(term: Attribute | ClassTerm | None, asked: set[str]) -> float:
    """Share of the term's words that the question has."""
    own = set(stems(term.words[0])) if term is not None else set()
    return len(own & asked) / len(own) if own else 0.0
