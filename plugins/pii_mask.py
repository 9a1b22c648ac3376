"""Put stars in place of personal data in answers and in the log.

Options:
    kinds: what to look for, of "email", "iban", "card" (payment cards), "phone" (international, with +). Default: all.
    clear_for: names of API keys whose answers are left as they are; "anonymous" is a request without a key. Default: nobody.

Works on the text of a result as it streams by, in any text format (JSON, XML, CSV, TSV, Turtle, N-Triples, N-Quads, TriG,
HTML), in literals and IRIs alike; at most 600 bytes are held back. An answer in another format (binary RDF), a part of one,
or one in another charset than UTF-8 is not given at all (406). An IBAN and a card number count if their check digits are
right. Not found: data that are written in words, parted by something else than blanks and dashes, computed
(``STRBEFORE(?mail, "@")``), or tested by a FILTER: this keeps data out of sight, and is no access control. What Sparlance
writes itself (problems, ``/-/ttql``, the account of a question, ``Sparlance-Query``) is masked, too.
"""

import re
from collections.abc import Callable
from typing import Literal

import msgspec

from proxy import BodyFilter, Exchange, NotAcceptable, Plugin, filter_log

HOLD = 600
"""Bytes that may be the beginning of something; no match is longer."""
AT = rb"(?:@|%40|\\u0040|&#64;|&#[xX]40;)"
PLUS = rb"(?:\+|%2[bB]|\\u002[bB]|&#43;|&#[xX]2[bB];)"
_LOCAL = rb"""[^\s"'<>()\[\],;:@\\&/=?#|{}%]"""
LOCAL = rb"(?<!" + _LOCAL + rb")(?:" + _LOCAL + rb"|%(?!40)[0-9A-Fa-f]{2}){1,64}+"
PATTERNS = {
    "email": LOCAL + AT + rb"(?:[A-Za-z0-9\x80-\xff-]{1,63}\.){1,4}[A-Za-z\x80-\xff]{2,63}",
    "iban": rb"\b[A-Z]{2}\d{2}(?:[A-Z0-9]{11,30}|(?:[ -][A-Z0-9]{4}){2,7}(?:[ -][A-Z0-9]{1,4})?)\b",
    "card": rb"(?<![\w.+-])(?:\d{15,19}|\d{2,6}(?:[ -]\d{2,6}){2,12})(?![\w]|\.\d)",
    "phone": PLUS + rb"\d(?:[ ()/.-]{0,2}\d){6,17}(?!\d)",
}
LONGEST = 2 * 8
"""Groups of an IBAN, and what parts them; a card number has fewer."""
TEXT = re.compile(
    r"(?:text/[\w.+-]+|application/(?:[\w.-]+\+)?(?:json|xml)|application/(?:n-triples|n-quads|trig|x-turtle|ndjson|x-trig))"
    r"\s*(?:;\s*charset=\"?(?:utf-?8|us-ascii)\"?\s*|;\s*(?!charset)[\w-]+=[^;]*)*",
    re.IGNORECASE,
)
Kind = Literal["email", "iban", "card", "phone"]


class Options(msgspec.Struct, frozen=True):
    kinds: tuple[Kind, ...] = ("email", "iban", "card", "phone")
    clear_for: tuple[str, ...] = ()


def load(options: Options) -> Plugin:
    return PiiMask(options)


class PiiMask(Plugin):
    may_refuse = True

    def __init__(self, options: Options) -> None:
        self.clear_for = frozenset(options.clear_for)
        self.kinds = options.kinds
        self.pattern = re.compile(b"|".join(b"(?P<%s>%s)" % (k.encode(), PATTERNS[k]) for k in options.kinds))
        self.forget: Callable[[], None] = lambda: None

    def startup(self) -> None:
        self.forget = filter_log(self.mask)

    def shutdown(self) -> None:
        self.forget()

    def request(self, exchange: Exchange) -> None:
        if (exchange.caller or "anonymous") not in self.clear_for:
            exchange.change_own_text(self.mask)

    def body(self, exchange: Exchange) -> BodyFilter | None:
        if (exchange.caller or "anonymous") in self.clear_for or exchange.status in (204, 304):
            return None
        kinds = [value.decode("latin-1") for name, value in exchange.response_headers if name == b"content-type"]
        # Where none is named there is no body (or nobody knows what it is): a write that is done must not look refused.
        if kinds and (len(kinds) > 1 or not TEXT.fullmatch(kinds[0].strip())):
            raise NotAcceptable("an answer that cannot be read cannot be masked: ask for a text format, such as JSON or Turtle")
        return Masked(self)

    def mask(self, text: bytes) -> bytes:
        return self.pattern.sub(hide, text)


class Masked:
    """The body of one answer."""

    def __init__(self, plugin: PiiMask) -> None:
        self.pattern = plugin.pattern
        self.kept = b""
        self.start = 0  # what stands before is sent already, and kept for what must not precede a match

    def feed(self, chunk: bytes) -> bytes:
        return self.take(chunk, HOLD)

    def close(self) -> bytes:
        return self.take(b"", 0)

    def take(self, chunk: bytes, hold: int) -> bytes:
        text = self.kept + chunk
        end = max(len(text) - hold, self.start)
        parts, at = [], self.start
        for found in self.pattern.finditer(text, self.start):
            if found.start() >= end:
                break
            parts += [text[at : found.start()], hide(found)]
            at = found.end()
        at_end = max(at, end)
        parts.append(text[at:at_end])
        begin = max(at_end - 1, 0)
        self.kept, self.start = text[begin:], at_end - begin
        return b"".join(parts)


def hide(found: re.Match[bytes]) -> bytes:
    """Stars; in place of digits only where the check digits are right, be there others before or behind."""
    text = found.group()
    match found.lastgroup:
        case "iban":
            return hide_groups(text, is_iban)
        case "card":
            return hide_groups(text, is_card)
    return b"***"


def hide_groups(text: bytes, is_right: Callable[[bytes], bool]) -> bytes:
    """*text* with stars for the groups that together are right; as it is if none are."""
    groups = re.split(rb"([ -])", text)  # groups and what parts them, in turn
    for first in range(0, len(groups), 2):
        for last in range(min(first + LONGEST, len(groups) - 1), first - 1, -2):
            if is_right(b"".join(groups[first : last + 1 : 2])):
                return b"".join(groups[:first]) + b"***" + b"".join(groups[last + 1 :])
    return text


def is_iban(plain: bytes) -> bool:
    """ISO 13616: turned about, its rest by 97 is 1."""
    if not 15 <= len(plain) <= 34 or not plain[:2].isalpha():
        return False
    return int("".join(str(int(chr(c), 36)) for c in plain[4:] + plain[:4])) % 97 == 1


def is_card(plain: bytes) -> bool:
    """ISO/IEC 7812: the length and first digit of a payment card, and Luhn's sum is a multiple of ten."""
    if len(plain) not in (15, 16, 19) or plain[:1] not in b"23456" or len(set(plain)) == 1:
        return False
    digits = [c - 48 for c in reversed(plain)]
    return sum(d if i % 2 == 0 else 2 * d - 9 * (d > 4) for i, d in enumerate(digits)) % 10 == 0
