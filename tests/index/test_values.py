"""The value index by itself."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from proxy.index.normalise import fold, normalise
from proxy.index.values import LONGEST, PairSummary, ValueEntry, ValueIndexBuilder, likeness
from proxy.query.term import XSD_STRING

CITIES = ["Amsterdam", "Rotterdam", "Rio de Janeiro", "San José", "Bordeaux", "New York", "York", "The Hague", "Nouméa"]
CITIES += ["Ho Chi Minh City"]
ROOT = Path(__file__).parent.parent.parent


def entry(text, *, property_="p", class_="C", count=1, subject=None):
    return ValueEntry(text, None, XSD_STRING, property_, class_, count, subject)


def index_of(texts, path=None):
    builder = ValueIndexBuilder(path)
    builder.add(entry(t, subject=f"s{i}") for i, t in enumerate(texts))
    builder.describe("C", "p", PairSummary(len(texts), is_complete=True))
    return builder.finish()


MISSPELT = [
    ("Amsterdm", "Amsterdam"),
    ("Roterdam", "Rotterdam"),
    ("rio de janero", "Rio de Janeiro"),
    ("janeiro", "Rio de Janeiro"),
    ("San Jose", "San José"),
    ("York New", "New York"),
    ("Hague", "The Hague"),
    ("noumea", "Nouméa"),
    ("the city of Bordeaux", "Bordeaux"),
    ("Ho Chi", "Ho Chi Minh City"),
]


@pytest.mark.parametrize(("asked", "meant"), MISSPELT, ids=[a for a, _ in MISSPELT])
def test_search_forgives(asked, meant):
    """Typing errors, accents, swapped, missing and surplus words find what was meant first."""
    found = index_of(CITIES).search(asked, 3)
    assert found[0][0].text == meant
    assert 0 < found[-1][1] <= found[0][1] <= 1


def test_equal_texts_score_one_and_others_less():
    """A score of 1 means equal but for accents."""
    found = dict((e.text, score) for e, score in index_of(CITIES).search("york", 5))
    assert found["York"] == 1.0
    assert found["New York"] < 1.0


def test_search_of_nothing_like_it():
    """What shares no three letters with any text is not found, and neither is nothing."""
    index = index_of(CITIES)
    assert index.search("zzzzqqq") == []
    assert index.search("") == []
    assert index.search("York", 0) == []


def test_lookup_is_exact_after_normalising():
    """All entries of a text, the most frequent first, and only of that text."""
    builder = ValueIndexBuilder()
    builder.add([entry("Lyon", count=2), entry("LYON", property_="q", count=5), entry("Lyons")])
    index = builder.finish()
    assert [(e.text, e.count) for e in index.lookup(normalise("lyon"))] == [("LYON", 5), ("Lyon", 2)]


def test_pairs_know_their_own():
    """Examples and summaries belong to one (class, property); the node without a class is a pair of its own."""
    builder = ValueIndexBuilder()
    builder.add(
        [
            entry("a", count=1),
            entry("b", count=3),
            entry("c", class_=None),
            entry("d", property_="q"),
            entry("e", property_=None),
        ]
    )
    builder.describe("C", "p", PairSummary(2, 1.0, 2.5, "2020", "2021", True))
    builder.describe(None, "p", PairSummary(None))
    index = builder.finish()
    assert [e.text for e in index.examples("C", "p")] == ["b", "a"]
    assert [e.text for e in index.examples("C", "p", 1)] == ["b"]
    assert [(e.text, e.subject_class) for e in index.examples(None, "p")] == [("c", None)]
    assert index.examples("Nowhere", "p") == []
    assert index.number_range("C", "p") == (1.0, 2.5)
    assert index.date_range("C", "p") == ("2020", "2021")
    assert (index.distinct("C", "p"), index.distinct(None, "p"), index.distinct("C", "q")) == (2, None, None)
    assert (index.is_complete("C", "p"), index.is_complete(None, "p"), index.is_complete("C", "q")) == (True, False, False)
    assert index.number_range(None, "p") is None
    assert index.lookup("e")[0].property is None


def test_long_and_empty_texts():
    """The longest text is kept, a longer one is not, the empty one is."""
    index = index_of(["x" * LONGEST, "y" * (LONGEST + 1), ""])
    assert len(index) == 2
    assert index.lookup("")[0].text == ""
    assert index.search("x" * LONGEST)[0][1] == 1.0


@pytest.mark.parametrize("seed", range(5))
def test_every_text_is_found_by_itself(seed):
    """Whatever it is made of, a text that is in the index is the best answer to itself."""
    rng = random.Random(seed)
    alphabet = "ab éÉß'\"%_-.,1２٣हि中文😀\u0301\u00ad*()"
    texts = sorted({"".join(rng.choice(alphabet) for _ in range(rng.randrange(1, 12))) for _ in range(200)})
    index = index_of(texts)
    for text in texts:
        assert text in {e.text for e in index.lookup(normalise(text))}
        if fold(text):
            best, score = index.search(text, 1)[0]
            assert score == 1.0
            assert fold(best.text) == fold(text)


def test_many_threads_read_at_once(tmp_path):
    """Readers in worker threads get what one reader gets."""
    index = index_of(CITIES, tmp_path / "values.sqlite")
    questions = CITIES * 20
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda c: index.search(c, 1)[0][0].text, questions))
    assert found == questions


def test_segments_are_one_index(tmp_path):
    """More texts than one segment holds are searched together."""
    builder = ValueIndexBuilder(segment=100)
    builder.add(entry(f"Number {i}") for i in range(350))
    index = builder.finish()
    for i in (0, 99, 100, 349):
        assert index.search(f"Number {i}", 1)[0][0].text == f"Number {i}"


def test_closed_is_closed():
    """After close() nothing can be asked."""
    index = index_of(CITIES)
    index.close()
    with pytest.raises(sqlite3.ProgrammingError):
        index.lookup("york")


CLOSED_MEANWHILE = """
import random, sqlite3, sys, threading, time
from pathlib import Path
from tests.index.test_values import ValueIndexBuilder, PairSummary, entry
rng = random.Random(7)
texts = ["".join(rng.choices("abcdefghij ", k=20)) for _ in range(20000)]
raised = 0
for i in range(25):
    path = Path(sys.argv[1], f"{i}.values") if i % 2 else None
    builder = ValueIndexBuilder(path, segment=2000)
    errors = []
    def work():
        try:
            for begin in range(0, 20000, 500):
                builder.add(entry(t) for t in texts[begin : begin + 500])
            builder.finish()
        except sqlite3.Error as error:
            errors.append(error)
    thread = threading.Thread(target=work)
    thread.start()
    time.sleep(rng.random() * 0.3)
    began = time.monotonic()
    builder.close()
    assert time.monotonic() - began < 2
    thread.join()
    raised += len(errors)
    try:
        builder.describe("C", "p", PairSummary(1))
        raise SystemExit("a closed builder was filled")
    except sqlite3.ProgrammingError:
        pass
assert raised > 10, raised
"""


def test_close_under_a_running_build_is_an_error_there(tmp_path):
    """A stop in the middle of a build, when its thread is in SQLite: a Python error in the thread, never a dead process."""
    done = subprocess.run([sys.executable, "-c", CLOSED_MEANWHILE, str(tmp_path)], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


def test_likeness_is_symmetric_enough_to_rank():
    """1 only for equal texts; a near miss beats containment; containment beats a stranger."""
    assert likeness("rio", "rio") == 1.0
    assert likeness("amsterdm", "amsterdam") > likeness("rio", "rio de janeiro") > likeness("rio", "bordeaux")
    assert likeness("b a", "a b") < 1.0


def test_empty_texts_alone():
    """A graph may hold no other literal than the empty string; it is found, and nothing resembles it."""
    builder = ValueIndexBuilder()
    builder.add([ValueEntry("", None, XSD_STRING, "http://e/p", None, 1, None)])
    values = builder.finish()
    assert [e.text for e in values.lookup("")] == [""]
    assert values.search("a") == []
    values.close()
