"""What every object read has, as a decoder type; see ``wire``."""

from typing import Annotated

from msgspec import Meta, Raw, Struct

from kubectl_evictplan.sources.wire_needs import NULL


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


Timestamp = Annotated[str, Meta(extra={"timestamp": True})]
# Left as bytes by the decoders of whole objects.
Labels = Annotated[Raw, Meta(extra={"holds": dict[str, str]})]


class Present(Struct, gc=False):
    """An object of which only the existence matters."""


class LabelledMeta(ObjectMeta):
    labels: Labels = NULL


class Phase(Struct, frozen=True):
    phase: str = ""


class Reference(Struct, rename="camel"):
    kind: str = ""
    namespace: str = ""
    name: str = ""
