"""Random small graphs and random queries over their words, with every construct that the rules speak of."""

import random

PREFIX = "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
PROLOGUE = f"{PREFIX} PREFIX e: <http://f/> PREFIX e: <http://e/> BASE <http://e/x> BASE <./> "
DATASETS = ["FROM :g", "FROM NAMED :g", "FROM :g FROM NAMED :h", "FROM :absent", "FROM :g FROM :h FROM :g", "FROM <http://e/g>"]
CLASSES = [":A", ":B", ":C", ":D"]
PROPERTIES = [":p", ":q", ":r", ":s", ":t"]
NODES = [f":n{i}" for i in range(7)]
SPELLED = ["<n1>", "<http://e/n2>", "<./n3>", "<http://\\u0065/n4>", "<http://e/%6E5>", ":\\n6", "e:n1", "<#n1>", "<>"]
"""Other ways to write nodes, not all of which name one; with BASE, and a prefix that is declared twice."""
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
    *("-0", '"-0.0"^^xsd:double', "01.50", '"+1"^^xsd:nonNegativeInteger', '"1e0"^^xsd:decimal', "1e39", "16777217"),
    *('"2020-01-01T00:00:00+14:00"^^xsd:dateTime', '"2020-12-31T24:00:00"^^xsd:dateTime', '"--02-29"^^xsd:gMonthDay'),
    *('"x"^^xsd:string', '"x\\ny"', '"caf\u00e9"', '"cafe\u0301"@fr', '"x"@en-GB', '"P1Y"^^xsd:yearMonthDuration'),
]
TEXTS = ['"x"', '"1"', '"1.0"', '"http://e/n1"', '"absent"', '""']
PARTS = ['"x"', '"X"', '"N1"', '"^x"', '"0"', '"y$"', '"zz"', '"e"', '".x"']
FLAGS = ["", ', "i"', ', "s"']
ODD_FLAGS = ['"x"', '"ix"', '"m"', '"q"']
TEXT_ANY, TEXT_EN = '"*"', '"EN"'
RDF_FIRST, RDF_REST = (f"<http://www.w3.org/1999/02/22-rdf-syntax-ns#{end}>" for end in ("first", "rest"))
RDF_REIFIES = "http://www.w3.org/1999/02/22-rdf-syntax-ns#reifies"
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
        lines.append(f"<< {rng.choice(NODES)} {rng.choice(PROPERTIES)} {rng.choice(NODES)} >> {rng.choice(properties)} 2 .")
        lines.append(f"{rng.choice(NODES)} {rng.choice(properties)} <<( :n1 :p :n2 )>> .")
    if rng.random() < 0.15:
        listed = " ".join(rng.choice([*NODES, *LITERALS]) for _ in range(rng.randint(0, 2)))
        lines.append(f"{rng.choice(NODES)} {rng.choice(properties)} ( {listed} ) .")
    return "\n".join(lines)


def random_quads(rng: random.Random) -> list[tuple[str, str, str, str]]:
    """A few statements in the named graphs ``:g`` and ``:h``, or one statement in both."""
    if rng.random() < 0.2:
        s, p, o = rng.choice(NODES), rng.choice(PROPERTIES), rng.choice([*NODES, *LITERALS])
        return [(s, p, o, ":g"), (s, p, o, ":h")]
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
        self.prologue = PROLOGUE if rng.random() < 0.4 else PREFIX

    def pick(self, *options):
        return self.rng.choice(options)

    def variable(self):
        return self.rng.choice(VARIABLES)

    def constant(self):
        return self.rng.choice(self.rng.choice((NODES, NODES, NODES, LITERALS, LITERALS, CLASSES, [":absent"], self.spelled())))

    def subject(self):
        r = self.rng.random()
        if r < 0.85:
            return self.variable()
        return self.rng.choice(NODES) if r < 0.95 else self.pick("[]", self.blank_node(), self.rng.choice(self.spelled()))

    def object(self):
        r = self.rng.random()
        if r < 0.65:
            return self.variable()
        if r < 0.96:
            return self.constant()
        return self.pick(f"[ {self.rng.choice(PROPERTIES)} {self.variable()} ]", self.blank_node(), "()", "[]")

    def blank_node(self):
        """A label that one element of a group may hold twice; in another basic graph pattern it would be no SPARQL."""
        return f"_:b{self.blank}"

    def spelled(self):
        return SPELLED if self.prologue is PROLOGUE else NODES

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
            lambda: f"!({p}|{self.rng.choice(PROPERTIES)}|^a|^:absent)",
            lambda: f"^({inner()}/{inner()})",
            lambda: f"({inner()}/{inner()}?)+",
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
            return self.pick(
                f"{self.subject()} {self.rng.choice(PROPERTIES)} ({self.variable()} {self.constant()}) .",
                f"( {self.object()} {self.object()} ) {self.rng.choice(PROPERTIES)} {self.object()} .",
                f"{self.subject()} {self.rng.choice(PROPERTIES)} ( ({self.variable()}) ) .",
                f"[ {self.path()} {self.object()} ; a {self.rng.choice(CLASSES)} ] {self.path()} {self.object()} .",
                f"{self.subject()} {self.path()} {self.object()} , {self.object()} ; ; a {self.rng.choice(CLASSES)} .",
                f"{self.subject()} {self.rng.choice(PROPERTIES)}/{RDF_REST}*/{RDF_FIRST} {self.object()} .",
            )
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
            lambda: f"{v} IN ({self.faulty()}, {self.constant()}, {self.variable()})",
            lambda: f"{v} NOT IN ({self.faulty()}, {self.constant()})",
            lambda: f"{v} IN ({self.constant()}, {self.constant()}) && {v} NOT IN ({self.constant()})",
            lambda: f"{v} {self.pick('<', '>', '<=', '>=', '=', '!=')} {self.variable()}",
            lambda: f"IF({self.pick('BOUND', 'isIRI')}({v}), {v} = {self.constant()}, {self.pick('true', '1/0', 'false')})",
            lambda: f"COALESCE({self.faulty()}, {v} = {self.constant()}, true)",
            lambda: f"{v} + 0 = {self.constant()}",
            lambda: f"STRLEN(STR({v})) > {self.pick(0, 3)}",
            lambda: f"LANGMATCHES(LANG({v}), {self.pick(TEXT_ANY, TEXT_EN)})",
            lambda: f"DATATYPE({v}) = {self.pick('xsd:integer', 'xsd:string', 'xsd:date')}",
            lambda: f"sameTerm({v}, {self.variable()})",
            lambda: f"STR({v}) IN ({self.pick(*TEXTS)}, {self.pick(*TEXTS)})",
            lambda: f"{v} = {self.faulty()}",
            lambda: f"{v}",
            lambda: self.pick("true", "false", "1", '""', "1/0", "!false"),
            lambda: f"REGEX(STR({v}), {self.pick(*PARTS)}, {self.pick(*ODD_FLAGS)})",
            lambda: f"REPLACE(STR({v}), 'x', 'y') = {self.pick(*TEXTS)}",
        ]
        if depth < 2:
            options += [
                lambda: f"({self.expression(depth + 1)} || {self.expression(depth + 1)})",
                lambda: f"({self.expression(depth + 1)} && {self.expression(depth + 1)})",
                lambda: f"!({self.expression(depth + 1)})",
                lambda: f"EXISTS {self.group(2)}",
                lambda: f"EXISTS {{ {{ {self.triple()} FILTER({self.expression(2)}) }} MINUS {self.group(2)} }}",
                lambda: f"EXISTS {{ {self.sub_select(1)} }}",
                lambda: f"EXISTS {{ {self.triple()} FILTER NOT EXISTS {self.group(2)} OPTIONAL {self.group(2)} }}",
                lambda: f"NOT EXISTS {self.group(2)}",
                lambda: f"(EXISTS {self.group(2)} || {self.expression(depth + 1)})",
            ]
        return self.rng.choice(options)()

    def faulty(self):
        """An expression that is an error, at least for some."""
        v = self.variable()
        return self.pick("1/0", f"{v} + 1", "?never", f"STRLANG({v}, 'en')", f"STRDT('1', {v})", f"xsd:integer({v})", f"-{v}")

    def given(self):
        """What BIND or a projection computes."""
        return self.pick(
            self.constant(),
            self.constant(),
            self.variable(),
            self.variable(),
            self.faulty(),
            f"COALESCE({self.faulty()}, {self.constant()})",
            f"COALESCE({self.variable()}, {self.variable()})",
            f"IF({self.expression(2)}, {self.constant()}, {self.variable()})",
            'IRI("http://e/n1")',
            f"STR({self.variable()})",
            'STRDT("1", xsd:integer)',
            'STRLANG("x", "en")',
            "BNODE()",
            f"EXISTS {self.group(2)}",
        )

    def text_of(self, v):
        return self.pick(v, v, f"STR({v})", f"LCASE({v})", f"UCASE(STR({v}))")

    def value(self):
        return "UNDEF" if self.rng.random() < 0.12 else self.constant()

    def values(self):
        r = self.rng.random()
        if r < 0.1:
            return self.pick(f"VALUES {self.variable()} {{ }}", "VALUES () { () }", "VALUES () { () () }", "VALUES () { }")
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
            lambda: f"{{ SELECT REDUCED * {inner} ORDER BY DESC({v}) {self.expression_key()} LIMIT 2 OFFSET 1 }}",
            lambda: f"{{ SELECT ({self.given()} AS {v}) {w} {inner} }}",
            lambda: f"{{ SELECT ({w} AS {v}) {inner} }}",
            lambda: f"{{ SELECT ?k ({w} AS {v}) {inner} GROUP BY ({v} AS ?k) {w} }}",
            lambda: f"{{ SELECT ?k {inner} GROUP BY ({self.given()} AS ?k) HAVING (?k = {self.constant()}) }}",
            lambda: f"{{ SELECT {v} {inner} GROUP BY {v} {w} HAVING (EXISTS {self.group(2)}) }}",
            lambda: f"{{ SELECT (COUNT(*) AS {v}) {inner} HAVING ({self.having(w, w)}) }}",
            lambda: f"{{ SELECT (MIN({w}) AS {v}) (MAX({w}) AS ?m) {inner} VALUES {v} {{ {self.constant()} }} }}",
            lambda: f"{{ SELECT {v} (GROUP_CONCAT({w}; SEPARATOR='') AS ?m) {inner} GROUP BY {v} }}",
            lambda: f"{{ SELECT {v} {{ {self.sub_select(depth + 1)} }} }}",
            lambda: f"{{ SELECT {v} (COUNT({w}) AS ?n) {inner} GROUP BY {v} HAVING ({self.having(v, w)}) }}",
        )()

    def expression_key(self):
        return f"({self.expression(2)})"

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
            lambda: f"<< {self.object()} {p} {o} ~ {self.blank_node()} >> {self.rng.choice(PROPERTIES)} {self.object()} .",
            lambda: f"{s} {p} << :n1 {self.rng.choice(PROPERTIES)} << {self.variable()} {p} {o} >> >> .",
            lambda: f"{s} {p} {o} ~ {self.variable()} ~ {{| {p} {o} ; a :A |}} {{| {p} 1 |}} .",
            lambda: f"?t <{RDF_REIFIES}> <<( {self.variable()} {p} {o} )>> . ?t :q {self.object()} .",
            lambda: f"FILTER(SUBJECT({o}) = {self.constant()})",
            lambda: f"BIND(TRIPLE({self.variable()}, {p}, {o}) AS {self.variable()})",
        )()

    def element(self, depth):
        self.blank += 1
        r = self.rng.random()
        if depth > 2 or r < 0.45:
            return self.triple()
        if r < 0.53:
            return self.pick(
                f"OPTIONAL {self.group(depth + 1)}",
                f"OPTIONAL {{ {self.triple()} FILTER({self.expression(2)}) }}",
                f"OPTIONAL {{ {{ {self.triple()} FILTER({self.expression(2)}) }} }}",
            )
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
            return f"BIND({self.given()} AS {fresh})"
        if r < 0.92:
            return self.sub_select(depth)
        if r < 0.94:
            name = self.pick("?g", "?g", ":g", ":h", self.variable(), self.rng.choice((":absent", "<http://e/g>")))
            return f"GRAPH {name} {self.pick(self.group(depth + 1), '{ }')}"
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
            body = self.pick(*DATASETS) + f" WHERE {body}"
        v = self.variable()
        return (
            self.prologue
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
                    lambda: f"DESCRIBE {self.rng.choice(NODES)} {v} {body}",
                    lambda: f"CONSTRUCT WHERE {{ {self.triple()} {self.triple()} }}",
                    lambda: f"CONSTRUCT {{ :x :y 1 }} {body} GROUP BY {v} HAVING ({self.having(v, v)})",
                    lambda: f"SELECT {v} ({self.given()} AS ?k) {body} ORDER BY ?k OFFSET 0",
                    lambda: f"SELECT ?k {body} GROUP BY ({self.given()} AS ?k) HAVING (?k = {self.constant()})",
                    lambda: f"SELECT (1 AS ?one) {body} GROUP BY {v} HAVING (EXISTS {self.group(2)})",
                    lambda: f"SELECT * {body} {self.values()}",
                    lambda: f"ASK {body} {self.values()}",
                    lambda: f"SELECT (COUNT(*) AS ?n) {body} {self.values()}",
                    lambda: f"SELECT * {body} VALUES {v} {{ {self.constant()} {self.constant()} }}",
                    lambda: f"SELECT (MAX({v}) AS ?m) {body} HAVING (COUNT(*) > 0)",
                ]
            )()
        )
