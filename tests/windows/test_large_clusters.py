"""Where there are more critical phases than can be tried, windows are widened for nodes as well."""

from __future__ import annotations

from collections import defaultdict

from building.builders import (
    make_event,
    make_lease,
    make_node,
    make_pod,
    make_scenario,
    make_snapshot,
    ns,
)

from kubectl_evictplan.cluster.timeline import NodeBecameUnknown
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.engine.timing import Timing
from kubectl_evictplan.prediction.predict import predict
from kubectl_evictplan.scenarios.scenario import ControllerSettings
from kubectl_evictplan.simulation.simulate import simulate


def test_among_300_silent_nodes_of_600_every_ready_unknown_of_any_phase_is_in_its_window() -> None:
    names = [f"n{index:03}" for index in range(600)]
    leases = [make_lease(name, -10 + index % 300 / 30) for index, name in enumerate(names)]
    pods = [make_pod("p", "n000")]
    snapshot = make_snapshot([make_node(n, zone="a") for n in names], pods, leases=leases)
    silent = [name for index, name in enumerate(names) if index < 300]
    scenario = make_scenario([make_event(0.5, "kubelet-stop", silent)], horizon=60)
    settings = ControllerSettings(kubernetes_version="1.29.6")
    configuration = resolve_configuration(settings, snapshot.control_plane)
    prediction = predict(snapshot, scenario, configuration)
    windows = defaultdict(list)
    for report in prediction.nodes:
        for change in report.changes:
            if change.what == "ready":
                windows[report.node].append((change.earliest_seconds, change.latest_seconds))
    for phase in (0.0, 0.1, 0.7, 1.3, 1.9, 2.45, 3.1, 3.77, 4.4, 4.999):
        timing = Timing(monitor_phase_ns=ns(phase))
        timeline = simulate(snapshot, scenario, configuration, timing)
        unknown = [entry for entry in timeline.entries if isinstance(entry, NodeBecameUnknown)]
        assert len(unknown) == 300
        for entry in unknown:
            ((earliest, latest),) = windows[entry.node]
            assert earliest <= entry.at_ns / 1e9 <= latest, (phase, entry.node)
