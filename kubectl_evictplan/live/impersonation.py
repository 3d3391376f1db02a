"""As whom to act: by options or by a kubeconfig; the Python client knows no impersonation at all."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any, NamedTuple

from kubectl_evictplan.errors import Correction, InputError, Problem
from kubectl_evictplan.live.flags import ConnectionFlags

# What a header's name may hold, but for "%", which begins an escape.
_PLAIN = frozenset((string.ascii_letters + string.digits + "!#$&'*+-.^_`|~").encode())


class Impersonation(NamedTuple):
    """As whom to act; ``extra`` are pairs of a key and one of its values."""

    user: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, str], ...] = ()

    def headers(self) -> list[tuple[str, str]]:
        """Return the Impersonate-* headers (``k8s.io/client-go/transport/round_trippers.go``)."""
        found = [("Impersonate-User", self.user)] if self.user else []
        found += [("Impersonate-Uid", self.uid)] if self.uid else []
        found += [("Impersonate-Group", group) for group in self.groups]
        return found + [(f"Impersonate-Extra-{_escaped(key)}", value) for key, value in self.extra]


def impersonation(flags: ConnectionFlags, user: Mapping[str, Any]) -> Impersonation:
    """Return whom to act as: options replace what the user's entry says, extra ones key by key.

    Raises InputError for extras without a user to act as.
    """
    given = tuple(_pair(text) for text in flags.as_user_extra)
    found = _of_entry(user)
    if flags.as_user or flags.as_groups or flags.as_uid:
        found = Impersonation(flags.as_user, flags.as_uid, flags.as_groups)
    replaced = {key for key, _ in given}
    kept = tuple(pair for pair in found.extra if pair[0] not in replaced)
    if given and not found.user:
        correction = Correction((), ("--as", "USER"), example=True)
        message = "says more about a user to act as, but there is none"
        raise InputError(Problem(message, correction, location="--as-user-extra"))
    return found._replace(extra=(*kept, *given))


def _of_entry(user: Mapping[str, Any]) -> Impersonation:
    groups, extra = user.get("as-groups"), user.get("as-user-extra")
    pairs = [
        (str(key), str(value))
        for key, values in sorted(extra.items() if isinstance(extra, dict) else ())
        for value in (values if isinstance(values, list) else [values])
    ]
    return Impersonation(
        _text(user.get("as")),
        _text(user.get("as-uid")),
        tuple(str(group) for group in groups) if isinstance(groups, list) else (),
        tuple(pairs),
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not (key and equals):
        option = ("--as-user-extra",)
        known = Correction((text,), ("KEY=VALUE",), True, option)
        raise InputError(Problem("has no KEY=", known, location=option[0], got=repr(text)))
    return key, value


def _escaped(key: str) -> str:
    """Return a key as a part of a header's name, the rest percent-encoded (``headerKeyEscape``)."""
    return "".join(chr(byte) if byte in _PLAIN else f"%{byte:02X}" for byte in key.encode())


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""
