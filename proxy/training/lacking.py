"""Questions about what a graph does not have, made of questions about what it has: no answer to them is right.

A gate that has only seen answerable questions does not know what to refuse. So one noun that names something of the graph is
replaced by one that nothing in this graph is like: "the *population* of Seal Island" becomes "the *dialect* of Seal Island".
"""

from __future__ import annotations

import re
import zlib

from proxy.nl.coverage import Coverage
from proxy.nl.linking import Linker
from proxy.nl.words import expand, stem

FAR = 0.45
"""Cosine below which a noun is like nothing in the graph."""
NOUNS = """
blood passport antenna recipe sculpture mortgage orchestra parachute vaccine satellite diploma landlord
costume trophy helmet barcode umbrella fertiliser lawyer dialect allergy furniture pension voltage bacteria
anthem verdict ballot calorie dowry gearbox hostage curator fossil glacier ransom subtitle warranty thesis
orbit plumbing religion hairstyle refund mascot toll latitude tattoo sibling
""".split()
"""Of many subjects."""


def lacking(question: str, linker: Linker) -> str | None:
    """*question* with a noun of the graph's replaced; which and by what depends on its text only. None where it has no such
    noun or every noun is like something in the graph."""
    number = zlib.crc32(question.encode())
    items, mentions = linker.read(expand(question))
    nouns = {w for w, is_noun in Coverage(linker, items, mentions).words if is_noun and w in linker.schema_stems}
    places = [i for i in items if i.kind == "word" and stem(i.lower) in nouns]
    terms = [c.words[0] for c in linker.classes] + [a.words[0] for a in linker.attributes]
    cosines = linker.encode(NOUNS) @ linker.encode(terms).T
    unknown = [n for n, row in zip(NOUNS, cosines, strict=True) if row.max() < FAR and stem(n) not in linker.schema_stems]
    if not places or not unknown:
        return None
    place, noun = places[number % len(places)], unknown[number % len(unknown)]
    return re.sub(rf"\b{re.escape(place.text)}\b", noun + ("s" if place.text.endswith("s") else ""), question, count=1)
