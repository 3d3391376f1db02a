"""What an API server answers: whole, decoded, and as the ``Status`` that says why not."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

import msgspec

Decoded = TypeVar("Decoded")
Kind = TypeVar("Kind", bound="HasKind")
_BEGINNING_BYTES = 80


class HasKind(Protocol):
    """An object that says what it is."""

    @property
    def kind(self) -> str:
        """Its kind, as the API calls it."""


class Answer(NamedTuple):
    """A whole answer; names of ``headers`` are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def is_json(self) -> bool:
        """Whether it says to be JSON."""
        return "json" in self.headers.get("content-type", "").lower()

    @property
    def beginning(self) -> str:
        """What it begins with, to be told where it is not what was asked for; not yet masked."""
        return self.body[:_BEGINNING_BYTES].decode("utf-8", "replace")

    def decoded(self, decoder: msgspec.json.Decoder[Decoded]) -> Decoded:
        """Return what its body holds.

        Raises Unusable for what is no JSON or was cut, msgspec.ValidationError for JSON of another shape.
        """
        try:
            return decoder.decode(self.body)
        except msgspec.ValidationError:
            raise
        except (msgspec.DecodeError, RecursionError):
            raise Unusable("the answer is no valid JSON, or was cut") from None

    def decoded_as(self, kind: str, decoder: msgspec.json.Decoder[Kind]) -> Kind:
        """Return the object of that kind that it is; raises Unusable for everything else."""
        try:
            found = self.decoded(decoder)
        except msgspec.ValidationError:
            found = None
        if found is None or found.kind != kind:
            raise Unusable("this is no answer of an API server")
        return found


class Unusable(Exception):
    """An answer that looks cut or garbled: worth another attempt."""


class Status(msgspec.Struct, rename="camel", frozen=True):
    """``metav1.Status``, as far as it is used; of other kinds nothing but the kind."""

    kind: str = ""
    status: str = ""
    message: str = ""
    reason: str = ""
    details: Details | None = None

    @property
    def is_failure(self) -> bool:
        """Whether it is a Status that says no."""
        return self.kind == "Status" and self.status != "Success"


class Cause(msgspec.Struct, frozen=True):
    """``metav1.StatusCause``; its ``type`` is called reason on the wire."""

    reason: str = ""
    message: str = ""
    field: str = ""


class Details(msgspec.Struct, frozen=True):
    """``metav1.StatusDetails``."""

    name: str = ""
    kind: str = ""
    causes: tuple[Cause, ...] | None = None


_STATUS = msgspec.json.Decoder(Status)


def status_of(answer: Answer) -> Status:
    """Return the Status that its body holds; an empty one for HTML, text and other objects."""
    try:
        return _STATUS.decode(answer.body)
    except (msgspec.DecodeError, RecursionError):
        return Status()


def retry_after_seconds(answer: Answer) -> float | None:
    """Return the seconds to wait; the header's other form, a date, is not used by API servers."""
    text = answer.headers.get("retry-after", "").strip()
    return float(text[:9]) if text.isascii() and text.isdecimal() else None
