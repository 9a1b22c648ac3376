"""The parts of the question engine that a run can do without."""

from enum import StrEnum


class Part(StrEnum):
    """What can be left out.

    CONTENT: all that the description of the graph has beyond the co-occurrence matrix: values, their examples and statistics.
    LITERALS: values of the graph in the question. TYPES: that sums, averages and orders want numbers or dates.
    SHAPE: aggregates, orders, groups and negation. FEEDBACK: what queries bring, as evidence of gate and corrector.
    """

    CONTENT = "content"
    LITERALS = "literals"
    TYPES = "type-gate"
    SHAPE = "shape"
    CONSENSUS = "consensus"
    VALIDATOR = "validator"
    GATE = "gate"
    CORRECTOR = "corrector"
    FEEDBACK = "feedback"
