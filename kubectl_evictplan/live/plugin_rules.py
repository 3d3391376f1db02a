"""Whether a credential plugin may be run: a kubeconfig is code, and may be somebody else's.

Three rules: ``--no-exec-auth``; no path relative to a kubeconfig that lies in the working directory;
and the policy of kubectl's own preferences (``k8s.io/kubectl/pkg/kuberc`` and the check of
``k8s.io/client-go/plugin/pkg/client/auth/exec``, release 1.37): ``credentialPluginPolicy`` and
``credentialPluginAllowlist`` of the file kuberc.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from kubectl_evictplan.errors import AccessError, Correction, InputError, Problem
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.problems import LOOK_AT_USER

_FILE_BYTES_MAX = 1 << 20
_GROUP = "kubectl.config.k8s.io/"
# The older one knows no policy.
_VERSIONS = (f"{_GROUP}v1beta1", f"{_GROUP}v1alpha1")
_POLICY, _ALLOWLIST = "credentialPluginPolicy", "credentialPluginAllowlist"
_KNOWN = ("apiVersion", "kind", "defaults", "aliases", _POLICY, _ALLOWLIST)
_OPEN, _CLOSED, _LISTED = "AllowAll", "DenyAll", "Allowlist"


class PluginPolicy(NamedTuple):
    """What kuberc says of plugins; without one all are allowed. ``warning``: what is odd about it."""

    path: str = ""
    policy: str = _OPEN
    commands: tuple[str, ...] = ()
    warning: str = ""

    def allows(self, command: str, found: str | None, search: str | None) -> bool:
        """Tell whether a command may run; ``found`` is its file, ``search`` the PATH."""
        if self.policy != _LISTED:
            return self.policy == _OPEN
        if command in self.commands or found in self.commands:
            return True
        if found is None:
            return False
        name = os.path.basename(found)  # noqa: PTH119 - of a path, as written
        same = [one for one in self.commands if os.path.basename(one) == name]  # noqa: PTH119
        return any(shutil.which(one, path=search) == found for one in same)


class PluginRules(NamedTuple):
    """What decides about the plugin of one user entry.

    ``is_forbidden`` by --no-exec-auth. ``relative``: the command as it is written, where it is a path
    relative to a kubeconfig in the working directory, and that is not allowed.
    """

    is_forbidden: bool = False
    relative: str = ""
    kubeconfig: str = ""
    policy: PluginPolicy = PluginPolicy()

    def program(self, command: str, environ: Mapping[str, str], hint: str = "") -> str:
        """Return the file to run for a command; AccessError says why it may not or cannot be run.

        A bare name is looked up on the PATH of this process, never on one that the kubeconfig sets.
        """
        command = _clean(command)
        if self.is_forbidden:
            message = (
                f"exec plugin {command} is not run (--no-exec-auth), and there is no other credential: "
                "--token, or --client-certificate with --client-key, is missing"
            )
            correction = Correction((), ("--token", "TOKEN"), example=True)
            raise AccessError(Problem(message, correction))
        if self.relative:
            message = (
                f"exec plugin {self.relative} is not run: it is a path relative to a kubeconfig in the "
                "working directory; write its absolute path there, or allow it with "
                "--allow-relative-exec"
            )
            correction = Correction((), ("--allow-relative-exec",), example=True)
            raise AccessError(Problem(message, correction, location=self.kubeconfig))
        search = environ.get("PATH")
        found = shutil.which(command, path=search)
        if not self.policy.allows(command, found, search):
            said = f"{_POLICY} is {self.policy.policy}"
            if self.policy.policy == _LISTED:
                said = f"{_ALLOWLIST} does not name it"
            raise _refused(f"exec plugin {command} is not allowed: {said}", self.policy.path)
        if found is None:
            raise _refused(f"exec plugin {command} is not installed{f'; {hint}' if hint else ''}")
        if not os.path.isabs(found):  # noqa: PTH117
            # As by Go: what lies in the working directory is never run by its bare name.
            raise _refused(f"exec plugin {command} is on PATH only by a relative folder: not run")
        return found


def rules_for(
    flags: ConnectionFlags, environ: Mapping[str, str], *, command: str, kubeconfig: str
) -> PluginRules:
    """Return the rules for an entry's plugin; ``command`` is as written in the file ``kubeconfig``.

    Raises InputError for a policy that kubectl would not accept either.
    """
    if flags.no_exec_auth:
        return PluginRules(is_forbidden=True)
    is_relative = os.sep in command and not os.path.isabs(command)  # noqa: PTH117
    is_trap = is_relative and not flags.allow_relative_exec and lies_here(kubeconfig, environ)
    return PluginRules(
        relative=command if is_trap else "", kubeconfig=kubeconfig, policy=load_policy(environ)
    )


def lies_here(path: str, environ: Mapping[str, str]) -> bool:
    """Tell whether a kubeconfig is in or below the working directory, and not one's own in HOME."""
    here = Path(os.path.realpath(Path()))
    # As written and as it is: a link may lead out of here, or into it.
    places = {Path(os.path.abspath(path)), Path(os.path.realpath(path))}  # noqa: PTH100
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if here == Path(here.anchor) or (home and places == {Path(home, ".kube", "config")}):
        return False
    return any(place.is_relative_to(here) for place in places)


def load_policy(environ: Mapping[str, str]) -> PluginPolicy:
    """Read the policy of KUBERC or ~/.kube/kuberc, by kubectl's rules.

    A file that KUBERC names must be right; one in HOME that cannot be read is a warning, as for
    kubectl, unless it speaks of plugins. Raises InputError.
    """
    named = environ.get("KUBERC", "")
    home = environ.get("HOME") or environ.get("USERPROFILE")
    if named == "off" or environ.get("KUBECTL_KUBERC", "").lower() == "false":
        return PluginPolicy()
    if not (named or home):
        return PluginPolicy()
    path = named or str(Path(home or "", ".kube", "kuberc"))
    try:
        preference = _preference(path)
    except FileNotFoundError:
        if named:
            raise _wrong(path, "KUBERC names a file that does not exist") from None
        return PluginPolicy()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        if named:
            raise _wrong(path, f"kuberc: {reason.lower()}") from None
        return PluginPolicy(warning=f"kuberc {path} is not used: {reason.lower()}")
    return _policy(path, preference)


def _preference(path: str) -> Mapping[str, Any]:
    """Return the first document that is a Preference; ValueError when there are only others."""
    from kubectl_evictplan.sources.yaml_reader import read_documents

    with Path(path).open("rb") as stream:
        data = stream.read(_FILE_BYTES_MAX + 1)
    if len(data) > _FILE_BYTES_MAX:
        message = "too large"
        raise ValueError(message)
    documents = re.split(r"(?m)^---[^\S\n]*(?:#.*)?$", data.decode("utf-8", "replace"))
    documents = [text for text in documents if text.strip()]
    for text in documents:
        for found in read_documents(text):
            if not found.problems and _is_preference(found.tree):
                return found.tree  # type: ignore[no-any-return]
    if any("credentialPlugin" in text for text in documents):
        # Not taken for no policy: kubectl may understand what is not understood here.
        raise _wrong(path, "kuberc: no valid preferences in it, though it speaks of plugins")
    if documents:
        message = "no valid preferences in it"
        raise ValueError(message)
    return {}


def _is_preference(found: object) -> bool:
    if not isinstance(found, dict) or found.get("kind") != "Preference":
        return False
    if found.get("apiVersion") not in _VERSIONS:
        return False
    if found["apiVersion"] != _VERSIONS[0]:
        return True
    listed = found.get(_ALLOWLIST)
    return isinstance(found.get(_POLICY) or "", str) and (
        listed is None or (isinstance(listed, list) and all(map(_is_entry, listed)))
    )


def _is_entry(item: object) -> bool:
    """Tell whether it is an entry; a name and another command in one contradict each other."""
    if item is None:
        return True
    if not isinstance(item, dict):
        return False
    name, command = item.get("name") or "", item.get("command") or ""
    if not isinstance(name, str) or not isinstance(command, str):
        return False
    return not (name and command) or name == command


def _policy(path: str, preference: Mapping[str, Any]) -> PluginPolicy:
    """Return the policy of a Preference (``ValidatePluginPolicy``)."""
    if preference.get("apiVersion") != _VERSIONS[0]:
        return PluginPolicy()
    policy, listed = preference.get(_POLICY) or _OPEN, preference.get(_ALLOWLIST)
    if policy not in (_OPEN, _CLOSED, _LISTED):
        raise _wrong(path, f"{_POLICY} is none of {_OPEN}, {_CLOSED} and {_LISTED}")
    if policy != _LISTED and listed is not None:
        raise _wrong(path, f"{_ALLOWLIST} is given, but {_POLICY} is {policy}")
    if policy == _LISTED and not listed:
        raise _wrong(path, f"{_POLICY} is {_LISTED}, but {_ALLOWLIST} names nothing")
    items = [item or {} for item in listed or ()]
    commands = tuple(item.get("command") or item.get("name") or "" for item in items)
    for command in commands:
        if not command or command != _clean(command):
            raise _wrong(path, f"{_ALLOWLIST} has an entry that is empty or no plain path")
    strange = sorted(str(key) for key in preference if key not in _KNOWN)
    warning = f"kuberc {path} has fields that are not known: {', '.join(strange)}"
    return PluginPolicy(path, policy, commands, warning if strange else "")


def _clean(path: str) -> str:
    """Return the path as Go's ``filepath.Clean`` has it."""
    found = os.path.normpath(path)
    return found[1:] if found.startswith("//") else found


def _refused(message: str, location: str = "") -> AccessError:
    correction = Correction((), (), first=LOOK_AT_USER)
    return AccessError(Problem(message, correction, location=location))


def _wrong(path: str, message: str) -> InputError:
    correction = Correction((), (), first="kubectl kuberc view")
    return InputError(Problem(message, correction, location=path))
