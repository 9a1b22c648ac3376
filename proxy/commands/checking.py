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


def check(config: Config, text: str, *, as_json: bool) -> int:
    """Print the findings on the query *text*; REFUSED if it is not SPARQL, or proved to have no solutions."""
    require_source(config)
    from proxy.query.model import ParsedQuery
    from proxy.query.parse import parse

    try:
        parsed = parse(text)
    except MalformedQuery as error:
        _print_findings([], as_json=as_json, verdict="malformed", error=error)
        return REFUSED
    if not isinstance(parsed, ParsedQuery):
        raise ProxyError("this is an update; only a query can be checked against the graph")
    return asyncio.run(_check(config, parsed, as_json=as_json))


async def _check(config: Config, parsed: Any, *, as_json: bool) -> int:
    from proxy.pipeline.sparql import may_be_refused
    from proxy.validation.check import check as findings_of
    from proxy.validation.finding import Severity

    async with opened(config, nl=False) as dataset:
        findings = findings_of(
            parsed, dataset.index, values=dataset.values, fetches_graphs=dataset.backend.fetches_graphs
        )
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
            shown |= {"message": str(error), "line": error.line, "column": error.column}
        print(msgspec.json.format(msgspec.json.encode(shown)).decode())
        return
    if error is not None:
        where = f"{error.line}:{error.column}: " if error.line else ""
        print(f"{where}{error}")
    for finding in findings:
        print(f"{finding.line}:{finding.column}: {finding.severity}: {finding.pattern}")
        print(f"    {finding.message}")
        for label, lines in (("because", [finding.evidence]), ("try", finding.suggestions)):
            for line in filter(None, lines):
                print(f"    {label}: {line}")
    print(
        {"pass": "pass", "reject": "reject: the query can have no solutions on this graph"}.get(verdict, "reject: not SPARQL")
    )
