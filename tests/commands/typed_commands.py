"""Commands about a simulated server, typed in a directory of their own."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from live.requests_answered import Asked, Tree, failure
from live.writable_server import WritableServer


class Said(NamedTuple):
    code: int
    out: str
    err: str


Type = Callable[..., Said]


def files() -> list[str]:
    return sorted(path.name for path in Path().iterdir())


TAINT = ("taint", "node", "n1", "maint=yes:NoExecute")


def planned(type_: Type, *words: str) -> str:
    said = type_("what-if", *(words or TAINT), "--out", "plan.json")
    assert said.code == 0, said.err
    return str(json.loads(Path("plan.json").read_text())["fingerprint"])


def taints(server: WritableServer, name: str = "n1") -> list[str]:
    return [taint["key"] for taint in server.node(name)["spec"].get("taints", ())]


def stopped_before_n2(server: WritableServer, type_: Type, effect: str = "NoExecute") -> str:
    """Carry a plan for n1 and n2 out, of which the server refuses n2; return its fingerprint.

    Nobody here evicts by taints: with NoExecute, a ledger soon says that pods stayed against the prediction.
    """

    def forbid(asked: Asked, _tree: Tree) -> None:
        if asked.site == "patch nodes" and asked.name == "n2" and not asked.query.get("dryRun"):
            raise failure(403, "not today", reason="Forbidden")

    fingerprint = planned(type_, "taint", "node", "n1", "n2", f"maint=yes:{effect}")
    server.webhooks.append(forbid)
    assert type_("apply", "plan.json", "--yes").code == 3
    server.webhooks.clear()
    return fingerprint
