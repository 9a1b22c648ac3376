"""Summing up a run, and telling a difference from chance."""

from __future__ import annotations

from proxy.evaluation.report import Outcome, compare, markdown, percentile


def run(*strict: float) -> list[Outcome]:
    return [Outcome(str(i), f"Q{i}?", s, s, s, "right" if s else "wrong", 10.0 * (i + 1), 0.1) for i, s in enumerate(strict)]


def test_percentiles_are_values_that_occurred():
    """The median of four is the second, the 95th percentile of twenty the nineteenth."""
    assert percentile([4.0, 1.0, 3.0, 2.0], 0.5) == 2.0
    assert percentile([float(i) for i in range(1, 21)], 0.95) == 19.0


def test_a_large_difference_is_clear_and_none_is_not():
    """Thirty questions won are clear; a run compared with itself differs by exactly nothing."""
    strict = compare(run(*[0.0] * 40), run(*[1.0] * 30, *[0.0] * 10))[0]
    assert strict.is_clear
    assert abs(strict.mean - 0.75) < 1e-9
    assert strict.low <= strict.mean <= strict.high
    same = compare(run(1.0, 0.0), run(1.0, 0.0))[0]
    assert (same.mean, same.is_clear) == (0.0, False)


def test_one_question_more_may_be_chance():
    """One of forty changed: the interval holds zero."""
    assert not compare(run(*[0.0] * 40), run(1.0, *[0.0] * 39))[0].is_clear


def test_only_common_questions_are_compared():
    """By id; without any, there is nothing to say."""
    assert compare(run(1.0, 1.0), run(1.0))[0].questions == 1
    assert compare([], run(1.0)) == []


def test_the_report_names_what_is_wrong():
    """Means, kinds, times, risks, and the questions that were missed."""
    text = markdown(run(1.0, 0.0), title="shops", differences=compare(run(0.0, 0.0), run(1.0, 0.0)))
    assert "| strict | 0.500 |" in text
    assert "| wrong | 1 | 50.0% |" in text
    assert "| p95 | 20 ms |" in text
    assert "- 1 (wrong): Q1?" in text
    assert "| strict | +0.500 |" in text
