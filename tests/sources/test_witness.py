"""Whatever a capture's shape, who was evicted when is seen in it, events and all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from building.captured_clusters import (
    Files,
    dump_folder,
    event,
    lists,
    must_gather,
    one_file_each,
    pod,
    printed_dump,
    tar,
    whole,
    zipped,
)

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.sightings import MARKING
from kubectl_evictplan.sources import documents
from kubectl_evictplan.sources.files import load_files
from kubectl_evictplan.sources.sightings import Unreadable, seen_event, seen_pod
from kubectl_evictplan.sources.witness import Witness

DUMPS: dict[str, Files] = {
    "dump": dump_folder(),
    "dump-yaml": dump_folder(as_yaml=True),
    "printed": {"dump.txt": printed_dump()},
    "printed-yaml": {"dump.txt": printed_dump(as_yaml=True)},
    "must-gather": must_gather(),
    "tar": {"dump.tar": tar(dump_folder())},
    "tgz": {"dump.tgz": tar(must_gather(), "w:gz")},
    "zip": {"dump.zip": zipped(dump_folder())},
}


def seen(folder: Path, files: Files) -> Witness:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    witness = Witness()
    load_files([str(folder)] if len(files) > 1 else [str(folder / next(iter(files)))],
               recursive=True, witness=witness)  # fmt: skip
    return witness


@pytest.mark.parametrize("name", DUMPS)
def test_pods_nodes_and_events_of_every_capture_are_seen(name: str, tmp_path: Path) -> None:
    found = seen(tmp_path, DUMPS[name])
    assert {one.key for one in found.pods.values()} >= {"default/web-1", "default/web-2"}
    assert set(found.nodes) == {"n1", "n2"}
    if name in ("must-gather", "tgz"):
        # This one was made without them.
        assert found.events_seen == any("events" in path for path in must_gather())
    else:
        (only,) = found.events
        assert (only.name, only.reason) == ("web-1", "TaintManagerEviction")
    assert found.unreadable.counts() == {}


def test_events_in_a_file_too_large_for_yaml_are_left_out_and_that_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(documents, "EVIDENCE_YAML_BYTES_MAX", 1500)
    files = dump_folder(as_yaml=True)
    name = next(name for name in files if "events" in name)
    files[name] = files[name] + b"# " + b"x" * 1500
    found = seen(tmp_path, files)
    assert (found.left_out, len(found.pods)) == (1, 3)


def test_files_without_nodes_will_do(tmp_path: Path) -> None:
    items = [whole("Pod", pod("web-1", "default", "n1")), whole("Event", event("e", "default"))]
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": items}).encode()
    found = seen(tmp_path, {"some.json": text})
    assert (len(found.pods), len(found.nodes), len(found.events)) == (1, 0, 1)


def test_what_cannot_be_read_is_counted_once_by_its_kind(tmp_path: Path) -> None:
    wrong = {**whole("Event", event("e", "default")), "count": "many"}
    nameless = {**wrong, "metadata": {}}
    items = [whole("Pod", pod("web-1", "default", "n1")), wrong, wrong, nameless]
    text = json.dumps({"kind": "List", "apiVersion": "v1", "items": items}).encode()
    assert seen(tmp_path, {"some.json": text}).unreadable.counts() == {"Event": 2}


def test_what_is_wrong_with_a_pod_is_still_an_error(tmp_path: Path) -> None:
    wrong = {**whole("Pod", pod("web-1", "default", "n1")), "spec": {"nodeName": 7}}
    with pytest.raises(InputError, match="nodeName"):
        seen(tmp_path, {"some.json": json.dumps(wrong).encode()})


def test_every_capture_is_read_as_without_a_witness(tmp_path: Path) -> None:
    for number, files in enumerate((dump_folder(), one_file_each(), lists())):
        folder = tmp_path / str(number)
        for name, data in files.items():
            path = folder / (name if isinstance(data, bytes) else f"{name}.json")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data if isinstance(data, bytes) else json.dumps(data).encode())
        alone = load_files([str(folder)], recursive=True)
        witnessed = load_files([str(folder)], recursive=True, witness=Witness())
        assert witnessed.digest == alone.digest


# -- what is read of an object -----------------------------------------------------------------------


def raw_event(**fields: Any) -> bytes:
    about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u1"}
    return json.dumps(
        {"involvedObject": about, "reason": "TaintManagerEviction", **fields}
    ).encode()


def test_both_kinds_of_events_say_the_same() -> None:
    about = {"kind": "Pod", "namespace": "default", "name": "web", "uid": "u1"}
    times = {"firstTimestamp": "2026-11-20T22:00:00Z", "lastTimestamp": "2026-11-20T22:00:09Z"}
    said = "Marking for deletion Pod default/web"
    old = seen_event(raw_event(**times, count=3, message=said, source={"component": "c"}))
    new = seen_event(
        json.dumps(
            {
                "regarding": about,
                "reason": "TaintManagerEviction",
                "note": said,
                "deprecatedFirstTimestamp": times["firstTimestamp"],
                "deprecatedLastTimestamp": times["lastTimestamp"],
                "deprecatedCount": 3,
                "reportingController": "c",
            }
        ).encode()
    )
    assert old == new
    assert old is not None
    assert (old.count, old.told, old.component) == (3, MARKING, "c")


def test_a_series_says_when_it_happened_last() -> None:
    found = seen_event(
        raw_event(
            eventTime="2026-11-20T22:00:00.123456Z",
            firstTimestamp=None,
            series={"count": 5, "lastObservedTime": "2026-11-20T22:01:00.5Z"},
        )
    )
    assert found is not None
    assert found.count == 5
    assert found.last.earliest_ns - found.first.earliest_ns == 60_376_544_000


@pytest.mark.parametrize(
    "fields",
    [{"firstTimestamp": "yesterday"}, {}, {"count": "many"}, {"involvedObject": 3}],
)
def test_an_event_that_no_api_server_writes_is_unreadable(fields: dict[str, Any]) -> None:
    with pytest.raises(Unreadable):
        seen_event(raw_event(**fields))


def test_events_of_other_reasons_are_never_kept() -> None:
    assert seen_event(raw_event(reason="Pulled", message="secret")) is None


def test_the_reason_of_a_disruption_counts_while_it_is_true() -> None:
    for status, reason in (("True", "EvictionByEvictionAPI"), ("False", "")):
        condition = {
            "type": "DisruptionTarget",
            "status": status,
            "reason": "EvictionByEvictionAPI",
        }
        found = seen_pod(
            json.dumps({"metadata": {"name": "p"}, "status": {"conditions": [condition]}}).encode()
        )
        assert found.disruption == reason
