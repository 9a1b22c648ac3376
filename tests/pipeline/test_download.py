"""Counting every triple here gives the same indexes as asking for every chunk; what does not come whole is asked for."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pyoxigraph as ox
import pytest

from proxy.backends.base import Solutions
from proxy.backends.embedded import EmbeddedBackend
from proxy.config import IndexSettings
from proxy.index import parts
from proxy.index.ntriples import NotNTriples
from proxy.index.tally import Tally
from proxy.index.vocabulary import COMMENTS, LABELS
from proxy.pipeline import distil as distil_module
from proxy.pipeline import download_parts, spool
from proxy.pipeline.asking import Scope
from proxy.pipeline.distil import distil
from proxy.pipeline.download_parts import places_of
from proxy.query.term import RDF_TYPE
from tests.pipeline.test_distil import EX, random_graph, seen_cells, true_cells, true_matrix

SETTINGS = IndexSettings(values_per_property=1000)


def both_ways(store: ox.Store, settings=SETTINGS, **more):
    async def run():
        backend = EmbeddedBackend(store)
        return [await distil(backend, settings, method=m, **more) for m in ("ask", "download")]

    asked, downloaded = asyncio.run(run())
    assert (asked.method, downloaded.method) == ("ask", "download")
    return asked, downloaded


def entries(values):
    rows = values._rows(
        "SELECT entry.text, language, d.value, p.value, c.value, count, subject, normalised FROM entry "
        "JOIN iri AS d ON d.id = datatype_id LEFT JOIN iri AS p ON p.id = property_id "
        "LEFT JOIN iri AS c ON c.id = class_id JOIN text ON text.id = text_id"
    )
    pairs = values._rows(
        "SELECT c.value, p.value, number_of_distinct, low, high, earliest, latest, is_complete FROM pair "
        "LEFT JOIN iri AS p ON p.id = property_id LEFT JOIN iri AS c ON c.id = class_id"
    )
    return Counter(rows), Counter(pairs)


@pytest.mark.parametrize("seed", range(40))
def test_both_ways_give_the_same(seed):
    """S, instances, multiplicities, languages, vocabulary, every value and every summary, on graphs with all oddities."""
    store = random_graph(seed)
    asked, downloaded = both_ways(store)
    a, d = asked.index, downloaded.index
    assert seen_cells(downloaded) == true_cells(store)[0]
    assert d.matrix == dict(true_matrix(store)) == a.matrix
    assert (d.kinds, d.instances.tolist()) == (a.kinds, a.instances.tolist())
    assert (d.multiplicity, d.languages, d.incomplete) == (a.multiplicity, a.languages, a.incomplete)
    for name in ("superclasses", "superproperties", "declared_classes", "declared_properties"):
        assert getattr(d.vocabulary, name) == getattr(a.vocabulary, name)
    for name in ("labels", "comments"):
        sets = [{t: set(v) for t, v in getattr(i.vocabulary, name).items()} for i in (a, d)]
        assert sets[0] == sets[1]
    assert entries(downloaded.values) == entries(asked.values)
    assert same_nodes(a, d)
    assert downloaded.queries < asked.queries


def same_nodes(a, b):
    return a.nodes.prints.tolist() == b.nodes.prints.tolist() and a.nodes.kinds.tolist() == b.nodes.kinds.tolist()


def pairs_by_name(features):
    names = [*(("a", c) for c in features.classes), *(("of", p) for p in features.properties)]
    names += [("to", p) for p in features.properties]
    return {frozenset((names[k // features.size], names[k % features.size])) for k in features.pairs.tolist()}


def test_an_empty_graph_is_one_too():
    """A new database has an index: without cells, complete, the same both ways."""
    asked, downloaded = both_ways(ox.Store())
    for index in (asked.index, downloaded.index):
        assert index.nodes.kind(EX + "anything") is None
        assert (len(index.count), index.properties, index.incomplete) == (0, (), ())
    assert entries(downloaded.values) == entries(asked.values)


@pytest.mark.parametrize("seed", range(40, 55))
def test_class_atoms_are_the_same(seed):
    """Over the cap of kinds single classes stand in, counted alike."""
    store = random_graph(seed)
    asked, downloaded = both_ways(store, kind_cap=2)
    assert not downloaded.index.are_kinds_exact
    assert seen_cells(downloaded) == seen_cells(asked)
    assert downloaded.index.class_instances == asked.index.class_instances
    assert same_nodes(asked.index, downloaded.index)
    assert pairs_by_name(asked.index.features) == pairs_by_name(downloaded.index.features)


@pytest.mark.parametrize("seed", range(55, 65))
def test_another_class_predicate_and_exclusions(seed):
    """wdt:P31-like predicates, and properties that are left out with a note."""
    store = random_graph(seed)
    for quad in list(store):
        if quad.predicate.value == RDF_TYPE:
            store.remove(quad)
            store.add(ox.Quad(quad.subject, ox.NamedNode(EX + "P31"), quad.object))
    settings = IndexSettings(class_predicate=EX + "P31", excluded_namespaces=(EX + "p1",), values_per_property=3)
    asked, downloaded = both_ways(store, settings)
    cells = Counter({k: n for k, n in true_cells(store, EX + "P31")[0].items() if not k[1].startswith(EX + "p1")})
    assert seen_cells(downloaded) == seen_cells(asked) == cells
    assert downloaded.index.incomplete == asked.index.incomplete
    assert downloaded.index.class_predicate == EX + "P31"


def test_auto_downloads_small_graphs_and_asks_large_ones(monkeypatch):
    """The line is a number of triples."""
    store = random_graph(1)

    def method() -> str:
        return asyncio.run(distil(EmbeddedBackend(store), SETTINGS, method="auto")).method

    assert method() == "download"
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", 3)
    assert method() == "ask"


@pytest.fixture
def in_parts(monkeypatch):
    """Graphs of more than five triples are counted in parts of some ten."""
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", 5)
    monkeypatch.setattr(download_parts, "PART_MOST", 10)
    monkeypatch.setattr(spool, "PIECE_BYTES", 300)


def same_indexes(a, b):
    """All but the features."""
    names = ("kinds", "properties", "matrix", "multiplicity", "languages", "incomplete", "class_instances", "are_kinds_exact")
    for name in names:
        assert getattr(a.index, name) == getattr(b.index, name), name
    for name in ("subject", "property", "object", "count", "instances"):
        assert getattr(a.index, name).tolist() == getattr(b.index, name).tolist(), name
    for name in ("superclasses", "superproperties", "declared_classes", "declared_properties", "labels", "comments"):
        one, other = (getattr(i.index.vocabulary, name) for i in (a, b))
        if isinstance(one, dict):
            one, other = ({k: set(texts) for k, texts in side.items()} for side in (one, other))
        assert one == other, name
    assert same_nodes(a.index, b.index)


@pytest.mark.parametrize("seed", range(65, 95))
@pytest.mark.parametrize("kind_cap", [1_000, 2])
def test_parts_are_the_whole(seed, kind_cap, tmp_path, in_parts, monkeypatch):
    """A graph that is counted a few properties at a time has the index that it has when it is held."""
    store = random_graph(seed)
    excluded = (EX + "p1",) if seed % 3 == 0 else ()
    settings = IndexSettings(excluded_namespaces=excluded, values_per_property=3 if seed % 2 else 1000)

    def run(most):
        monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", most)
        path = tmp_path / f"{most}.values"
        return asyncio.run(distil(EmbeddedBackend(store), settings, method="download", kind_cap=kind_cap, values_path=path))

    whole, apart = run(10**9), run(5)
    assert (whole.method, apart.method) == ("download", "download in parts")
    same_indexes(whole, apart)
    (those, about), (these, about_these) = entries(whole.values), entries(apart.values)
    assert about == about_these
    # which of equally frequent ones a cap keeps is open
    assert these.total() == those.total() if seed % 2 else these == those
    assert apart.index.features is None
    assert sorted(p.name for p in tmp_path.iterdir()) == ["1000000000.values", "5.values"]  # nothing of the spool is left


class Cut(EmbeddedBackend):
    """Its N-Triples are a 200 that is not whole, or not N-Triples."""

    def __init__(self, store: ox.Store, spoil) -> None:
        super().__init__(store)
        self.spoil = spoil

    async def send(self, request):
        response = await super().send(request)
        whole = b"".join([piece async for piece in response.chunks()])

        class Spoilt:
            status = response.status
            headers = response.headers

            async def chunks(self_):
                yield self.spoil(whole)

            async def aclose(self_):
                await response.aclose()

        return Spoilt()


def drop_last_lines(whole: bytes) -> bytes:
    return b"".join(whole.splitlines(keepends=True)[:-2])


@pytest.mark.parametrize(
    "spoil",
    [
        drop_last_lines,
        lambda whole: whole[: len(whole) * 2 // 3],
        lambda whole: whole[: len(whole) // 2] + b"\nThe SPARQL operation has been cancelled\n",
        lambda whole: whole + b"<http://e/new> <http://e/p> <http://e/written/meanwhile> .\n",
        lambda whole: b"",
        lambda whole: whole.replace(b"http://example.org/C1>", b"http://example.org/C2>"),
    ],
    ids=["lines missing", "cut in a line", "an error in a 200", "data changed", "nothing", "other classes"],
)
@pytest.mark.parametrize("most", [10**9, 5], ids=["held", "in parts"])
def test_what_does_not_add_up_is_asked_for(spoil, most, monkeypatch, in_parts):
    """Every property and class must come as often as the backend counts it; else chunk by chunk, and exact again."""
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", most)
    store = random_graph(3)
    made = asyncio.run(distil(Cut(store, spoil), SETTINGS, method="download"))
    assert made.method == "ask"
    assert seen_cells(made) == true_cells(store)[0]


HOSTILE = (
    b'" \\ \xff \r { \\u0000 \\uD800 \\U00110000 \n \0'
    b' < > . _: @ ^^ \xc3 \\u003C \\n \t # % \xe2\x80\xa8 \\uD800\\uDC00'
).split(b" ")


@pytest.mark.parametrize("most", [10**9, 5], ids=["held", "in parts"])
def test_bytes_changed_on_the_way_never_end_the_build(most, monkeypatch, in_parts):
    """Anywhere, in names too that the backend counts as often as before: what cannot be read is asked for, or stays open."""
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", most)
    methods = Counter()
    for seed in range(60):
        rng = random.Random(seed)

        def spoil(whole: bytes, rng=rng) -> bytes:
            at = rng.randrange(len(whole))
            return whole[:at] + rng.choice(HOSTILE) + whole[at + rng.randrange(2) :]

        made = asyncio.run(distil(Cut(random_graph(seed % 5), spoil), SETTINGS, method="download"))
        assert made.method != "ask" or seen_cells(made) == true_cells(random_graph(seed % 5))[0]
        methods[made.method == "ask"] += 1
        made.values.close()
    assert len(methods) == 2  # some are noticed, some change a text or the name of a node


def one_twice_another_not(whole: bytes) -> bytes:
    lines = whole.splitlines(keepends=True)
    own = [i for i, line in enumerate(lines) if b" <http://example.org/p0> " in line]
    lines[own[0]] = lines[own[1]]
    return b"".join(lines)


def test_a_count_met_by_chance_proves_nothing(in_parts):
    """One triple twice, another not at all: in parts that is found when it is too late to ask, so the property stays open."""
    store = random_graph(3)
    made = asyncio.run(distil(Cut(store, one_twice_another_not), SETTINGS, method="download"))
    assert made.method == "download in parts"
    cells = seen_cells(made)
    assert not made.index.is_complete_for([], [EX + "p0"]) and made.index.nodes is None
    complete = {k: n for k, n in true_cells(store)[0].items() if made.index.is_complete_for([], [k[1]])}
    assert complete and {k: n for k, n in cells.items() if k in complete} == complete


def test_without_room_for_the_files_it_is_asked(in_parts, monkeypatch):
    """A disk that is full when the lines are written; the graph is then read by its queries."""

    def full(self, text):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(spool.Spool, "_write", full)
    store = random_graph(3)
    made = asyncio.run(distil(EmbeddedBackend(store), SETTINGS, method="download"))
    assert made.method == "ask" and seen_cells(made) == true_cells(store)[0]


def test_large_graphs_are_downloaded_in_parts_out_of_a_dump_only(monkeypatch):
    """Where a server may hold all that it sends, or one property is too large to be held, it is asked."""
    store = random_graph(1)
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", len(store) - 1)

    def method(scope) -> str:
        return asyncio.run(distil(EmbeddedBackend(store), SETTINGS, method="auto", scope=scope)).method

    assert method(Scope()) == "ask"
    assert method(Scope(dump="/store?default")) == "download in parts"
    monkeypatch.setattr(distil_module, "DOWNLOAD_MOST", 3)
    assert method(Scope(dump="/store?default")) == "ask"


def test_parts_hold_no_more_than_they_should():
    """Whole properties, as many as fit; a large one alone; what names things last, in the order of LABELS."""
    sizes = {"a": 30, "b": 5, "c": 4, "d": 2, COMMENTS[0]: 1, LABELS[0]: 9, LABELS[1]: 2}
    places = places_of(sizes, 10)
    assert places == {"a": 0, "b": 1, "c": 1, "d": 2, LABELS[0]: 3, LABELS[1]: 4, COMMENTS[0]: 4}


def test_two_nodes_with_one_hash_are_not_taken_for_each_other(monkeypatch):
    """Such a graph is not counted in parts; and a strange node with the hash of a typed one has no class."""
    monkeypatch.setattr(parts, "hash", lambda token: 7, raising=False)
    typings = parts.Typings()
    typings.add([b"<http://e/a>"], [b"<http://e/C>"])
    typings.close()
    assert typings.kinds_of([b"<http://e/a>", b"<http://e/b>"]).tolist() == [1, 0]
    typings = parts.Typings()
    typings.add([b"<http://e/a>", b"<http://e/b>"], [b"<http://e/C>"] * 2)
    with pytest.raises(NotNTriples):
        typings.close()


def test_oddly_written_lines_are_read():
    """Tabs, comments, blank lines, no blank before the dot, escapes, a piece that ends within a character."""
    text = (
        "# a comment\n\n"
        "<http://e/a>\t<http://e/p>  \"x \\u00E9\\n<y> .\"@en-GB .   # more\n"
        "_:b1 <http://e/p> _:b2.\r\n"
        "<http://e/a> <http://e/p> \"é\"^^<http://e/t>.\n"
        "<http://e/a> <http://e/p> \"é\"^^<http://e/t> .\n"
        "<http://e/\\u00E4> <http://e/p> \"\" ."
    ).encode()
    for size in (1, 2, 7, 1000):
        tally, spooled = Tally(RDF_TYPE), spool.Spool({"http://e/p": 0}, RDF_TYPE)
        for i in range(0, len(text), size):
            tally.add(text[i : i + size])
            spooled.add(text[i : i + size])
            spooled.sort()
        tally.close()
        spooled.close()
        again = Tally(RDF_TYPE)
        again.add(b"".join(spooled.read(0)))
        again.close()
        spooled.remove()
        assert again.tokens == tally.tokens and again.object.tolist() == tally.object.tolist()
        store = ox.Store()
        store.load(text, ox.RdfFormat.N_TRIPLES)
        assert tally.properties == {"http://e/p": len(store)} == {"http://e/p": 4}
        found = {str(row["s"]) + getattr(row["o"], "lexical", "") for row in tally.statements("http://e/p")}
        assert "<http://e/ä>" in found and "<http://e/a>x é\n<y> ." in found


class Forgetful(EmbeddedBackend):
    """Answers completely but for the lists of nodes without a class, which lose a row; all with 200."""

    async def select(self, query, **options):
        found = await super().select(query, **options)
        is_list = query.startswith("SELECT DISTINCT ?s {") and "NOT EXISTS" in query
        return Solutions(found.variables, found.rows[:-1]) if is_list and found.rows else found


def test_a_list_of_nodes_that_lost_a_row_makes_nobody_absent():
    """By the backend's own count it is noticed, and there is no table of nodes."""
    store = ox.Store()
    store.load(b"<http://e/a> <http://e/p> <http://e/b> . <http://e/c> <http://e/p> <http://e/d> .", format=ox.RdfFormat.TURTLE)

    async def build(kind):
        return (await distil(kind(store), SETTINGS, method="ask")).index

    whole, broken = asyncio.run(build(EmbeddedBackend)), asyncio.run(build(Forgetful))
    assert whole.nodes.kind("http://e/nobody") is None and whole.nodes.prints.size == 4
    assert broken.nodes is None
