"""Random small graphs and random queries over their words, with every construct that the rules speak of."""

import random

PREFIX = "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
CLASSES = [":A", ":B", ":C", ":D"]
PROPERTIES = [":p", ":q", ":r", ":s", ":t"]
NODES = [f":n{i}" for i in range(7)]
LITERALS = [
    *('"x"', '"x"@en', '"x"@EN', '"X"', '"y"@de', '"1"', '"1.0"', '""'),
    *("1", "2", "1.0", "-3", "1e0", "007", '"1"^^xsd:int', '"1"^^xsd:float', '"0.1"^^xsd:float', "0.1", "1e400"),
    *('"NaN"^^xsd:double', '"INF"^^xsd:double', '"-INF"^^xsd:float'),
    *('"abc"^^xsd:integer', '"1_0"^^xsd:integer', '" 1 "^^xsd:integer'),
    *("true", "false", '"1"^^xsd:boolean', '"maybe"^^xsd:boolean'),
    *('"2020-01-01"^^xsd:date', '"2020-01-01Z"^^xsd:date', '"2019-12-31T23:00:00-03:00"^^xsd:dateTime', '"2020"^^xsd:gYear'),
    *('"2020-01-01T00:00:00"^^xsd:dateTime', '"2020-01-01T02:00:00.0Z"^^xsd:dateTime'),
    *('"10:00:00"^^xsd:time', '"2020-02"^^xsd:gYearMonth'),
    *('"y"^^:custom', '"P1D"^^xsd:duration', '"x"@en--ltr'),
]
TEXTS = ['"x"', '"1"', '"1.0"', '"http://e/n1"', '"absent"', '""']
PARTS = ['"x"', '"X"', '"N1"', '"^x"', '"0"', '"y$"', '"zz"', '"e"', '".x"']
FLAGS = ["", ', "i"', ', "s"']
VARIABLES = ["?a", "?b", "?c", "?d"]


def random_graph(rng: random.Random) -> str:
    """Turtle of 3 to 25 triples; the last class and property are often unused."""
    lines = ["@prefix : <http://e/> .", "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> ."]
    classes, properties = CLASSES[: rng.randint(1, 4)], PROPERTIES[: rng.randint(1, 5)]
    for n in NODES:
        for c in rng.sample(classes, rng.choice((0, 1, 1, min(2, len(classes))))):
            lines.append(f"{n} a {c} .")
    for _ in range(rng.randint(1, 14)):
        o = rng.choice(NODES if rng.random() < 0.6 else LITERALS + classes)
        lines.append(f"{rng.choice([*NODES, '_:b1', '_:b2'])} {rng.choice(properties)} {o} .")
    if rng.random() < 0.2:
        lines.append(f"{classes[0]} :sub {rng.choice(CLASSES)} .")
    if rng.random() < 0.15:
        lines.append(f"{rng.choice(NODES)} {rng.choice(properties)} {rng.choice(NODES)} {{| {rng.choice(properties)} 1 |}} .")
        lines.append(f"{rng.choice(NODES)} {rng.choice(properties)} <<( :n1 :p :n2 )>> .")
    return "\n".join(lines)


def random_quads(rng: random.Random) -> list[tuple[str, str, str, str]]:
    """A few statements in the named graphs ``:g`` and ``:h``."""
    found = []
    for graph in (":g", ":g", ":h"):
        p, o = rng.choice([(rng.choice(PROPERTIES), rng.choice([*NODES, *LITERALS])), ("a", rng.choice(CLASSES))])
        found.append((rng.choice(NODES), p, o, graph))
    return found[: rng.randint(0, 3)]


class QueryMaker:
    """One random query."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.blank = 0

    def pick(self, *options):
        return self.rng.choice(options)

    def variable(self):
        return self.rng.choice(VARIABLES)

    def constant(self):
        return self.rng.choice(self.rng.choice((NODES, NODES, LITERALS, CLASSES, [":absent"])))

    def subject(self):
        r = self.rng.random()
        return self.variable() if r < 0.85 else self.rng.choice(NODES) if r < 0.97 else "[]"

    def object(self):
        r = self.rng.random()
        if r < 0.65:
            return self.variable()
        return self.constant() if r < 0.97 else f"[ {self.rng.choice(PROPERTIES)} {self.variable()} ]"

    def path(self, depth=0):
        r = self.rng.random()
        p = self.rng.choice([*PROPERTIES, "a", ":sub"])
        if depth > 2 or r < 0.4:
            return p
        inner = lambda: self.path(depth + 1)  # noqa: E731
        return self.pick(
            lambda: f"{inner()}/{inner()}",
            lambda: f"({inner()}|{inner()})",
            lambda: f"^({inner()})",
            lambda: f"({inner()})*",
            lambda: f"({inner()})+",
            lambda: f"({inner()})?",
            lambda: f"!{p}",
            lambda: f"!(^{p})",
            lambda: f"!({p}|^{self.rng.choice(PROPERTIES)})",
            lambda: "a/(:sub)*",
        )()

    def triple(self):
        r = self.rng.random()
        if r < 0.3:
            return f"{self.subject()} a {self.rng.choice([*CLASSES, *VARIABLES]) if self.rng.random() < 0.95 else ':absent'} ."
        if r < 0.75:
            return f"{self.subject()} {self.rng.choice(PROPERTIES)} {self.object()} ."
        if r < 0.82:
            return f"{self.subject()} {self.variable()} {self.object()} ."
        if r < 0.84:
            return f"{self.subject()} {self.rng.choice(PROPERTIES)} ({self.variable()} {self.constant()}) ."
        return f"{self.subject()} {self.path()} {self.object()} ."

    def expression(self, depth=0):
        v = self.variable()
        options = [
            lambda: f"{v} = {self.constant()}",
            lambda: f"{self.constant()} = {v}",
            lambda: f"{v} != {self.constant()}",
            lambda: f"{v} = {self.variable()}",
            lambda: f"{v} IN ({self.constant()}, {self.constant()})",
            lambda: f"{v} NOT IN ({self.constant()})",
            lambda: f"isIRI({v})",
            lambda: f"isLiteral({v})",
            lambda: f"isBlank({v})",
            lambda: f"isNumeric({v})",
            lambda: f"sameTerm({v}, {self.constant()})",
            lambda: f"BOUND({v})",
            lambda: f"!BOUND({v})",
            lambda: f"{v} {self.pick('<', '>', '<=', '>=')} {self.rng.choice(LITERALS)}",
            lambda: f"{self.rng.choice(LITERALS)} {self.pick('<', '>', '<=', '>=')} {v}",
            lambda: f"{v} = {self.rng.choice(LITERALS)} && {v} = {self.rng.choice(LITERALS)}",
            lambda: f"{v} > {self.pick(0, 1, 2)} && {v} < {self.pick(0, 1, 2)}",
            lambda: f"STR({v}) = {self.pick(*TEXTS)}",
            lambda: f"LANG({v}) = 'en'",
            lambda: f"{self.pick('CONTAINS', 'STRSTARTS', 'STRENDS')}({self.text_of(v)}, {self.pick(*TEXTS, *PARTS)})",
            lambda: f"REGEX({self.text_of(v)}, {self.pick(*PARTS)}{self.pick(*FLAGS)})",
            lambda: f"!({v} = {self.constant()})",
            lambda: f"COALESCE({v}, 1) = {self.constant()}",
        ]
        if depth < 2:
            options += [
                lambda: f"({self.expression(depth + 1)} || {self.expression(depth + 1)})",
                lambda: f"({self.expression(depth + 1)} && {self.expression(depth + 1)})",
                lambda: f"!({self.expression(depth + 1)})",
                lambda: f"EXISTS {self.group(2)}",
                lambda: f"NOT EXISTS {self.group(2)}",
                lambda: f"(EXISTS {self.group(2)} || {self.expression(depth + 1)})",
            ]
        return self.rng.choice(options)()

    def text_of(self, v):
        return self.pick(v, v, f"STR({v})", f"LCASE({v})", f"UCASE(STR({v}))")

    def value(self):
        return "UNDEF" if self.rng.random() < 0.12 else self.constant()

    def values(self):
        r = self.rng.random()
        if r < 0.1:
            return f"VALUES {self.variable()} {{ }}"
        if r < 0.5:
            rows = " ".join(self.value() for _ in range(self.rng.randint(1, 3)))
            return f"VALUES {self.variable()} {{ {rows} }}"
        x, y = self.rng.sample(VARIABLES, 2)
        rows = " ".join(f"({self.value()} {self.value()})" for _ in range(self.rng.randint(1, 3)))
        return f"VALUES ({x} {y}) {{ {rows} }}"

    def sub_select(self, depth):
        v, w = self.rng.sample(VARIABLES, 2)
        inner = self.group(depth + 1)
        return self.pick(
            lambda: f"{{ SELECT {v} {inner} }}",
            lambda: f"{{ SELECT * {inner} }}",
            lambda: f"{{ SELECT DISTINCT {v} {w} {inner} LIMIT {self.rng.choice((0, 1, 5, 5))} }}",
            lambda: f"{{ SELECT (COUNT(*) AS {v}) {inner} }}",
            lambda: f"{{ SELECT {v} (COUNT({w}) AS ?n) {inner} GROUP BY {v} }}",
            lambda: f"{{ SELECT {v} (SAMPLE({w}) AS ?m) {inner} GROUP BY {v} HAVING (COUNT(*) > 0) }}",
            lambda: f"{{ SELECT {v} {inner} VALUES {w} {{ {self.constant()} }} }}",
            lambda: f"{{ SELECT {v} (COUNT(*) AS ?n) {inner} GROUP BY {v} VALUES {v} {{ {self.constant()} }} }}",
            lambda: f"{{ SELECT {v} {inner} OFFSET 1 }}",
            lambda: f"{{ SELECT {v} (COUNT({w}) AS ?n) {inner} GROUP BY {v} HAVING ({self.having(v, w)}) }}",
        )()

    def rdf12(self):
        """RDF 1.2: triple terms, reifiers, annotations; and LATERAL."""
        s, p, o = self.subject(), self.rng.choice(PROPERTIES), self.variable()
        return self.pick(
            lambda: f"<< {s} {p} {o} >> {self.rng.choice(PROPERTIES)} {self.variable()} .",
            lambda: f"<< {self.variable()} {p} {o} ~ {self.variable()} >> .",
            lambda: f"{self.variable()} {p} {o} ~ {{| {self.rng.choice(PROPERTIES)} {self.object()} |}} .",
            lambda: f"{self.variable()} {p} {o} {{| {self.rng.choice(PROPERTIES)} {self.variable()} |}} .",
            lambda: f"{self.variable()} {p} <<( {self.variable()} {p} {o} )>> .",
            lambda: f"VALUES {o} {{ <<( :n1 :p :n2 )>> {self.constant()} }}",
            lambda: f"FILTER(isTRIPLE({o}))",
            lambda: f"BIND(<<( :n1 {p} :n2 )>> AS {self.variable()})",
            lambda: f"LATERAL {self.group(2)}",
        )()

    def element(self, depth):
        r = self.rng.random()
        if depth > 2 or r < 0.45:
            return self.triple()
        if r < 0.53:
            return f"OPTIONAL {self.group(depth + 1)}"
        if r < 0.61:
            return " UNION ".join(self.group(depth + 1) for _ in range(self.rng.randint(2, 3)))
        if r < 0.65:
            return f"MINUS {self.group(depth + 1)}"
        if r < 0.8:
            return f"FILTER({self.expression()})"
        if r < 0.84:
            return self.values()
        if r < 0.87:
            fresh = self.rng.choice(VARIABLES)
            return f"BIND({self.rng.choice([self.constant(), self.variable(), self.variable()])} AS {fresh})"
        if r < 0.92:
            return self.sub_select(depth)
        if r < 0.94:
            return f"GRAPH {self.pick('?g', ':g', ':h', self.variable())} {self.group(depth + 1)}"
        if r < 0.955:
            return self.rdf12()
        return self.group(depth + 1)

    def group(self, depth=0):
        return "{ " + " ".join(self.element(depth) for _ in range(self.rng.randint(1, 3 if depth else 4))) + " }"

    def having(self, v, w):
        return self.pick(
            f"COUNT(*) {self.pick('<', '=', '>', '<=')} {self.pick(0, 1)}",
            f"COUNT({w}) {self.pick('<', '=', '>', '<=')} {self.pick(-1, 0, 1)}",
            f"{v} = {self.constant()}",
            f"{v} IN ({self.constant()}, {self.constant()})",
            f"{self.pick(v, w)} > {self.pick(0, 1)}",
            f"{self.count_of(w)} {self.pick('>', '>=', '=')} {self.pick(1, 2, 3, 4, 9)}",
            f"{self.pick(2, 3)} {self.pick('<', '<=')} {self.count_of(w)} && {self.count_of(v)} > 1",
            f"{self.pick('MIN', 'MAX', 'AVG')}({w}) {self.pick('<', '>', '<=', '>=')} {self.rng.choice(LITERALS)}",
            f"MIN({w}) < 2 && MAX({w}) > {self.pick(0, 1, 2)}",
        )

    def count_of(self, v):
        return self.pick("COUNT(*)", f"COUNT({v})", f"COUNT(DISTINCT {v})")

    def triples_only(self):
        """A body whose solutions can be counted by its triples."""
        body = " ".join(self.triple() for _ in range(self.rng.randint(1, 3)))
        optional = f"OPTIONAL {{ {self.triple()} {self.triple()} }}"
        rest = self.pick("", "", optional, f"FILTER({self.expression(2)})", f"{{ {self.triple()} }}")
        return f"{{ {body} {rest} }}"

    def query(self):
        body = self.group()
        if self.rng.random() < 0.12:
            body = self.pick("FROM :g", "FROM NAMED :g", "FROM :g FROM NAMED :h", "FROM :absent") + f" WHERE {body}"
        v = self.variable()
        return (
            PREFIX
            + self.rng.choice(
                [lambda: f"SELECT * {body}"] * 6
                + [
                    lambda: f"SELECT {v} {body}",
                    lambda: f"SELECT DISTINCT {v} {body} ORDER BY {v} LIMIT 3",
                    lambda: f"SELECT (COUNT(*) AS ?n) {body}",
                    lambda: f"SELECT {v} (COUNT(*) AS ?n) {body} GROUP BY {v}",
                    lambda: f"SELECT {v} {body} GROUP BY {v} HAVING ({self.having(v, self.variable())})",
                    lambda: f"SELECT {v} {self.triples_only()} GROUP BY {v} HAVING ({self.having(v, self.variable())})",
                    lambda: f"SELECT {v} (COUNT(*) AS ?k) {self.triples_only()} GROUP BY {v} HAVING (?k > {self.pick(1, 3)})",
                    lambda: f"ASK {body}",
                    lambda: f"CONSTRUCT {{ :x :y {v} }} {body}",
                    lambda: f"DESCRIBE {v} {body}",
                    lambda: f"SELECT * {body} VALUES {v} {{ {self.constant()} {self.constant()} }}",
                    lambda: f"SELECT (MAX({v}) AS ?m) {body} HAVING (COUNT(*) > 0)",
                ]
            )()
        )
