"""Terms of the grammar: IRIs, literals, variables, blank nodes, and the prologue that prefixed names rest on."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urljoin

from proxy.query.model import Term, TripleTerm, is_relative
from proxy.query.parse_tokens import Tokens, unescape_local, unescape_string
from proxy.query.term import RDF, RDF_LANG_STRING, RDF_TYPE, XSD, Iri, Literal, Variable

_RDF_TYPE = Iri(RDF_TYPE)
_DIRECTED = RDF + "dirLangString"
_RDF_NIL = Iri(RDF + "nil")
_TRUE = Literal("true", XSD + "boolean")
_FALSE = Literal("false", XSD + "boolean")


class TermParser(Tokens):
    """Reads terms; keeps the prefixes and the base that are in force.

    Args:
        prefixes: predeclared by the backend; the text's own declarations come first.
    """

    def __init__(self, text: str, prefixes: Mapping[str, str]) -> None:
        super().__init__(text)
        self._predeclared = prefixes
        self.prefixes: dict[str, str] = {}
        self.base: str | None = None
        self._iris: dict[str, Iri] = {}
        self._variables: dict[str, Variable] = {}
        self._labels: dict[str, int] = {}
        self._pattern_id = 0
        self._anonymous = 0
        self._anonymous_prefix = "_:anon"
        while self._anonymous_prefix in self.text:
            self._anonymous_prefix += "x"

    # -- prologue

    def prologue(self) -> None:
        while True:
            if self.accept_word("BASE"):
                self.base = self._iri_reference().value
                self._iris.clear()
            elif self.accept_word("PREFIX"):
                name = self.take("PNAME")
                if not name.endswith(":") or name.count(":") > 1:
                    raise self.fail(f"expected a prefix and a colon, found {name}")
                self.prefixes[name[:-1]] = self._iri_reference().value
                self._iris.clear()
            elif self.accept_word("VERSION"):
                self.string()
            else:
                return

    # -- IRIs

    def _iri_reference(self) -> Iri:
        value = self.take("IRI")[1:-1]
        if self.base is not None:
            iri = Iri(value)
            if is_relative(iri):
                try:
                    return Iri(urljoin(self.base, value) if value else self.base.partition("#")[0])
                except ValueError as exc:
                    raise self.fail(f"<{value}> cannot be resolved against <{self.base}>") from exc
            return iri
        return Iri(value)

    def _prefixed_name(self) -> Iri:
        name = self.values[self.at]
        prefix, _, local = name.partition(":")
        namespace = self.prefixes.get(prefix)
        if namespace is None:
            namespace = self._predeclared.get(prefix)
            if namespace is None:
                raise self._error_at(self.starts[self.at], f"prefix {prefix}: is not declared")
        self.at += 1
        return Iri(namespace + unescape_local(local))

    @property
    def is_iri(self) -> bool:
        return self.kinds[self.at] in ("IRI", "PNAME")

    def iri(self) -> Iri:
        """iri ::= IRIREF | PrefixedName"""
        kind = self.kinds[self.at]
        if kind != "IRI" and kind != "PNAME":
            raise self.error_of_term("an IRI")
        value = self.values[self.at]
        found = self._iris.get(value)
        if found is not None:
            self.at += 1
            return found
        found = self._iris[value] = self._iri_reference() if kind == "IRI" else self._prefixed_name()
        return found

    def variable(self) -> Variable:
        name = self.take("VAR")[1:]
        found = self._variables.get(name)
        if found is None:
            found = self._variables[name] = Variable(name)
        return found

    def variable_or_iri(self) -> Variable | Iri:
        return self.variable() if self.kind == "VAR" else self.iri()

    # -- literals

    @property
    def is_literal(self) -> bool:
        return self.kinds[self.at] in ("STRING", "NUMBER") or self.is_word("TRUE", "FALSE")

    def string(self) -> str:
        value = self.take("STRING")
        quotes = 3 if len(value) >= 6 and value[:3] in ('"""', "'''") else 1
        return unescape_string(value[quotes:-quotes])

    def literal(self) -> Literal:
        """RDFLiteral | NumericLiteral | BooleanLiteral"""
        kind = self.kinds[self.at]
        if kind == "STRING":
            lexical = self.string()
            if self.kind == "LANG":
                tag = self.take("LANG")[1:]
                # RDF 1.2: the base direction travels with the tag
                return Literal(lexical, _DIRECTED if "--" in tag else RDF_LANG_STRING, tag)
            if self.accept("^^"):
                return Literal(lexical, self.iri().value)
            return Literal(lexical)
        if kind == "NUMBER":
            text = self.take("NUMBER")
            if "e" in text or "E" in text:
                return Literal(text, XSD + "double")
            return Literal(text, XSD + ("decimal" if "." in text else "integer"))
        if self.is_word("TRUE", "FALSE"):
            self.at += 1
            # the grammar has these two in lower case only
            if (word := self.text[self.starts[self.at - 1] : self.ends[self.at - 1]]) not in ("true", "false"):
                raise self.fail(f"expected true or false, found {word}")
            return _TRUE if word == "true" else _FALSE
        raise self.error("a literal")

    # -- blank nodes

    def anonymous(self) -> Variable:
        self._anonymous += 1
        return Variable(f"{self._anonymous_prefix}{self._anonymous}")

    def begin_pattern(self) -> None:
        """A new basic graph pattern begins: a blank node label must not be used on both sides (Query, section 5.1.1)."""
        self._pattern_id += 1

    def blank_node(self) -> Variable:
        label = self.take("BNODE")
        if self._labels.setdefault(label, self._pattern_id) != self._pattern_id:
            raise self.fail(f"blank node {label} is used in two basic graph patterns")
        return Variable(label)

    def ground_term(self) -> Iri | Literal | TripleTerm:
        """An IRI, a literal or a triple term, as VALUES has them."""
        if self.kind == "<<(":
            return self.triple_term()
        return self.iri() if self.is_iri else self.literal()

    def triple_term(self) -> TripleTerm:
        """TripleTerm ::= '<<(' subject verb object ')>>' (SPARQL 1.2)"""
        self.take("<<(")
        self.enter()
        subject, predicate, obj = self.term(), self.verb(), self.term()
        self.take(")>>")
        self.depth -= 1
        return TripleTerm(subject, predicate, obj)

    def verb(self) -> Iri | Variable:
        return self.verb_a() if self.kind == "a" else self.variable_or_iri()

    def term(self) -> Term:
        """VarOrTerm, without collections and property lists."""
        kind = self.kinds[self.at]
        if kind == "VAR":
            return self.variable()
        if kind == "IRI" or kind == "PNAME":
            return self.iri()
        if kind == "BNODE":
            return self.blank_node()
        if kind == "<<(":
            return self.triple_term()
        if not self.is_literal:
            raise self.error_of_term("a variable, an IRI, a blank node or a literal")
        return self.literal()

    def verb_a(self) -> Iri:
        self.take("a")
        return _RDF_TYPE

    @staticmethod
    def nil() -> Iri:
        return _RDF_NIL
