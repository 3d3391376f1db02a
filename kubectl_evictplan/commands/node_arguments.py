"""The words that name nodes, as kubectl reads them: ``node n1 n2``, ``node/n1``, ``nodes/n1``."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from kubectl_evictplan.commands.file_arguments import looks_like_file, missing_option_f
from kubectl_evictplan.commands.run import what_if_events
from kubectl_evictplan.errors import Correction, InputError, Problem, WrongWord, mistake, mistyped
from kubectl_evictplan.kube.topology import HOSTNAME
from kubectl_evictplan.scenarios.names import NODE_WORDS

if TYPE_CHECKING:
    from kubectl_evictplan.commands.options import WhatIfOptions
    from kubectl_evictplan.commands.run import Events
    from kubectl_evictplan.kube.objects import ClusterSnapshot, Node
    from kubectl_evictplan.scenarios.scenario import ScenarioEvent

    Nodes = dict[str, Node]

SELECTOR = ("-l", "--selector")
# Every node has it: an example of a selector that works everywhere.
LABEL_OF_EVERY_NODE = HOSTNAME


class NodeArguments(NamedTuple):
    """Which nodes a command means, as typed: names, a label selector, or every node."""

    words: tuple[str, ...]
    selector: str = ""
    all_nodes: bool = False

    def check(self) -> None:
        """Raise unless exactly one of names, selector and --all says which nodes are meant."""
        given = [bool(self.words), bool(self.selector), self.all_nodes]
        if sum(given) == 0:
            known = Correction((), ("-l", LABEL_OF_EVERY_NODE), example=True)
            raise mistake("which nodes? give names or --selector", known)
        if sum(given) > 1:
            raise self._contradiction()

    def nodes(self, snapshot: ClusterSnapshot) -> list[Node]:
        """Return the nodes, sorted by name; InputError for every word that means none."""
        from kubectl_evictplan.scenarios.targets import node_by_name

        known = {node.name: node for node in snapshot.nodes}
        if self.selector:
            return _selected(known, self.selector)
        if self.all_nodes:
            return [known[name] for name in sorted(known)]
        problems: list[Problem] = []
        found: set[str] = set()
        for word in self.words:
            try:
                found.add(node_by_name(known, node_name(word)).name)
            except WrongWord as error:
                problems.append(_unknown_node(word, error, known))
            except InputError as error:
                problems += error.problems
        if problems:
            raise InputError(problems)
        return [known[name] for name in sorted(found)]

    def ask(
        self, options: WhatIfOptions, action: Callable[..., ScenarioEvent], pause_ns: int = 0
    ) -> None:
        """Predict and print what one event on these nodes causes, at the start or node by node."""
        from kubectl_evictplan.commands.pacing import one_node_after_another

        self.check()

        def events(snapshot: ClusterSnapshot) -> Events:
            names = tuple(node.name for node in self.nodes(snapshot))
            event = action(at_ns=0, nodes=names, origin=options.title)
            return one_node_after_another([event], pause_ns), []

        what_if_events(options, events)

    def _contradiction(self) -> InputError:
        """Say what cannot stand together; a selector with spaces falls apart into names."""
        words = self.words
        if self.selector and words and words[0] in ("=", "==", "!=", "in", "notin"):
            typed = (self.selector, *words)
            joined = " ".join(typed)
            return mistyped("a selector with spaces needs quotes", typed, [joined], got=joined)
        if not words:
            message = "cannot specify both --selector and --all"
            return mistyped(message, ["--all"], [], example=True)
        message = "cannot specify both a node name and --selector or --all"
        return mistyped(message, words, [], example=True)


def node_name(word: str) -> str:
    """Return the name in ``NAME`` or ``node/NAME``; InputError for another type or no name."""
    kind, slash, name = word.rpartition("/")
    any_node = Correction((word,), ("-l", LABEL_OF_EVERY_NODE), example=True)
    if slash and kind.lower() not in NODE_WORDS:
        by_group = kind.lower().partition(".")[0] in NODE_WORDS and "/" not in kind
        known = Correction((word,), (f"node/{name}",)) if by_group else any_node
        raise mistake("only nodes can be named here", known, got=word, expected="node/NAME")
    if not name or name.startswith("-"):
        raise mistake("not the name of a node", any_node, got=repr(word))
    return name


def nodes_of_zones(snapshot: ClusterSnapshot, words: tuple[str, ...]) -> list[Node]:
    """Return the nodes of the zones, sorted by name; InputError for every wrong word."""
    from kubectl_evictplan.scenarios.targets import nodes_by_zone

    nodes = {node.name: node for node in snapshot.nodes}
    selected: Nodes = {}
    problems = []
    for word in words:
        try:
            selected |= {node.name: node for node in nodes_by_zone(nodes, word)}
        except WrongWord as error:
            problems.append(Problem(str(error), error.correction()))
    if problems:
        raise InputError(problems)
    return [selected[name] for name in sorted(selected)]


def _selected(nodes: Nodes, selector: str) -> list[Node]:
    from kubectl_evictplan.scenarios.targets import nodes_by_selector

    try:
        return nodes_by_selector(nodes, selector)
    except WrongWord as error:
        known, message = error.correction(*SELECTOR), str(error)
    except ValueError as error:
        likely = likely_selector(selector)
        known = Correction((selector,), (likely or LABEL_OF_EVERY_NODE,), not likely, SELECTOR)
        message = str(error)
    raise mistake(message, known, location="--selector")


def likely_selector(text: str) -> str:
    """Return the selector that a mistyped one probably means, or ""."""
    from kubectl_evictplan.kube.selectors import parse_label_selector

    likely = re.sub(r"\s*[:=]+\s*", "=", text).strip(" ,\"'!")
    try:
        return likely if parse_label_selector(likely).requirements else ""
    except ValueError:
        return ""


def _unknown_node(word: str, error: WrongWord, nodes: Nodes) -> Problem:
    """Say what a word that is no node's name is, where that can be seen."""
    from kubectl_evictplan.kube.topology import BETA_ZONE, ZONE
    from kubectl_evictplan.scenarios.targets import zones_of

    kind, _, name = re.sub("[:=]", "/", word, count=1).partition("/")
    if word.lower() in NODE_WORDS:
        return Problem(f"the names follow the command, without {word!r}", Correction((word,), ()))
    if looks_like_file(word):
        return missing_option_f(word)
    if kind.lower() in NODE_WORDS and name in nodes:
        return Problem(f"write node/{name}", Correction((word,), (name,)), got=word)
    if word in zones_of(nodes):
        label = ZONE if any(node.labels.get(ZONE) == word for node in nodes.values()) else BETA_ZONE
        known = Correction((word,), ("-l", f"{label}={word}"))
        return Problem(f"no node is called {word!r}: that is a zone", known)
    return Problem(str(error), error.correction())
