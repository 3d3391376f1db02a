"""Realities that are led towards the ends of windows: see ``guided_realities``."""

from __future__ import annotations

import random

from building.builders import make_event, make_node, make_pod, make_scenario, make_snapshot, ns
from msgspec.structs import replace
from realities.drawn_realities import World, draw_reality
from realities.guided_realities import Choices, Farthest, Guide, Made, Part

from kubectl_evictplan.cluster.timeline import TAINT_EVICTION, PodDeleted
from kubectl_evictplan.controllers.flags import resolve_configuration
from kubectl_evictplan.kube.objects import ControlPlaneFlags
from kubectl_evictplan.scenarios.scenario import ControllerSettings

SNAPSHOT = make_snapshot([make_node("n1"), make_node("n2", zone="b")], [make_pod("p", "n1")])
WORLD = World(
    SNAPSHOT,
    make_scenario([make_event(7, "kubelet-stop", "n1")], horizon=120),
    resolve_configuration(ControllerSettings("1.29.6"), ControlPlaneFlags()),
)
POD = ("default/p", "uid-default-p", TAINT_EVICTION)


def deletion(at: float) -> PodDeleted:
    """The pod's, so many seconds after the start."""
    entries = draw_reality(WORLD, Choices("any")).entries
    [found] = [entry for entry in entries if isinstance(entry, PodDeleted)]
    return replace(found, at_ns=ns(at))


def deleted(choices: Choices) -> list[int]:
    """When the pod goes in the reality that these choices make."""
    entries = draw_reality(WORLD, choices).entries
    return [entry.at_ns for entry in entries if isinstance(entry, PodDeleted)]


def test_the_same_choices_make_the_same_reality() -> None:
    first = Choices("one")
    assert deleted(first) == deleted(Choices("another", first.made))
    assert deleted(first) != deleted(Choices("another"))


def test_what_is_given_is_taken_as_long_as_it_fits() -> None:
    choices = Part("one", [0.5, 3, 0.25, 9])
    assert (choices.random(), choices.getrandbits(2)) == (0.5, 3)
    plain = random.Random("one")
    plain.random(), plain.getrandbits(2)
    assert (choices.getrandbits(4), choices.getrandbits(3)) != (0.25, 9)
    assert all(isinstance(each, float | int) for each in choices.gave)
    assert 0 <= choices.getrandbits(3) < 8


def test_three_in_four_realities_differ_in_some_choices_from_one_that_led_far() -> None:
    guide = Guide("any", {POD: [(0.0, 120.0)]})
    first = guide.choices(0)
    guide.learn(first, draw_reality(WORLD, first).entries)
    led = 0
    for number in range(8, 28):
        choices = guide.choices(number)
        draw_reality(WORLD, choices)
        pairs = [
            (one, other)
            for name, line in first.made.items()
            for one, other in zip(line, choices.made.get(name, ()), strict=False)
        ]
        led += len(pairs) // 2 < sum(one == other for one, other in pairs)
    assert led == 15


def test_another_choice_about_one_thing_moves_nothing_else() -> None:
    first = Choices("one")
    walked, named = first.part("walks").random(), first.part("names").random()
    changed = Choices("another", {**first.made, "walks#0": [walked / 2]})
    walks = changed.part("walks")
    assert (walks.random(), walks.random() != walked) == (walked / 2, True)
    assert changed.part("names").random() == named
    # Whoever asks about it once more asks about something else.
    assert changed.part("names").random() != named


def test_ends_that_are_reached_are_left_to_chance() -> None:
    farthest = Farthest[Made]({POD: [(40.0, 60.0)]})
    for at, made in ((40.0, {"first": [1]}), (50.0, {"last": [2]})):
        farthest.learn(made, [deletion(at)])
    assert {str(farthest.any_of(random.Random(seed))) for seed in range(20)} == {"{'last': [2]}"}
