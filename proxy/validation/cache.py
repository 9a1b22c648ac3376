"""Verdicts that were already reached: the same text against the same index is not checked twice."""

from __future__ import annotations

from collections import OrderedDict

from proxy.query.model import ParsedOperation
from proxy.query.operation import DatasetDescription
from proxy.validation.finding import Finding

Entry = tuple[ParsedOperation, tuple[Finding, ...]]
_NO_DATASET = DatasetDescription()


class VerdictCache:
    """The most recently used verdicts, for one event loop.

    Args:
        max_entries: verdicts kept.
        max_characters: longer texts are not kept, so that the memory is bounded by the product of the two.
    """

    def __init__(self, *, max_entries: int = 2_000, max_characters: int = 20_000) -> None:
        self._max_entries = max_entries
        self._max_characters = max_characters
        self._entries: OrderedDict[tuple[str, int, DatasetDescription], Entry] = OrderedDict()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, text: str, epoch: int, dataset: DatasetDescription = _NO_DATASET) -> Entry | None:
        """What is known of *text* against the index of *epoch* (``SupportIndex.epoch``) and the protocol's dataset."""
        key = (text, epoch, dataset)
        found = self._entries.get(key)
        if found is not None:
            self._entries.move_to_end(key)
        return found

    def put(self, text: str, epoch: int, entry: Entry, dataset: DatasetDescription = _NO_DATASET) -> None:
        if len(text) > self._max_characters:
            return
        self._entries[text, epoch, dataset] = entry
        self._entries.move_to_end((text, epoch, dataset))
        while len(self._entries) > self._max_entries:
            self._entries.popitem(last=False)
