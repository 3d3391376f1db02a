"""A prediction that was written as JSON, read back into the types it was written from."""

from __future__ import annotations

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.api_version import API_VERSION
from kubectl_evictplan.prediction.document import Prediction
from kubectl_evictplan.sources.decoder_messages import wrong_field

_GROUP = API_VERSION.partition("/")[0]
_HOW = "what `kubectl evictplan what-if ... -o json` writes"


class _Inputs(msgspec.Struct, rename="camel"):
    tool_version: str = ""


class _Head(msgspec.Struct, rename="camel"):
    """What tells any document of Kubernetes' shape from another one."""

    api_version: str = ""
    kind: str = ""
    inputs: _Inputs | msgspec.UnsetType = msgspec.UNSET


def decode_prediction(data: bytes, name: str) -> Prediction:
    """Return the prediction in the JSON of a file called ``name``; raises InputError.

    Refused: what is no JSON object, another kind, another version of the schema, and fields of wrong types.
    Fields that this program does not know are left out.
    """
    try:
        head = msgspec.json.decode(data, type=_Head)
    except msgspec.ValidationError:
        raise _wrong(name, "not a prediction", expected=_HOW) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _not_json(data, name, str(error)) from None
    _check_head(head, name)
    try:
        return msgspec.json.decode(data, type=Prediction)
    except msgspec.ValidationError as error:
        raise _wrong_field(error, head, name) from None


def _check_head(head: _Head, name: str) -> None:
    group = head.api_version.partition("/")[0]
    if group == _GROUP and head.api_version != API_VERSION:
        message = "written in another version of the schema"
        raise _wrong(name, message, "apiVersion", head.api_version, f"{API_VERSION}")
    if group != _GROUP or head.kind != "Prediction":
        known = head.kind or head.api_version
        raise _wrong(name, "not a prediction", "kind", known or None, f"Prediction: {_HOW}")


def _wrong_field(error: msgspec.ValidationError, head: _Head, name: str) -> InputError:
    """Say which field is wrong, and who wrote it where that explains it."""
    what, field = wrong_field(error)
    version = "" if head.inputs is msgspec.UNSET else head.inputs.tool_version
    by = f"; written by kubectl-evictplan {version}" if version else ""
    return _wrong(name, f"{what}{by}", field)


def _not_json(data: bytes, name: str, said: str) -> InputError:
    from kubectl_evictplan.sources.json_reader import explain

    if not data.strip():
        return _wrong(name, "the file is empty", expected=_HOW)
    if data.lstrip()[:1] not in (b"{", b"["):
        return _wrong(name, "not JSON: predictions are compared as `-o json` writes them")
    return InputError(
        [
            Problem(f"not JSON: {problem.message}", location=f"{name}:{problem.place}".rstrip(":"))
            for problem in explain(data, said)
        ]
    )


def _wrong(
    name: str, message: str, field: str = "", got: str | None = None, expected: str = ""
) -> InputError:
    return InputError(Problem(message, location=name, field=field, got=got, expected=expected))
