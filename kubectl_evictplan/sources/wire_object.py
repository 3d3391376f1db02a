"""What every object read has, as a decoder type; see ``wire``."""

from __future__ import annotations

from msgspec import Struct


class ObjectMeta(Struct, rename="camel"):
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""


class WireObject(Struct, rename="camel", tag_field="kind", kw_only=True):
    """Base of the tagged kinds; the group in ``api_version`` is checked after decoding."""

    metadata: ObjectMeta
    api_version: str | None = None
