"""What goes wrong with a live cluster, as the errors of the command line.

Every error says what was attempted, what came back (bounded, secrets masked) and, as a correction,
the next command to type.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubectl_evictplan.errors import (
    AccessError,
    Correction,
    ForbiddenError,
    InputError,
    Problem,
    UnreachableError,
)

SERVER_TEXT_MAX = 200
_HIDDEN = "<not shown>"
_SECRET_LENGTH_MIN = 4

# What to look at when something may not be read, and when no answer comes, and when the server does not know who asks.
LOOK_AT_RIGHTS = "kubectl auth can-i --list"
LOOK_AT_CLUSTER = "kubectl cluster-info"
LOOK_AT_CONTEXTS = "kubectl config get-contexts"
LOOK_AT_USER = "kubectl auth whoami"


def masked(text: str, secrets: Iterable[str]) -> str:
    """Return the text without any of the secrets; short ones are no secrets."""
    for secret in sorted(secrets, key=len, reverse=True):
        if len(secret) >= _SECRET_LENGTH_MIN:
            text = text.replace(secret, _HIDDEN)
    return text


def bounded(text: str) -> str:
    """Return at most 200 characters of what a server or a plugin said, in one line."""
    line = " ".join(text.split())
    return line if len(line) <= SERVER_TEXT_MAX else f"{line[:SERVER_TEXT_MAX]}..."


def unreachable(
    message: str, *, location: str = "", got: str | None = None, look: str = LOOK_AT_CLUSTER
) -> UnreachableError:
    """Return the error for a server that does not answer, or not as an API server does."""
    correction = Correction((), (), first=look)
    return UnreachableError(Problem(message, location=location, got=got, correction=correction))


def unusable(message: str, *, location: str = "", look: str = LOOK_AT_CLUSTER) -> InputError:
    """Return the error for a cluster that answers, but holds nothing to predict from."""
    return InputError(Problem(message, Correction((), (), first=look), location=location))


def refused(message: str, *, location: str = "", look: str = LOOK_AT_USER) -> AccessError:
    """Return the error for credentials that are missing, broken or not accepted."""
    correction = Correction((), (), first=look)
    return AccessError(Problem(message, location=location, correction=correction))


def forbidden(message: str, *, location: str = "") -> ForbiddenError:
    """Return the error for something that the user may not read."""
    correction = Correction((), (), first=LOOK_AT_RIGHTS)
    return ForbiddenError(Problem(message, location=location, correction=correction))
