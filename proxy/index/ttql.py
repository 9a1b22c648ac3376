"""The document model of TTQL: what a populated graph looks like from each of its classes (docs/ttql.md).

A document is a forest. A pattern is the root of one class; below it edges and targets alternate, and every frequency is a share
of the nodes that the path from the root has reached so far. Text: ``ttql_text`` and ``ttql_parse``; selection: ``ttql_select``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from proxy.query.term import XSD_STRING

_PLACES = 6


@dataclass(frozen=True, slots=True)
class Frequency:
    """A share from 0 to 1 as the text shows it; None: not known.

    is_estimated: counted over the sample of the class, not over all its instances.
    """

    share: float | None
    is_estimated: bool = False

    def __post_init__(self) -> None:
        if self.share is None and self.is_estimated:
            raise ValueError("what is not known is not estimated either")


ALWAYS = Frequency(1.0)
UNKNOWN = Frequency(None)


def frequency(part: int, whole: int, *, is_estimated: bool = False) -> Frequency:
    """Round *part* of *whole* to two decimals; to as many more as keep a rare one from 0 and a common one from 1.

    At most six decimals: then 0.000001 stands for less, and 0.999999 for more.
    """
    if not 0 <= part <= whole or whole == 0:
        return UNKNOWN  # the data changed between two counts
    if part in (0, whole):
        return Frequency(float(part == whole), is_estimated)
    for places in range(2, _PLACES + 1):
        share = round(part / whole, places)
        if 0 < share < 1:
            return Frequency(share, is_estimated)
    return Frequency(10**-_PLACES if 2 * part < whole else round(1 - 10**-_PLACES, _PLACES), is_estimated)


@dataclass(frozen=True, slots=True)
class LiteralGroup:
    """The literals of one datatype and language at the end of a path.

    language: lower case; set only for rdf:langString. frequency: of the nodes that have the property.
    examples: lexical forms as they are in the graph. is_whole: there are no others.
    """

    datatype: str = XSD_STRING
    language: str | None = None
    frequency: Frequency = ALWAYS
    examples: tuple[str, ...] = ()
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Target:
    """The nodes of *class_* (None: those without a class) that an edge leads to.

    frequency: of the nodes that have the edge, those with one that leads here. is_cut: there is more than *edges*.
    """

    class_: str | None
    frequency: Frequency = ALWAYS
    edges: tuple[Edge, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Edge:
    """A property, followed from subject to object, or (is_inverse) from object to subject.

    frequency: of the nodes that the path has reached, those that have it. is_cut: it has more targets or literals.
    """

    property: str
    is_inverse: bool = False
    frequency: Frequency = ALWAYS
    targets: tuple[Target, ...] = ()
    literals: tuple[LiteralGroup, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """What the instances of *class_* (None: subjects without a class) look like.

    instances: how many there are; None: not known. sample: how many of them the examples come from.
    is_cut: there is more than *edges*.
    """

    class_: str | None
    instances: int | None
    sample: int
    edges: tuple[Edge, ...] = ()
    is_cut: bool = False


@dataclass(frozen=True, slots=True)
class Document:
    """A TTQL document. *notes*: what was left out and what could not be read, a sentence each, without line breaks.

    prefixes: name → namespace, with which the text is written.
    """

    patterns: tuple[Pattern, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
