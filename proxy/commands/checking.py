"""``check``."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from proxy.commands import DONE, REFUSED
from proxy.commands.opening import opened, require_source
from proxy.config import Config
from proxy.errors import MalformedQuery, ProxyError
from proxy.pipeline.unforeseen import Failures

_FAILED = "an unforeseen failure of Sparlance, told on stderr"
_WHOLE = frozenset(["size", "escape", "internal"])
"""Rules of the finding that stands for a whole text."""
_LAST = {
    "pass": "pass",
    "unknown": "pass: not analysed, it would be forwarded",
    "reject": "reject: the query can have no solutions on this graph",
    "malformed": "reject: not SPARQL",
}


def check(config: Config, text: str, *, as_json: bool) -> int:
    """Print the findings on the query *text*; REFUSED if it is not SPARQL, or proved to have no solutions.

    What is too large to be analysed, or where the analysis fails, passes: as a request it would be forwarded.
    """
    require_source(config)
    from proxy.query.model import ParsedQuery, ParsedUpdate
    from proxy.query.parse import parse
    from proxy.validation.finding import not_checked

    try:
        parsed = parse(text)
    except MalformedQuery as error:
        if error.reason != "syntax":
            finding = not_checked(error.reason, error.message, line=error.line, column=error.column)
            _print_findings([finding], as_json=as_json, verdict="pass")
            return DONE
        _print_findings([], as_json=as_json, verdict="malformed", error=error)
        return REFUSED
    except Exception as error:  # as on the way of a request (pipeline/unforeseen.py)
        Failures().note(text, "parse", error)
        _print_findings([not_checked("internal", _FAILED)], as_json=as_json, verdict="pass")
        return DONE
    if isinstance(parsed, ParsedUpdate) and not parsed.operations:
        raise ProxyError("there is no query in the text")
    if not isinstance(parsed, ParsedQuery):
        raise ProxyError("this is an update; only a query can be checked against the graph")
    return asyncio.run(_check(config, text, parsed, as_json=as_json))


async def _check(config: Config, text: str, parsed: Any, *, as_json: bool) -> int:
    from proxy.pipeline.sparql import may_be_refused
    from proxy.validation.check import check as findings_of
    from proxy.validation.finding import Severity, not_checked

    async with opened(config, nl=False) as dataset:
        assert dataset.index is not None
        try:
            findings = findings_of(
                parsed, dataset.index, values=dataset.values, fetches_graphs=dataset.backend.fetches_graphs
            )
        except Exception as error:  # as above
            dataset.failures.note(text, "check", error)
            findings = (not_checked("internal", _FAILED),)
        verdict = "pass"
        for finding in findings:
            if finding.severity is Severity.PROVED_EMPTY and finding.confirmation and may_be_refused(parsed):
                has_solutions = await dataset.backend.ask(finding.confirmation, timeout_s=config.validation.confirm_timeout_s)
                verdict = verdict if has_solutions else "reject"
    _print_findings(findings, as_json=as_json, verdict=verdict)
    return REFUSED if verdict == "reject" else DONE


def _print_findings(findings: Sequence[Any], *, as_json: bool, verdict: str, error: MalformedQuery | None = None) -> None:
    if as_json:
        shown: dict[str, Any] = {"verdict": verdict, "findings": findings}
        if error is not None:
            shown |= {"message": error.message, "line": error.line, "column": error.column}
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        return
    if error is not None:
        where = f"{error.line}:{error.column}: " if error.line else ""
        print(f"{where}{_visible(error.message)}")
    for finding in findings:
        pattern = f": {_visible(finding.pattern)}" if finding.pattern else ""
        print(f"{finding.line}:{finding.column}: {finding.severity}{pattern}")
        print(f"    {_visible(finding.message)}")
        for label, lines in (("because", [finding.evidence]), ("try", finding.suggestions)):
            for line in filter(None, lines):
                print(f"    {label}: {_visible(line)}")
    if verdict == "pass" and any(f.rule in _WHOLE for f in findings):
        verdict = "unknown"
    print(_LAST[verdict])


def _visible(text: str) -> str:
    """*text* on one line, with escapes for what a terminal would obey or cannot show: a query may come from anybody."""
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
