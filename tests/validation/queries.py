"""Random small graphs and random queries over their words, with every construct that the rules speak of."""

import random

PREFIX = "PREFIX : <http://e/> PREFIX xsd: <http://www.w3.org/2001/XMLSchema#> "
CLASSES = [":A", ":B", ":C", ":D"]
PROPERTIES = [":p", ":q", ":r", ":s", ":t"]
NODES = [f":n{i}" for i in range(7)]
LITERALS = ['"x"', '"x"@en', "1", "2", "1.0", "true", '"2020-01-01"^^xsd:date', '"1"^^xsd:int', '"y"^^:custom', '"1"']
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
    return "\n".join(lines)


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
            lambda: f"{v} > 1",
            lambda: f"LANG({v}) = 'en'",
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
            return f"GRAPH {self.pick('?g', ':g')} {self.group(depth + 1)}"
        return self.group(depth + 1)

    def group(self, depth=0):
        return "{ " + " ".join(self.element(depth) for _ in range(self.rng.randint(1, 3 if depth else 4))) + " }"

    def query(self):
        body = self.group()
        v = self.variable()
        return PREFIX + self.rng.choice(
            [lambda: f"SELECT * {body}"] * 6
            + [
                lambda: f"SELECT {v} {body}",
                lambda: f"SELECT DISTINCT {v} {body} ORDER BY {v} LIMIT 3",
                lambda: f"SELECT (COUNT(*) AS ?n) {body}",
                lambda: f"SELECT {v} (COUNT(*) AS ?n) {body} GROUP BY {v}",
                lambda: f"ASK {body}",
                lambda: f"CONSTRUCT {{ :x :y {v} }} {body}",
                lambda: f"DESCRIBE {v} {body}",
                lambda: f"SELECT * {body} VALUES {v} {{ {self.constant()} {self.constant()} }}",
                lambda: f"SELECT (MAX({v}) AS ?m) {body} HAVING (COUNT(*) > 0)",
            ]
        )()
