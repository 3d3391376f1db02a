"""What ties a report to the prediction, and to the plan, that it was made from."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from operator import attrgetter

import msgspec

from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.prediction.grouped_evictions import Chain, EvictionGroup, Evictions
from kubectl_evictplan.prediction.records import Because, Eviction, Rows, plain

_encoder = msgspec.json.Encoder(order="deterministic", enc_hook=plain)
_ROWS_AT_ONCE = 500
_OBJECT = attrgetter("object")

# Of one eviction: namespace, pod, uid and owner, and the digest of all the rest.
_Told = tuple[str, str, str, str, str]


def fingerprint(prediction: Prediction) -> str:
    """Return "sha256:<hex>" over the prediction's canonical JSON: keys in order, no blanks, UTF-8.

    ``impact`` counts as null: it follows from the rest, and a plan is made without it. ``fingerprint`` counts as "". Each
    of the ``evictions`` counts as the list of its namespace, pod, uid, owner, and the SHA-256 (hex) of all the rest: of the
    canonical JSON of a list of the row, in which those four are "" and so is the ``object`` of links about the pod itself,
    and of the places of these links in ``because``. So what thousands of rows share is encoded once. Where a lone
    surrogate has no UTF-8, Python's spelling of the document counts.
    """
    bare = msgspec.structs.replace(prediction, impact=None, fingerprint="")
    digest = hashlib.sha256()
    try:
        for part in _canonical(bare):
            digest.update(part)
    except UnicodeEncodeError:
        content = repr(msgspec.to_builtins(bare, enc_hook=plain)).encode("utf-8", "surrogatepass")
        digest = hashlib.sha256(content)
    return f"sha256:{digest.hexdigest()}"


def _canonical(prediction: Prediction) -> Iterator[bytes]:
    """What ``_encoder`` makes of the document, some rows at a time: whole it would be 90 MB of a large cluster."""
    before = b"{"
    for field in msgspec.structs.fields(prediction):
        yield before + _encoder.encode(field.encode_name) + b":"
        before, value = b",", getattr(prediction, field.name)
        if isinstance(value, Evictions):
            yield from _list(_told(value))
        elif isinstance(value, tuple | Rows):
            yield from _list(value)
        else:
            yield _encoder.encode(value)
    yield b"}"


def _told(evictions: Evictions) -> Iterable[_Told]:
    """Rows that came one by one count as the same rows in groups."""
    if not evictions.grouped:
        return map(_by_itself, evictions.rows)
    digests, rows = _digests(evictions.groups), evictions.in_order
    if "" not in digests.values():
        return (
            (names.namespace, names.pod, names.uid, names.owner, digests[id(group)])
            for names, group in rows
        )
    return (
        (names.namespace, names.pod, names.uid, names.owner, digests[id(group)])
        if digests[id(group)]
        else _by_itself(group.row(names))
        for names, group in rows
    )


# Compact JSON of the beginning of a chain, and which pods it names.
_Before = tuple[bytes, Collection[str]]


def _digests(groups: Iterable[EvictionGroup]) -> dict[int, str]:
    """By the identity of each group the digest of all its rows.

    "" where a link names one of its pods, and so is about the pod itself in one row alone.
    """
    encode, sha256 = _encoder.encode, hashlib.sha256
    found: dict[int, str] = {}
    # Pods of one node have the very same.
    befores: dict[int, _Before] = {}
    for group in groups:
        before, rest = group.chain
        if (known := befores.get(id(before))) is None:
            known = befores[id(before)] = encode(before)[1:-1], _named_pods(before)
        links, named = known
        if any(map(_OBJECT, rest)):
            named = {*named, *_named_pods(rest)}
        if named and any(f"pod/{names.key}" in named for names in group.pods):
            found[id(group)] = ""
            continue
        row, told = group.json(encode)
        links += b"," + told if links and told else told
        own = [at for at, link in enumerate(rest, len(before)) if not link.object]
        text = b"[%b%b]},%b]" % (row, links, encode(own))
        found[id(group)] = sha256(text).hexdigest()
    return found


def _named_pods(links: Chain) -> Collection[str]:
    return {link.object for link in links if link.object.startswith("pod/")}


def _by_itself(row: Eviction) -> _Told:
    pod = f"pod/{row.key}"
    own = [at for at, link in enumerate(row.because) if link.object == pod]
    chain = [
        Because(link.offset_seconds, link.what, "", link.rule) if link.object == pod else link
        for link in row.because
    ]
    return row.namespace, row.pod, row.uid, row.owner, _digest(row, tuple(chain), own)


def _digest(row: Eviction, chain: tuple[Because, ...], own: list[int]) -> str:
    """``own``: which links of ``chain`` are about the pod itself; their object is ""."""
    rest = msgspec.structs.replace(row, namespace="", pod="", uid="", owner="", because=chain)
    return hashlib.sha256(_encoder.encode((rest, own))).hexdigest()


def _list(rows: Iterable[object]) -> Iterator[bytes]:
    # Where memory ends while it makes bytes of its own longer the encoder crashes.
    before, text, left = b"[", bytearray(), iter(rows)
    while some := list(islice(left, _ROWS_AT_ONCE)):
        _encoder.encode_into(some, text)
        yield before + text[1:-1]
        before = b","
    yield b"[]" if before == b"[" else b"]"


def sealed(prediction: Prediction) -> Prediction:
    """Return the prediction with its fingerprint; one that has it stays as it is.

    So whatever is made of a sealed prediction (its impact, the rows of one pod) names the whole one.
    """
    if prediction.fingerprint:
        return prediction
    return msgspec.structs.replace(prediction, fingerprint=fingerprint(prediction))
