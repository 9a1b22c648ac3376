"""English function words and what they ask for. Words of grammar and measure only; none of any subject matter."""

from __future__ import annotations

from collections.abc import Mapping

from proxy.nl.ir import Aggregate

NUMBER_WORDS: Mapping[str, float] = {
    w: float(i) for i, w in enumerate("zero one two three four five six seven eight nine ten eleven twelve".split())
} | {"once": 1.0, "twice": 2.0, "hundred": 100.0, "thousand": 1000.0, "million": 1e6}

DIMENSIONS: Mapping[str, tuple[str, bool]] = {
    "oldest": ("age", True), "eldest": ("age", True), "youngest": ("age", False), "newest": ("date", True),
    "latest": ("date", True), "earliest": ("date", False), "longest": ("length", True), "shortest": ("length", False),
    "tallest": ("height", True), "heaviest": ("weight", True), "lightest": ("weight", False),
    "cheapest": ("price", False), "priciest": ("price", True), "fastest": ("speed", True), "slowest": ("speed", False),
    "largest": ("size", True), "biggest": ("size", True), "smallest": ("size", False), "highest": ("", True),
    "lowest": ("", False), "greatest": ("", True), "most": ("", True), "least": ("", False), "fewest": ("", False),
    "maximum": ("", True), "minimum": ("", False), "max": ("", True), "min": ("", False), "best": ("rank", True),
    "worst": ("rank", False), "richest": ("income", True), "poorest": ("income", False), "top": ("", True),
    "deepest": ("depth", True), "widest": ("width", True), "hottest": ("temperature", True), "lower": ("", False),
    "coldest": ("temperature", False), "farthest": ("distance", True), "nearest": ("distance", False),
    "strongest": ("strength", True), "weakest": ("strength", False), "shallowest": ("depth", False),
    "narrowest": ("width", False), "thickest": ("thickness", True), "thinnest": ("thickness", False),
}  # fmt: skip
"""Superlatives → the dimension they measure when no noun says it, and whether the greatest value wins."""

MOST_ADJECTIVES: Mapping[str, str] = {
    "expensive": "price", "recent": "date", "recently": "date", "popular": "", "common": "", "frequent": "",
    "frequently": "", "often": "", "populous": "population", "populated": "population", "costly": "cost",
    "valuable": "value", "senior": "age", "used": "",
}  # fmt: skip

HOW: Mapping[str, str] = {
    "old": "age", "tall": "height", "long": "length duration", "heavy": "weight", "large": "size", "big": "size",
    "far": "distance", "high": "height", "deep": "depth", "wide": "width", "fast": "speed", "expensive": "price",
    "often": "frequency",
}  # fmt: skip

COMPARATIVES: Mapping[str, tuple[str, bool]] = {
    "more": ("", True), "greater": ("", True), "larger": ("", True), "higher": ("", True), "bigger": ("size", True),
    "older": ("age", True), "heavier": ("weight", True), "longer": ("length", True), "taller": ("height", True),
    "later": ("date", True), "newer": ("date", True), "faster": ("speed", True), "over": ("", True), "above": ("", True),
    "exceeding": ("", True), "exceed": ("", True), "exceeds": ("", True), "after": ("date year", True), "beyond": ("", True),
    "better": ("", True), "since": ("date year", True),
    "less": ("", False), "fewer": ("", False), "smaller": ("", False), "lower": ("", False), "younger": ("age", False),
    "lighter": ("weight", False), "shorter": ("length", False), "earlier": ("date", False), "below": ("", False),
    "deeper": ("depth", True), "shallower": ("depth", False), "wider": ("width", True), "narrower": ("width", False),
    "hotter": ("temperature", True), "colder": ("temperature", False), "stronger": ("strength", True),
    "weaker": ("strength", False), "richer": ("income", True), "poorer": ("income", False),
    "under": ("", False), "before": ("date year", False), "cheaper": ("price", False), "slower": ("speed", False),
}  # fmt: skip

AGGREGATES: Mapping[str, Aggregate] = {
    "average": Aggregate.AVG, "mean": Aggregate.AVG, "avg": Aggregate.AVG, "total": Aggregate.SUM, "sum": Aggregate.SUM,
    "maximum": Aggregate.MAX, "max": Aggregate.MAX, "minimum": Aggregate.MIN, "min": Aggregate.MIN,
    "maximal": Aggregate.MAX, "minimal": Aggregate.MIN, "highest": Aggregate.MAX, "lowest": Aggregate.MIN,
    "largest": Aggregate.MAX, "smallest": Aggregate.MIN, "greatest": Aggregate.MAX, "longest": Aggregate.MAX,
    "shortest": Aggregate.MIN, "earliest": Aggregate.MIN, "latest": Aggregate.MAX, "oldest": Aggregate.MAX,
    "youngest": Aggregate.MIN, "biggest": Aggregate.MAX, "least": Aggregate.MIN,
}  # fmt: skip

LEAD = frozenset(
    """what which who whom whose list show find give return tell display please can could you me us the a an is are was were
    all of different distinct unique get select report state identify provide determine search name names count i want to
    know would like compute calculate do does did we have has had there each every any some their its his her for our
    various possible existing available also both how many much and both in
    """.split()
) - {"name", "names", "how", "many", "much", "in", "for", "of"}
VERBS_OF_REQUEST = frozenset(
    "list show find give return tell display count report state what which who how compute calculate".split()
)
BREAKS = frozenset(
    """that who whom whose which where when while with without having has have had is are was were be been do does did not
    in from at on by than for whose to during through since until if and or but as sorted ordered order sort ranked ranking
    list show give return according equal containing contain contains located held owned used made named called starting
    ending between into under over above below after before more less fewer greater larger higher lower older younger least
    most there across along does can will among amongst
    """.split()
)  # fmt: skip
PAIRED = frozenset(
    """first last middle given family start end starting ending open close opening closing arrival departure birth death
    source destination home away old new begin minimum maximum checking savings""".split()
)
FURTHER = frozenset("number average total maximum minimum count mean sum".split())
NEGATIONS = frozenset("not no non never nothing without lack lacks lacking neither nor except excluding n't cannot".split())
UNITS = frozenset(
    """year month week day hour minute second dollar euro pound percent kg gram kilogram ton tonne km meter metre kilometer
    kilometre centimeter centimetre foot inch mile litre liter knot""".split()
)
"""Words behind a number that say what it counts in, and name nothing of the graph."""
AUXILIARY = frozenset("is are was were does do did has have had can will".split())
FILLERS = frozenset(
    "the a an their its all both and , corresponding respective his her as well along together".split()
    + "different distinct & also unique any then of each".split()
)
"""What may stand between two things to be shown."""
WHEN_AND_WHERE: Mapping[str, str] = {"when": "date", "where": "location"}
"""Question words → the attribute that they ask for."""
ALSO_NOUNS = frozenset("state report display search".split())
"""Verbs of request that are nouns behind an article."""
