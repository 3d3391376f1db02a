"""What a scenario file says of kube-controller-manager, and who is blamed for what is wrong with it."""

from __future__ import annotations

import pytest
from building.scenario_texts import load, with_events

from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.errors import InputError
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings

NOTHING = ControllerSettings()


def problems_of(controller: str, given: ControllerSettings = NOTHING) -> list[str]:
    text = with_events("{at: 0, action: controller-stop}", spec=f"\n  controller: {controller}")
    with pytest.raises(InputError) as raised:
        resolve_configuration(load(text).settings.under(given), ControlPlaneFlags())
    return [str(problem) for problem in raised.value.problems]


@pytest.mark.parametrize(
    ("controller", "problem"),
    [
        ("{monitorPhase: 7s}", "s.yaml:4:30: spec.controller.monitorPhase: the first monitor tick"),
        ("{kubernetesVersion: '1.99'}", "s.yaml:4:35: spec.controller.kubernetesVersion: unknown"),
        ("{flags: {no-such: 1}}", "s.yaml:4:33: spec.controller.flags.no-such: unknown kube-contr"),
        (
            "{kubernetesVersion: '1.29', flags: {pod-eviction-timeout: 1m}}",
            "s.yaml:4:73: spec.controller.flags.pod-eviction-timeout: flag does not exist in Kuber",
        ),
        (
            "{flags: {feature-gates: A=x}}",
            "s.yaml:4:39: spec.controller.flags.feature-gates: A: must be true or false",
        ),
    ],
)
def test_what_a_file_says_wrongly_is_blamed_on_its_line(controller: str, problem: str) -> None:
    (found,) = problems_of(controller)
    assert found.startswith(problem)


def test_a_flag_of_the_command_line_is_blamed_on_it_though_the_file_has_one_too() -> None:
    given = ControllerSettings(flags={"node-monitor-period": "2x"})
    (found,) = problems_of("{flags: {node-monitor-period: 1x}}", given)
    assert found.startswith("--controller-flag node-monitor-period: unknown unit 'x'")


def test_what_the_command_line_says_of_the_controller_wins() -> None:
    spec = "\n  controller: {kubernetesVersion: '1.23', monitorPhase: 1s, flags: {a: 1, b: 2}}"
    settings = load(with_events("{at: 0, action: controller-stop}", spec=spec)).settings
    given = ControllerSettings("1.29", 0, {"b": "3"})
    together = settings.under(given)
    assert together == ControllerSettings("1.29", 0, {"a": "1", "b": "3"}, together.places)
    assert list(together.places) == ["a"]
