"""What people type out of habit that is no command or option here, and what they mean by it.

Tables only: ``unknown_words`` looks words up in them.
"""

from __future__ import annotations

from typing import NamedTuple

from kubectl_evictplan.kube.topology import HOSTNAME, ZONE

# A word in place of a command -> the command that does it.
SAME_COMMAND = {
    **dict.fromkeys(
        ("stop", "kill", "shutdown", "poweroff", "reboot", "crash", "lose", "break", "down"), "fail"
    ),
    **dict.fromkeys(("evacuate", "empty", "vacate", "maintenance"), "drain"),
    **dict.fromkeys(("remove", "rm", "destroy", "terminate"), "delete"),
    **dict.fromkeys(("run", "file", "script", "play", "replay", "events"), "scenario"),
    **dict.fromkeys(("predict", "simulate", "plan", "dry-run", "evictions", "what-if"), "what-if"),
    **dict.fromkeys(("dump", "save", "export", "convert", "capture"), "snapshot"),
}
NOTES = {"fail": " (nodes fall silent; --for lets them return)"}
# Words that say nothing more here.
EMPTY_WORDS = ("kubectl", "k", "oc", "evictplan", "kubectl-evictplan", "what-if")

_CHANGES = "what-if knows taint, cordon, uncordon, delete, drain, fail and scenario"
# A command -> why it is none here.
NO_COMMAND = {
    **{
        name: f"{name} changes nothing that could evict; {_CHANGES}"
        for name in ("get", "describe", "logs", "top", "events", "wait", "exec")
    },
    **{
        name: f"{name} is not predicted; {_CHANGES}"
        for name in ("scale", "rollout", "patch", "edit", "label", "annotate", "replace", "create")
    },
    "evict": "evict is not predicted by itself; a scenario file can delete pods (pod-delete)",
}

# Flags of `kubectl drain` alone that have no value.
_DRAIN_FLAGS = (
    *("--ignore-daemonsets", "--delete-emptydir-data", "--delete-local-data"),
    *("--disable-eviction", "--ignore-errors"),
)


class Habit(NamedTuple):
    """An option of another program: what to say, and the words in its place."""

    message: str
    instead: tuple[str, ...] = ()
    # Its value goes with it, or stands behind the new words.
    has_value: bool = False
    keep_value: bool = False


_NO_EFFECT = "changes nothing in a prediction: leave it out"
_NO_WATCH = "a prediction is whole at once: leave it out"
_NOT_NEEDED = "not needed to read a cluster: leave it out"
_NO_CHANGE = "nothing is ever changed: leave it out"
# What to say about --for.
OUTAGE = "no option --for: an outage that ends is for `what-if fail`, or a scenario file"

OPTION_HABITS = {
    **dict.fromkeys(("--client", "--short"), Habit("there is no server to ask: leave it out")),
    "--dry-run": Habit(_NO_CHANGE),
    "--server-dry-run": Habit(_NO_CHANGE),
    "--cache-dir": Habit(_NOT_NEEDED, has_value=True),
    **dict.fromkeys(("--disable-compression", "--match-server-version"), Habit(_NOT_NEEDED)),
    "--all": Habit("choose nodes by a label that all have", ("-l", HOSTNAME)),
    "--all-nodes": Habit("every node is --all", ("--all",)),
    **dict.fromkeys(("-V", "-v"), Habit("more is -o wide", ("-o", "wide"))),
    **dict.fromkeys(
        (
            *("--grace-period", "--timeout", "--cascade", "--wait", "--now", "--ignore-not-found"),
            *("--chunk-size", "--pod-selector", "--skip-wait-for-delete-timeout"),
        ),
        Habit(_NO_EFFECT, has_value=True),
    ),
    **dict.fromkeys(_DRAIN_FLAGS, Habit(_NO_EFFECT)),
    **dict.fromkeys(("--yes", "-y", "-i", "--interactive", "--confirm"), Habit(_NO_CHANGE)),
    **dict.fromkeys(("-w", "--watch", "--watch-only"), Habit(_NO_WATCH)),
    **dict.fromkeys(("--v", "--verbose", "--details"), Habit("more is -o wide", ("-o", "wide"))),
    **dict.fromkeys(("-q", "--quiet", "--silent"), Habit("less is -o name", ("-o", "name"))),
    "--json": Habit("formats are values of -o", ("-o", "json")),
    "--yaml": Habit("formats are values of -o", ("-o", "yaml")),
    "--wide": Habit("formats are values of -o", ("-o", "wide")),
    "--format": Habit("formats are values of -o", ("-o",), keep_value=True),
    "--out": Habit("formats are values of -o; the answer goes to standard output", has_value=True),
    **dict.fromkeys(
        ("--file", "--filenames", "--files", "--input", "--cluster-file", "--snapshot"),
        Habit("files are named with -f", ("-f",), keep_value=True),
    ),
    **dict.fromkeys(
        ("--label", "--labels", "--label-selector", "--node-selector"),
        Habit("labels are given with -l", ("-l",), keep_value=True),
    ),
    **dict.fromkeys(
        ("--zone", "--zones", "--availability-zone"),
        Habit("a zone is chosen by its label", ("-l", f"{ZONE}="), keep_value=True),
    ),
    **dict.fromkeys(
        ("--version", "--k8s-version", "--kube-version", "--release", "--kubernetes"),
        Habit("the release is --kubernetes-version", ("--kubernetes-version",), keep_value=True),
    ),
    **dict.fromkeys(
        ("--duration", "--until", "--look-ahead"),
        Habit("how far to look is --horizon", ("--horizon",), keep_value=True),
    ),
    **dict.fromkeys(
        ("--at", "--when", "--from", "--since", "--since-time"),
        Habit("when it begins is --start", ("--start",), keep_value=True),
    ),
    **dict.fromkeys(
        ("--pod", "--why"), Habit("a pod is --explain", ("--explain",), keep_value=True)
    ),
    **dict.fromkeys(
        ("--no-color", "--no-colour", "--nocolor"), Habit("colour is --color", ("--color", "never"))
    ),
}

_LASTS = Habit("how long it lasts is --for", ("--for",), keep_value=True)
# What means something else with one command: older kubectl's words for a drain.
COMMAND_HABITS = {
    ("drain", "--delete-local-data"): Habit(
        "kubectl calls it --delete-emptydir-data since 1.20", ("--delete-emptydir-data",)
    ),
    ("drain", "--ignore-errors"): Habit(
        "kubectl goes on with the other nodes by itself: leave it out"
    ),
    **{("fail", name): _LASTS for name in ("--duration", "--during", "--length", "--timeout")},
}
