"""Keep predicates, and what stands behind them, from those who may not read them.

Options:
    deny: IRIs of predicates that nobody reads but the keys in *exempt*. Or
    allow: IRIs of the only predicates that others read.
    exempt: names of API keys that read and write everything. "anonymous" is a request without a key.

Decided on the parse tree. Refused is every triple pattern and property path with a forbidden predicate, and whatever may
reach a predicate without naming it: variables in its place, negated property sets, DESCRIBE, paths that may have no step
between two variables (they list every node), SERVICE, search predicates, extension functions, parameters that are not known
to be harmless, the graph store, updates of whole graphs, transactions, questions, the pages /-/index, /-/ttql, /-/check, and
what cannot be parsed. What is sent is written anew from the tree. The index does not check these queries, because what it
suggests could name what is hidden. What an inference makes of a hidden predicate (a super-property) is another predicate:
list it, too.
"""

from dataclasses import replace

import msgspec

from proxy import (
    AlternativePath,
    DeleteData,
    DeleteWhere,
    Exchange,
    FunctionCall,
    InsertData,
    InversePath,
    Iri,
    Modify,
    NegatedPropertySet,
    OneOrMorePath,
    OperationForbidden,
    OperationKind,
    ParsedQuery,
    ParsedUpdate,
    Plugin,
    QueryForm,
    SequencePath,
    Service,
    SparqlOperation,
    TriplePattern,
    TripleTerm,
    Variable,
    ZeroOrMorePath,
    ZeroOrOnePath,
    is_magic,
    is_relative,
    render,
    walk,
)

HARMLESS = frozenset(["format", "output", "results", "timeout"])
XSD = "http://www.w3.org/2001/XMLSchema#"


class Options(msgspec.Struct, frozen=True):
    deny: tuple[str, ...] = ()
    allow: tuple[str, ...] = ()
    exempt: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.deny) == bool(self.allow):
            raise ValueError("deny or allow: one of them is wanted, a list of IRIs")


def load(options: Options) -> Plugin:
    return PredicateAccess(options)


class PredicateAccess(Plugin):
    may_refuse = True

    def __init__(self, options: Options) -> None:
        self.deny = frozenset(map(Iri, options.deny))
        self.allow = frozenset(map(Iri, options.allow))
        self.exempt = frozenset(options.exempt)

    def is_exempt(self, exchange: Exchange) -> bool:
        return (exchange.caller or "anonymous") in self.exempt

    def request(self, exchange: Exchange) -> None:
        if self.is_exempt(exchange):
            return
        match exchange.operation:
            case SparqlOperation(kind=OperationKind.QUERY | OperationKind.UPDATE, parameters=parameters):
                for name, _ in parameters:
                    if name not in HARMLESS:
                        raise OperationForbidden(f"{name}= is not allowed here: it may change what is read")
                exchange.leave_unchecked()
            case _:
                raise OperationForbidden("this tells of all predicates, and some of them are not for everybody")

    def question(self, exchange: Exchange) -> None:
        if not self.is_exempt(exchange):
            raise OperationForbidden("questions are answered from all predicates, and some of them are not for everybody")

    def query(self, exchange: Exchange) -> None:
        if self.is_exempt(exchange):
            return
        match exchange.parsed:
            case ParsedQuery(form=QueryForm.DESCRIBE):
                raise OperationForbidden("DESCRIBE may tell of any predicate; ask with CONSTRUCT")
            case ParsedQuery() as query:
                # A template names predicates that it makes, and reads none. All else may: EXISTS stands in projections, too.
                self.require_readable(replace(query, template=()))
                exchange.replace_query(render(query))  # what was judged is what is sent: no other parser may read it otherwise
            case ParsedUpdate() as update:
                for operation in update.operations:
                    if not isinstance(operation, InsertData | DeleteData | DeleteWhere | Modify):
                        raise OperationForbidden("this changes whole graphs, with predicates that are not for everybody")
                    self.require_readable(operation)
                exchange.replace_query(render(update))
            case _:
                raise OperationForbidden("the text cannot be parsed, so nobody can say which predicates it reads")

    def require_readable(self, node: object) -> None:
        """Refuse what reads, or may read, a forbidden predicate."""
        for part in walk(node):
            match part:
                case TriplePattern():
                    self.require_pattern(part)
                case TripleTerm(predicate=predicate):
                    self.require_predicate(predicate)
                case Service():
                    raise OperationForbidden("SERVICE is not allowed here: what answers it may be the same database")
                case FunctionCall(name=Iri() as name) if not name.value.startswith(XSD):
                    raise OperationForbidden(f"the function {name} is not allowed here: it may read any predicate")

    def require_pattern(self, pattern: TriplePattern) -> None:
        if isinstance(pattern.subject, Variable) and isinstance(pattern.object, Variable) and may_be_empty(pattern.predicate):
            raise OperationForbidden(f"line {pattern.span.line}: a path without a step between two variables lists every node")
        for part in walk(pattern.predicate):
            if isinstance(part, Iri | Variable | NegatedPropertySet):
                self.require_predicate(part)
        if any(isinstance(part, Iri) and is_magic(part) for part in walk(pattern)):
            raise OperationForbidden(f"line {pattern.span.line}: a search predicate may read any predicate")

    def require_predicate(self, predicate: object) -> None:
        match predicate:
            case Iri() if is_relative(predicate):
                raise OperationForbidden(f"{predicate} has no BASE, so that only the backend knows which predicate it is")
            case Iri():
                if predicate in self.deny or (self.allow and predicate not in self.allow):
                    raise OperationForbidden(f"{predicate} is not for everybody")
            case _:
                raise OperationForbidden("this may reach any predicate; name the ones that are wanted")


def may_be_empty(path: object) -> bool:
    """Whether *path* may match without a step, so that it relates every node of the graph to itself."""
    match path:
        case ZeroOrMorePath() | ZeroOrOnePath():
            return True
        case InversePath(path=inner) | OneOrMorePath(path=inner):
            return may_be_empty(inner)
        case SequencePath(paths=paths):
            return all(map(may_be_empty, paths))
        case AlternativePath(paths=paths):
            return any(map(may_be_empty, paths))
    return False
