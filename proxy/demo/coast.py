"""The demo graph: a register of harbours and vessels on an invented coast, the same on every machine.

Made in memory in less than a tenth of a second, so that no data file is kept in the repository.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from importlib.resources import files
from random import Random
from typing import TypeVar

from proxy.demo import names
from proxy.query.term import RDF_TYPE, RDFS_LABEL, XSD

SEED = 1847
NAMESPACE = "https://sparlance.example/harbour#"
THINGS = "https://sparlance.example/coast/"
LANGUAGES = ("en", "de", "fi")
SUPERCLASSES = {
    "Island": "Place", "Harbour": "Place", "Lighthouse": "Place", "Ferry": "Vessel", "CargoShip": "Vessel",
    "Tugboat": "Vessel", "Captain": "Person",
}  # fmt: skip

T = TypeVar("T")


def ontology() -> str:
    """The vocabulary, in Turtle."""
    return (files("proxy.demo") / "ontology.ttl").read_text(encoding="utf-8")


def graph() -> str:
    """The register, in N-Triples, without the vocabulary."""
    return "".join(_Register(Random(SEED)).lines())


class _Register:
    """Makes everything in an order in which nothing refers to what does not exist yet."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._lines: list[str] = []

    def lines(self) -> Iterator[str]:
        islands = self._islands()
        harbours = self._harbours(islands)
        self._lighthouses(islands, harbours)
        companies = self._companies(harbours)
        vessels = self._vessels(harbours, companies, self._captains())
        self._port_calls(vessels, harbours, self._commodities())
        yield from self._lines

    # -- dice: Random.random() is the one method whose sequence Python promises to keep

    def _between(self, low: float, high: float, *, digits: int = 1) -> float:
        return round(low + (high - low) * self._random.random(), digits)

    def _whole(self, low: int, high: int) -> int:
        return low + int((high - low + 1) * self._random.random())

    def _one(self, of: Sequence[T]) -> T:
        return of[self._whole(0, len(of) - 1)]

    def _day(self, first: int, last: int) -> date:
        days = (date(last, 12, 31) - date(first, 1, 1)).days
        return date(first, 1, 1) + timedelta(days=self._whole(0, days))

    # -- triples

    def _add(self, subject: str, property_: str, *objects: object) -> None:
        predicate = property_ if ":" in property_ else NAMESPACE + property_
        self._lines += [f"<{subject}> <{predicate}> {_term(o)} .\n" for o in objects]

    def _thing(self, class_: str, local: str, *labels: tuple[str, str]) -> str:
        iri = f"{THINGS}{class_.lower()}/{local}"
        for c in filter(None, (class_, SUPERCLASSES.get(class_))):
            self._lines.append(f"<{iri}> <{RDF_TYPE}> <{NAMESPACE}{c}> .\n")
        for text, language in labels:
            self._lines.append(f'<{iri}> <{RDFS_LABEL}> "{text}"@{language} .\n')
        return iri

    def _named_place(self, class_: str, stem: Sequence[str], ending: Sequence[str]) -> str:
        labels = [(s + e, language) for s, e, language in zip(stem, ending, LANGUAGES, strict=True)]
        return self._thing(class_, _local(labels[0][0]), *labels)

    # -- the register

    def _islands(self) -> list[str]:
        made = []
        for i, stem in enumerate(names.STEMS[2::2]):
            island = self._named_place("Island", stem, names.ISLAND_ENDINGS[i % 4 == 3])
            self._add(island, "areaKm2", self._between(0.4, 96))
            if i % 4 != 3:  # nobody lives on a skerry, and then the register is silent
                self._add(island, "population", self._whole(12, 5200))
            made.append(island)
        return made

    def _harbours(self, islands: Sequence[str]) -> list[str]:
        made = []
        for i, stem in enumerate(names.STEMS):
            harbour = self._named_place("Harbour", stem, names.HARBOUR_ENDINGS[i % len(names.HARBOUR_ENDINGS)])
            self._add(harbour, "depthM", self._between(3.2, 16.5))
            self._add(harbour, "berths", self._whole(2, 28))
            self._add(harbour, "opened", self._day(1780, 1985))
            if i % 5:  # the others are on the mainland
                self._add(harbour, "island", self._one(islands))
            made.append(harbour)
        return made

    def _lighthouses(self, islands: Sequence[str], harbours: Sequence[str]) -> None:
        for i, stem in enumerate(names.STEMS[1::2]):
            lighthouse = self._named_place("Lighthouse", stem, names.LIGHT_ENDINGS[i % 2])
            self._add(lighthouse, "heightM", self._between(11, 68))
            self._add(lighthouse, "litSince", self._day(1790, 1930))
            self._add(lighthouse, "island", self._one(islands))
            self._add(lighthouse, "guides", self._one(harbours))

    def _companies(self, harbours: Sequence[str]) -> list[str]:
        made = []
        for name in names.COMPANIES:
            company = self._thing("ShippingCompany", _local(name), (name, "en"))
            self._add(company, "founded", self._day(1890, 2010))
            self._add(company, "headquarters", self._one(harbours))
            made.append(company)
        return made

    def _captains(self) -> list[str]:
        made = []
        for i, given in enumerate(names.GIVEN):
            name = f"{given} {names.FAMILY[(i * 5) % len(names.FAMILY)]}"
            captain = self._thing("Captain", _local(name), (name, "en"))
            self._add(captain, "born", self._day(1958, 1994))
            self._add(captain, "licenceNumber", f"SK-{self._whole(10_000, 99_999)}")
            made.append(captain)
        return made

    def _vessels(
        self, harbours: Sequence[str], companies: Sequence[str], captains: Sequence[str]
    ) -> list[tuple[str, str, str]]:
        """IRI, class and name of each."""
        made = []
        free = list(captains)
        fleet = [("Ferry", f"MS {n}") for n in names.FERRIES] + [("CargoShip", f"MV {n}") for n in names.CARGO_SHIPS]
        for class_, name in [*fleet, *(("Tugboat", f"Tug {n}") for n in names.TUGBOATS)]:
            vessel = self._thing(class_, _local(name), (name, "en"))
            small = class_ == "Tugboat"
            length = self._between(19, 34) if small else self._between(38, 172)
            self._add(vessel, "lengthM", length)
            self._add(vessel, "grossTonnage", int(length**2 * self._between(0.45, 0.7, digits=3)))
            self._add(vessel, "launched", self._day(1968, 2022))
            self._add(vessel, "homePort", self._one(harbours[:18]))
            self._add(vessel, "operator", self._one(companies))
            if free:  # the last tugboats share no captain: they have none
                self._add(vessel, "captain", free.pop(self._whole(0, len(free) - 1)))
            match class_:
                case "Ferry":
                    self._add(vessel, "passengerCapacity", self._whole(8, 120) * 10)
                case "CargoShip":
                    self._add(vessel, "deadweightT", int(length * self._between(40, 95)))
                case _:
                    self._add(vessel, "bollardPullT", self._between(18, 72))
            made.append((vessel, class_, name))
        return made

    def _commodities(self) -> list[str]:
        made = []
        for *texts, hazardous in names.COMMODITIES:
            labels = [(str(t), language) for t, language in zip(texts, LANGUAGES, strict=True)]
            commodity = self._thing("Commodity", _local(labels[0][0]), *labels)
            self._add(commodity, "hazardous", hazardous)
            made.append(commodity)
        return made

    def _port_calls(self, vessels: Sequence[tuple[str, str, str]], harbours: Sequence[str], commodities: Sequence[str]) -> None:
        consignments = 0
        for i in range(1, 261):
            vessel, class_, name = self._one(vessels)
            harbour, arrival = self._one(harbours), self._day(2023, 2024)
            call = self._thing("PortCall", f"{i:04}", (f"Call of {name} on {arrival.isoformat()}", "en"))
            self._add(call, "vessel", vessel)
            self._add(call, "harbour", harbour)
            self._add(call, "arrival", arrival)
            self._add(call, "duesEur", self._between(90, 4800, digits=2))
            for _ in range(self._whole(1, 2) if class_ == "CargoShip" else 0):
                consignments += 1
                consignment = self._thing("Consignment", f"{consignments:04}")
                self._add(call, "unloaded", consignment)
                self._add(consignment, "commodity", self._one(commodities))
                self._add(consignment, "tonnes", self._between(2, 1900))


def _local(name: str) -> str:
    """The IRI's last part: letters of ASCII and hyphens, as registers like it."""
    return "-".join(name.lower().replace("ö", "o").replace("&", "and").split())


def _term(value: object) -> str:
    match value:
        case bool():
            return f'"{str(value).lower()}"^^<{XSD}boolean>'
        case int():
            return f'"{value}"^^<{XSD}integer>'
        case float():
            return f'"{value}"^^<{XSD}decimal>'
        case date():
            return f'"{value.isoformat()}"^^<{XSD}date>'
        case str() if value.startswith(THINGS):
            return f"<{value}>"
    return f'"{value}"'
