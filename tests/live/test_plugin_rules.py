"""Which credential plugins are run: a kubeconfig of somebody else's is code of somebody else's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from live.api_server import ApiServer

from kubectl_evictplan.errors import AccessError, ProblemsError
from kubectl_evictplan.kube.objects import ClusterSnapshot
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.plugin_rules import load_policy
from kubectl_evictplan.live.reader import read_cluster

PATH = "/usr/bin:/bin"
API_VERSION = "client.authentication.k8s.io/v1"


def program(path: Path) -> str:
    """Write a plugin that notes beside itself that it ran; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"apiVersion": API_VERSION, "kind": "ExecCredential", "status": {"token": "t"}}
    path.write_text(f"#!/bin/sh\ntouch '{path}.ran'\necho '{json.dumps(body)}'\n", "utf-8")
    path.chmod(0o700)
    return str(path)


def ran(path: Path) -> bool:
    return Path(f"{path}.ran").exists()


def kubeconfig(path: Path, api: ApiServer, command: str, **more: Any) -> str:
    """Write a kubeconfig whose user logs in by that command; return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    user = {"exec": {"apiVersion": API_VERSION, "command": command}, **more}
    content = {
        "current-context": "dev",
        "contexts": [{"name": "dev", "context": {"cluster": "dev", "user": "jane"}}],
        "clusters": [{"name": "dev", "cluster": {"server": api.url}}],
        "users": [{"name": "jane", "user": user}],
    }
    path.write_text(json.dumps(content), "utf-8")
    path.chmod(0o600)
    return str(path)


def read(
    api: ApiServer,
    path: str,
    environ: dict[str, str] | None = None,
    warnings: list[str] | None = None,
    **flags: Any,
) -> ClusterSnapshot:
    return read_cluster(
        ConnectionFlags(kubeconfig=path)._replace(**flags),
        {"HOME": "/nonexistent", "PATH": PATH, **(environ or {})},
        world=api.clock.world(),
        warn=None if warnings is None else warnings.append,
    )


def refusal(api: ApiServer, path: str, environ: dict[str, str] | None = None, **flags: Any) -> str:
    with pytest.raises(AccessError) as caught:
        read(api, path, environ, **flags)
    (problem,) = caught.value.problems
    assert problem.correction
    assert api.seen == []
    return str(problem)


def kuberc(path: Path, text: str = "", **fields: Any) -> dict[str, str]:
    """Write preferences and return the environment that names them."""
    if fields:
        kind = {"apiVersion": "kubectl.config.k8s.io/v1beta1", "kind": "Preference"}
        text = yaml.safe_dump({**kind, **fields})
    path.write_text(text, "utf-8")
    return {"KUBERC": str(path)}


# B135: paths relative to the kubeconfig


def test_b135_a_relative_command_lies_beside_its_kubeconfig_whatever_is_in_the_names(
    api: ApiServer, tmp_path: Path
) -> None:
    folder = tmp_path / "my clusters"
    program(folder / "bin dir" / "log in")
    assert read(api, kubeconfig(folder / "config", api, "bin dir/log in")).nodes
    assert ran(folder / "bin dir" / "log in")


@pytest.mark.parametrize("name", ["config", "deep/er/config"])
def test_b135_a_relative_command_of_a_kubeconfig_lying_here_is_refused_unless_allowed(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plugin = (tmp_path / name).parent / "login"
    program(plugin)
    path = kubeconfig(tmp_path / name, api, "./login")

    assert refusal(api, path) == (
        f"{path}: exec plugin ./login is not run: it is a path relative to a kubeconfig in the working "
        "directory; write its absolute path there, or allow it with --allow-relative-exec"
    )
    assert not ran(plugin)
    assert read(api, name, allow_relative_exec=True).nodes
    assert ran(plugin)


def test_b135_an_absolute_command_of_a_kubeconfig_lying_here_is_run(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read(api, kubeconfig(tmp_path / "config", api, program(tmp_path / "login"))).nodes


@pytest.mark.parametrize("leads", ["in", "out"])
def test_b135_a_link_does_not_hide_where_a_kubeconfig_lies(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, leads: str
) -> None:
    here, elsewhere = tmp_path / "here", tmp_path / "elsewhere"
    link, real = (elsewhere, here) if leads == "in" else (here, elsewhere)
    for folder in (link, real):
        program(folder / "login")
    kubeconfig(real / "config", api, "./login")
    (link / "config").symlink_to(real / "config")
    monkeypatch.chdir(here)
    assert "--allow-relative-exec" in refusal(api, str(link / "config"))


def test_b135_ones_own_kubeconfig_is_trusted_in_the_home_directory_too(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    program(tmp_path / ".kube" / "login")
    path = kubeconfig(tmp_path / ".kube" / "config", api, "./login")
    assert read(api, path, {"HOME": str(tmp_path)}).nodes


def test_b135_a_token_by_option_needs_no_plugin_and_is_not_refused(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert read(api, kubeconfig(tmp_path / "config", api, "./login"), token="t").nodes


@pytest.mark.parametrize("folder", ["", ".", "bin"])
def test_a_bare_name_is_never_found_by_a_relative_folder_of_path(
    api: ApiServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
) -> None:
    monkeypatch.chdir(tmp_path)
    plugin = tmp_path / folder / "evict-login"
    program(plugin)
    path = kubeconfig(tmp_path / "config", api, "evict-login")
    text = refusal(api, path, {"PATH": f"{PATH}:{folder}"})
    assert "is on PATH only by a relative folder" in text or "is not installed" in text
    assert not ran(plugin)


def test_a_kubeconfig_cannot_set_the_path_on_which_its_plugin_is_found(
    api: ApiServer, tmp_path: Path
) -> None:
    good, evil = tmp_path / "good" / "login", tmp_path / "evil" / "login"
    program(good)
    program(evil)
    path = Path(kubeconfig(tmp_path / "config", api, "login"))
    content = json.loads(path.read_text("utf-8"))
    variable = {"name": "PATH", "value": f"{evil.parent}:{PATH}"}
    content["users"][0]["user"]["exec"]["env"] = [variable]
    path.write_text(json.dumps(content), "utf-8")
    assert read(api, str(path), {"PATH": f"{good.parent}:{PATH}"}).nodes
    assert (ran(good), ran(evil)) == (True, False)


# --no-exec-auth


def test_no_exec_auth_runs_no_plugin_and_says_what_is_missing(
    api: ApiServer, tmp_path: Path
) -> None:
    plugin = tmp_path / "login"
    path = kubeconfig(tmp_path / "config", api, program(plugin))
    assert refusal(api, path, no_exec_auth=True) == (
        f"exec plugin {plugin} is not run (--no-exec-auth), and there is no other credential: --token, "
        "or --client-certificate with --client-key, is missing"
    )
    assert not ran(plugin)


def test_no_exec_auth_uses_what_else_the_entry_has(api: ApiServer, tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    path = kubeconfig(tmp_path / "config", api, program(plugin), username="u", password="p")
    assert read(api, path, no_exec_auth=True).nodes
    assert not ran(plugin)
    assert {tuple(seen.headers["authorization"]) for seen in api.seen} == {("Basic dTpw",)}


def test_an_old_provider_that_runs_a_program_is_refused(api: ApiServer, tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    path = Path(kubeconfig(tmp_path / "config", api, "x"))
    content = json.loads(path.read_text("utf-8"))
    settings = {"cmd-path": program(plugin)}
    content["users"][0]["user"] = {"auth-provider": {"name": "gcp", "config": settings}}
    path.write_text(json.dumps(content), "utf-8")
    assert "auth-provider gcp is gone since kubectl 1.26" in refusal(api, str(path))
    assert not ran(plugin)


# kuberc


def test_deny_all_refuses_every_plugin_and_names_its_file(api: ApiServer, tmp_path: Path) -> None:
    plugin = tmp_path / "login"
    path = kubeconfig(tmp_path / "config", api, program(plugin))
    environ = kuberc(tmp_path / "kuberc", credentialPluginPolicy="DenyAll")
    assert refusal(api, path, environ) == (
        f"{tmp_path}/kuberc: exec plugin {plugin} is not allowed: credentialPluginPolicy is DenyAll"
    )
    assert not ran(plugin)


def test_the_preferences_in_home_count_as_well(api: ApiServer, tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    kuberc(tmp_path / ".kube" / "kuberc", credentialPluginPolicy="DenyAll")
    path = kubeconfig(tmp_path / "config", api, program(tmp_path / "login"))
    assert f"{tmp_path}/.kube/kuberc: " in refusal(api, path, {"HOME": str(tmp_path)})


@pytest.mark.parametrize(
    "switched",
    [{"KUBERC": "off"}, {"KUBECTL_KUBERC": "False"}, {"KUBERC": "/dev/null"}],
    ids=["KUBERC=off", "the feature gate", "an empty file"],
)
def test_preferences_can_be_switched_off_as_for_kubectl(
    api: ApiServer, tmp_path: Path, switched: dict[str, str]
) -> None:
    (tmp_path / ".kube").mkdir()
    kuberc(tmp_path / ".kube" / "kuberc", credentialPluginPolicy="DenyAll")
    path = kubeconfig(tmp_path / "config", api, program(tmp_path / "login"))
    assert read(api, path, {"HOME": str(tmp_path), **switched}).nodes


LISTS = [
    ("its name", "login", [{"command": "login"}], True),
    ("its name, by the older field", "login", [{"name": "login"}], True),
    ("both fields alike", "login", [{"name": "login", "command": "login"}], True),
    ("its path for its name", "login", [{"command": "{bin}/login"}], True),
    ("its name for its path", "{bin}/login", [{"command": "login"}], True),
    ("its path, written otherwise", "{bin}/../bin/login", [{"command": "{bin}/login"}], True),
    ("one of several", "login", [{"command": "aws"}, {"command": "login"}], True),
    ("another name", "login", [{"command": "aws"}], False),
    ("another path of its name", "login", [{"command": "/opt/login"}], False),
    ("a name that is another file", "{other}/login", [{"command": "login"}], False),
]


@pytest.mark.parametrize(
    ("command", "listed", "allowed"), [row[1:] for row in LISTS], ids=[row[0] for row in LISTS]
)
def test_an_allowlist_allows_what_it_names_by_the_same_file(
    api: ApiServer, tmp_path: Path, command: str, listed: list[dict[str, str]], allowed: bool
) -> None:
    places = {"bin": str(tmp_path / "bin"), "other": str(tmp_path / "other")}
    for folder in places.values():
        program(Path(folder, "login"))
    path = kubeconfig(tmp_path / "config", api, command.format(**places))
    items = [{key: text.format(**places) for key, text in one.items()} for one in listed]
    environ = kuberc(
        tmp_path / "kuberc", credentialPluginPolicy="Allowlist", credentialPluginAllowlist=items
    )
    environ["PATH"] = f"{places['bin']}:{PATH}"
    if allowed:
        assert read(api, path, environ).nodes
    else:
        text = refusal(api, path, environ)
        assert text.startswith(f"{tmp_path}/kuberc: exec plugin ")
        assert text.endswith(" is not allowed: credentialPluginAllowlist does not name it")


def test_a_token_by_option_asks_no_policy(api: ApiServer, tmp_path: Path) -> None:
    environ = kuberc(tmp_path / "kuberc", credentialPluginPolicy="DenyAll")
    assert read(api, kubeconfig(tmp_path / "config", api, "login"), environ, token="t").nodes


MISTAKES: list[tuple[str, dict[str, Any], str]] = [
    ("an unknown policy", {"credentialPluginPolicy": "Some"}, "is none of AllowAll, DenyAll"),
    ("no list", {"credentialPluginPolicy": "Allowlist"}, "names nothing"),
    (
        "an empty list",
        {"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": []},
        "names nothing",
    ),
    ("a list alone", {"credentialPluginAllowlist": [{"command": "a"}]}, "is AllowAll"),
    (
        "a list with DenyAll",
        {"credentialPluginPolicy": "DenyAll", "credentialPluginAllowlist": []},
        "is DenyAll",
    ),
    (
        "an empty entry",
        {"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{}]},
        "an entry that is empty",
    ),
    (
        "a path with detours",
        {"credentialPluginPolicy": "Allowlist", "credentialPluginAllowlist": [{"name": "/a/../b"}]},
        "no plain path",
    ),
    (
        "an entry that contradicts itself",
        {
            "credentialPluginPolicy": "Allowlist",
            "credentialPluginAllowlist": [{"name": "a", "command": "b"}],
        },
        "no valid preferences",
    ),
    ("a policy that is no text", {"credentialPluginPolicy": ["DenyAll"]}, "no valid preferences"),
]


@pytest.mark.parametrize(
    ("fields", "message"), [row[1:] for row in MISTAKES], ids=[row[0] for row in MISTAKES]
)
def test_preferences_that_kubectl_would_not_accept_end_before_any_plugin(
    api: ApiServer, tmp_path: Path, fields: dict[str, Any], message: str
) -> None:
    plugin = tmp_path / "login"
    path = kubeconfig(tmp_path / "config", api, program(plugin))
    with pytest.raises(ProblemsError) as caught:
        read(api, path, kuberc(tmp_path / "kuberc", **fields))
    assert caught.value.exit_code == 2
    assert message in str(caught.value)
    assert f"{tmp_path}/kuberc" in str(caught.value)
    assert not ran(plugin)


def test_a_named_file_that_is_not_there_is_refused_and_one_in_home_may_be_missing(
    api: ApiServer, tmp_path: Path
) -> None:
    path = kubeconfig(tmp_path / "config", api, program(tmp_path / "login"))
    with pytest.raises(ProblemsError, match="KUBERC names a file that does not exist"):
        read(api, path, {"KUBERC": str(tmp_path / "none")})
    assert read(api, path, {"HOME": str(tmp_path)}).nodes


def test_preferences_in_home_that_are_none_are_said_as_by_kubectl(
    api: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / ".kube").mkdir()
    kuberc(tmp_path / ".kube" / "kuberc", "a: [")
    warnings: list[str] = []
    path = kubeconfig(tmp_path / "config", api, program(tmp_path / "login"))
    assert read(api, path, {"HOME": str(tmp_path)}, warnings).nodes
    said = f"kuberc {tmp_path}/.kube/kuberc is not used: no valid preferences in it"
    assert said in warnings


def test_preferences_that_speak_of_plugins_and_are_none_are_not_taken_for_no_policy(
    api: ApiServer, tmp_path: Path
) -> None:
    (tmp_path / ".kube").mkdir()
    kuberc(tmp_path / ".kube" / "kuberc", "credentialPluginPolicy: [DenyAll")
    path = kubeconfig(tmp_path / "config", api, program(tmp_path / "login"))
    with pytest.raises(ProblemsError, match="though it speaks of plugins"):
        read(api, path, {"HOME": str(tmp_path)})


def test_the_first_document_that_holds_preferences_counts(tmp_path: Path) -> None:
    kind = "apiVersion: kubectl.config.k8s.io/{}\nkind: Preference\ncredentialPluginPolicy: {}\n"
    text = "---\n: [\n--- # next\nkind: Other\n---\n"
    both = kind.format("v1beta1", "DenyAll") + "---\n" + kind.format("v1beta1", "AllowAll")
    assert load_policy(kuberc(tmp_path / "kuberc", text + both)).policy == "DenyAll"
    # v1alpha1 knows no policy.
    older = kind.format("v1alpha1", "DenyAll")
    assert load_policy(kuberc(tmp_path / "kuberc", older)).policy == "AllowAll"


def test_a_slip_in_the_name_of_a_field_is_said(tmp_path: Path) -> None:
    policy = load_policy(kuberc(tmp_path / "kuberc", credentialPluginPolcy="DenyAll"))
    assert policy.policy == "AllowAll"
    assert policy.warning.endswith("has fields that are not known: credentialPluginPolcy")
