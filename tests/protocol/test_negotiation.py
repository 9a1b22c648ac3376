"""Accept → how a question is answered."""

import pytest

from proxy.protocol.negotiation import AnswerStyle, answer_style


@pytest.mark.parametrize(
    ("accept", "style"),
    [
        (None, AnswerStyle.RESULT),
        ("*/*", AnswerStyle.RESULT),
        ("text/csv", AnswerStyle.RESULT),
        ("application/sparql-results+json, application/json;q=0.9", AnswerStyle.RESULT),
        ("application/json", AnswerStyle.ACCOUNT),
        ("application/json;q=0, */*", AnswerStyle.RESULT),
        ("application/sparql-query", AnswerStyle.QUERY),
        ("text/event-stream", AnswerStyle.STEPS),
        ("garbage", AnswerStyle.RESULT),
    ],
)
def test_answer_style(accept, style):
    """Only what is named asks for more than a result."""
    assert answer_style(accept) is style
