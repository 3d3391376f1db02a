"""Which pods ``kubectl drain`` evicts, leaves alone or refuses to touch: ``pkg/drain/filters.go``."""

from __future__ import annotations

from pathlib import Path

import pytest
from building.builders import START_NS, epoch_ns, make_pod, ns
from msgspec.structs import replace

from kubectl_evictplan.kube.drain_filters import (
    Decision,
    DrainOptions,
    FilteredPod,
    Reason,
    filter_pods,
    refusals,
    warnings,
)
from kubectl_evictplan.kube.objects import OwnerReference, Pod
from kubectl_evictplan.simulation.drain_parts import known_daemon_sets
from kubectl_evictplan.sources.files import load_files

REPLICA_SET = OwnerReference("ReplicaSet", "web", "u1", "apps/v1", controller=True)
DAEMON_SET = OwnerReference("DaemonSet", "agent", "u2", "apps/v1", controller=True)
AGENTS = frozenset({"default/agent"})
NO_FLAGS = DrainOptions()
ALL = DrainOptions(force=True, ignore_daemonsets=True, delete_emptydir_data=True)


def bare(name: str = "p") -> Pod:
    return make_pod(name, "a1")


def owned(owner: OwnerReference, name: str = "p") -> Pod:
    return replace(make_pod(name, "a1"), owner_references=(owner,))


def decided(
    pod: Pod, options: DrainOptions = NO_FLAGS, daemon_sets: frozenset[str] | None = AGENTS
) -> tuple[Decision, Reason | None]:
    (found,) = filter_pods([pod], options, daemon_sets, START_NS)
    return found.decision, found.reason


def test_a_pod_of_a_controller_is_evicted() -> None:
    assert decided(owned(REPLICA_SET)) == (Decision.EVICT, None)


def test_an_owner_that_is_no_controller_does_not_count() -> None:
    reference = replace(REPLICA_SET, controller=False)
    assert decided(owned(reference)) == (Decision.REFUSE, Reason.UNMANAGED)


def test_a_bare_pod_is_refused_and_with_force_evicted_with_a_warning() -> None:
    assert decided(bare()) == (Decision.REFUSE, Reason.UNMANAGED)
    assert decided(bare(), DrainOptions(force=True)) == (Decision.EVICT, Reason.UNMANAGED)


def test_a_daemon_sets_pod_is_refused_and_never_evicted() -> None:
    pod = owned(DAEMON_SET)
    assert decided(pod) == (Decision.REFUSE, Reason.DAEMON_SET)
    assert decided(pod, DrainOptions(force=True)) == (Decision.REFUSE, Reason.DAEMON_SET)
    assert decided(pod, ALL) == (Decision.SKIP, Reason.DAEMON_SET)


def test_only_daemon_sets_of_group_apps_count() -> None:
    pod = owned(replace(DAEMON_SET, api_version="example.com/v1"))
    assert decided(pod) == (Decision.EVICT, None)


def test_a_pod_of_a_daemon_set_that_is_gone_needs_force() -> None:
    pod = owned(DAEMON_SET)
    ignoring = DrainOptions(ignore_daemonsets=True)
    assert decided(pod, ignoring, frozenset()) == (Decision.REFUSE, Reason.DAEMON_SET_NOT_FOUND)
    assert decided(pod, DrainOptions(force=True), frozenset()) == (Decision.EVICT, None)


def test_a_daemon_set_that_may_not_be_read_is_taken_to_exist() -> None:
    assert decided(owned(DAEMON_SET), ALL, None) == (Decision.SKIP, Reason.DAEMON_SET)


def test_a_pod_with_an_empty_dir_is_refused_unless_its_data_may_go() -> None:
    pod = replace(owned(REPLICA_SET), empty_dir=True)
    assert decided(pod) == (Decision.REFUSE, Reason.LOCAL_STORAGE)
    assert decided(pod, DrainOptions(force=True)) == (Decision.REFUSE, Reason.LOCAL_STORAGE)
    # kubectl loses this warning: the filter behind it has nothing to say.
    assert decided(pod, DrainOptions(delete_emptydir_data=True)) == (Decision.EVICT, None)


def test_the_first_filter_that_keeps_a_pod_decides() -> None:
    pod = replace(bare(), empty_dir=True)
    assert decided(pod) == (Decision.REFUSE, Reason.LOCAL_STORAGE)
    deleting = DrainOptions(delete_emptydir_data=True)
    assert decided(pod, deleting) == (Decision.REFUSE, Reason.UNMANAGED)
    of_daemon_set = replace(owned(DAEMON_SET), empty_dir=True)
    assert decided(of_daemon_set) == (Decision.REFUSE, Reason.DAEMON_SET)
    assert decided(of_daemon_set, DrainOptions(force=True), frozenset()) == (
        Decision.REFUSE,
        Reason.LOCAL_STORAGE,
    )


def test_a_mirror_pod_is_left_alone_without_any_flag() -> None:
    assert decided(replace(bare(), mirror=True)) == (Decision.SKIP, Reason.MIRROR_POD)


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
@pytest.mark.parametrize(
    "pod", [bare(), replace(bare(), empty_dir=True), owned(DAEMON_SET)], ids=str
)
def test_a_finished_pod_is_evicted_without_any_flag(pod: Pod, phase: str) -> None:
    assert decided(replace(pod, phase=phase)) == (Decision.EVICT, None)


def test_a_pod_that_the_pod_selector_leaves_out_is_not_even_listed() -> None:
    pod = replace(bare(), labels={"app": "web"})
    assert decided(pod, DrainOptions(pod_selector="app=db")) == (
        Decision.SKIP,
        Reason.NOT_SELECTED,
    )
    assert decided(pod, DrainOptions(pod_selector="app=web"))[0] is Decision.REFUSE


@pytest.mark.parametrize(
    ("seconds_ago", "decision"), [(5.9, Decision.EVICT), (6, Decision.SKIP), (60, Decision.SKIP)]
)
def test_a_pod_is_passed_over_more_whole_seconds_after_its_deletion_timestamp_than_the_limit(
    seconds_ago: float, decision: Decision
) -> None:
    pod = replace(owned(REPLICA_SET), deletion_timestamp_ns=epoch_ns(-seconds_ago))
    options = DrainOptions(skip_wait_for_delete_timeout_ns=ns(5))
    assert decided(pod, options)[0] is decision
    assert decided(pod)[0] is Decision.EVICT


def test_kubectl_names_every_refused_pod_kind_by_kind() -> None:
    pods = [
        owned(DAEMON_SET, "agent"),
        bare("b"),
        bare("a"),
        replace(owned(REPLICA_SET, "data"), empty_dir=True),
        owned(replace(DAEMON_SET, name="old"), "orphan"),
        owned(REPLICA_SET, "web"),
    ]
    told = """\
cannot delete Pods that declare no controller (use --force to override): default/a, default/b
cannot delete DaemonSet-managed Pods (use --ignore-daemonsets to ignore): default/agent
cannot delete Pods with local storage (use --delete-emptydir-data to override): default/data
cannot delete daemonsets.apps "old" not found: default/orphan"""
    found = filter_pods(pods, NO_FLAGS, AGENTS, START_NS)
    assert "\n".join(refusals(found)) == told
    assert warnings(found) == []


def test_kubectl_warns_of_what_it_ignores_and_of_what_nobody_replaces() -> None:
    pods = [owned(DAEMON_SET, "agent"), bare("a"), bare("b")]
    found = filter_pods(pods, ALL, AGENTS, START_NS)
    assert warnings(found) == [
        "deleting Pods that declare no controller: default/a, default/b",
        "ignoring DaemonSet-managed Pods: default/agent",
    ]
    assert refusals(found) == []


BARE = "Pods that declare no controller (use --force to override): "
LOCAL = "Pods with local storage (use --delete-emptydir-data to override): "
AGENT = "DaemonSet-managed Pods (use --ignore-daemonsets to ignore): kube-system/agent-4pz6n"
SCRATCH = "default/bare-scratch, default/cache-5f75c65dc4-dglqz"


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ((), {f"{BARE}default/bare", f"{LOCAL}{SCRATCH}", AGENT}),
        (("force",), {AGENT, f"{LOCAL}{SCRATCH}"}),
        (("ignore_daemonsets",), {f"{BARE}default/bare", f"{LOCAL}{SCRATCH}"}),
        (
            ("ignore_daemonsets", "delete_emptydir_data"),
            {f"{BARE}default/bare, default/bare-scratch"},
        ),
        (("ignore_daemonsets", "force"), {f"{LOCAL}{SCRATCH}"}),
    ],
)
def test_what_is_refused_is_what_kubectl_1_37_said_of_the_recorded_node(
    flags: tuple[str, ...], said: set[str], fixtures_path: Path
) -> None:
    assert set(refusals(recorded_node(fixtures_path, *flags))) == {
        f"cannot delete {s}" for s in said
    }


def test_who_is_evicted_is_whom_kubectl_1_37_evicted_from_the_recorded_node(
    fixtures_path: Path,
) -> None:
    found = recorded_node(fixtures_path, "force", "ignore_daemonsets", "delete_emptydir_data")
    assert {one.pod.name for one in found if one.decision is Decision.EVICT} == {
        "web-7cdd8f578b-8dgn7",
        "cache-5f75c65dc4-dglqz",
        "bare",
        "bare-scratch",
        "done",
        "done-scratch",
    }
    # In the order of a Go map, in one line: "Warning: deleting ...; ignoring ...".
    assert set(warnings(found)) == {
        "deleting Pods that declare no controller: default/bare, default/bare-scratch",
        "ignoring DaemonSet-managed Pods: kube-system/agent-4pz6n",
    }


def recorded_node(fixtures_path: Path, *flags: str) -> list[FilteredPod]:
    """The filters' decisions about node a1 of the recording drain-refusals-1.37.0."""
    folder = fixtures_path / "drains" / "drain-refusals-1.37.0"
    snapshot = load_files((str(folder / "cluster.json"),))
    pods = [pod for pod in snapshot.pods if pod.node_name == "a1"]
    options = DrainOptions(**dict.fromkeys(flags, True))
    return filter_pods(pods, options, known_daemon_sets(snapshot), snapshot.taken_at_ns)
