"""What an update says of the properties that it changes."""

import pytest

from proxy.query.model import ParsedUpdate
from proxy.query.parse import parse
from proxy.query.term import RDF
from proxy.query.touched import touched_properties

P = "PREFIX : <http://e/> "


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INSERT DATA { :a :p 1 ; :q :b }", "p q"),
        ("DELETE DATA { GRAPH :g { :a :p 1 } }", "p"),
        ("INSERT DATA { :a a :C }", None),
        ("INSERT DATA { :a :p 1 } ; DELETE DATA { :a :r 1 }", "p r"),
        ("DELETE { ?s :p ?o } INSERT { ?s :q ?o } WHERE { ?s :p ?o ; ?any ?thing }", "p q"),
        ("DELETE WHERE { ?s :p ?o }", "p"),
        ("DELETE WHERE { :a ?p ?o }", "any"),
        ("DELETE { ?s ?p ?o } WHERE { ?s ?p ?o }", "any"),
        ("INSERT DATA { :a :p 1 } ; CLEAR ALL", "any"),
        ("DROP GRAPH :g", "any"),
        ("LOAD <http://e/x>", "any"),
        ("INSERT DATA { :a :p (1 2) }", f"p {RDF}first {RDF}rest"),
    ],
)
def test_properties_are_those_that_the_text_names(text, expected):
    """Data and templates count, the WHERE does not; a variable property or a whole graph may be anything."""
    update = parse(P + text)
    assert isinstance(update, ParsedUpdate)
    found = touched_properties(update)
    if expected == "any":
        assert found is None
    else:
        rdf = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
        wanted = {rdf + "type"} if expected is None else {n if ":" in n else "http://e/" + n for n in expected.split()}
        assert found == wanted
