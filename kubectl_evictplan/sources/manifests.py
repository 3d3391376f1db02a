"""One Node or Pod that a scenario creates, from its manifest.

What a scenario creates goes through the API server, so validation and admission always apply,
even when the manifest was copied from a running object and still has its uid.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubectl_evictplan.errors import InputError, Problem
from kubectl_evictplan.kube.objects import ControlPlaneFlags, Node, Pod
from kubectl_evictplan.sources.assembly import Assembly
from kubectl_evictplan.sources.diagnostics import Diagnostics, Document
from kubectl_evictplan.sources.files import knows_comparison_operators
from kubectl_evictplan.sources.items import ItemReader

_STORED_MARKS = ("uid", "resourceVersion")


def decode_manifest_object(
    manifest: dict[str, Any],
    location: str,
    *,
    control_plane: ControlPlaneFlags | None = None,
    manifest_version: str = "",
) -> Node | Pod:
    """Return the object as the API server would store it; raises InputError with all problems.

    ``location`` names the file; a manifest of the YAML reader adds line and column itself. ``control_plane`` gives the API server's default
    toleration seconds (300 s otherwise). A uid in the manifest is kept.
    """
    diagnostics = Diagnostics()
    assembly = Assembly(diagnostics)
    if control_plane is not None:
        assembly.add_control_plane(control_plane)
    reader = ItemReader(assembly, comparison_operators=knows_comparison_operators(manifest_version))
    meta = manifest.get("metadata")
    created = dict(manifest)
    if isinstance(meta, dict):
        created["metadata"] = {
            key: value for key, value in meta.items() if key not in _STORED_MARKS
        }
    document = Document(location, tree=manifest)
    reader.read_tree(created, document, -1)
    diagnostics.raise_problems()
    snapshot = assembly.snapshot()
    found: tuple[Node | Pod, ...] = (*snapshot.nodes, *snapshot.pods)
    if len(found) != 1:
        raise InputError(Problem("expected one Node or Pod", location=document.origin().location()))
    uid = meta.get("uid") if isinstance(meta, dict) else None
    return msgspec.structs.replace(found[0], uid=uid if isinstance(uid, str) else "")
