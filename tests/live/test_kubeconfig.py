"""Which cluster is asked, and as whom: kubectl's rules, and what bad kubeconfigs are answered."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from kubectl_evictplan.errors import InputError
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.kubeconfig import Target, in_context, resolve

Write = Callable[..., str]


def config(
    name: str = "dev", *, current: str | None = None, user: Any = None, **cluster: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        "clusters": [{"name": name, "cluster": {"server": f"https://{name}.example", **cluster}}],
        "users": [{"name": name, "user": {"token": f"{name}-token"} if user is None else user}],
    }


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Return a function that writes a kubeconfig and returns its path."""

    def written(content: Any, name: str = "config") -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else yaml.safe_dump(content)
        path.write_text(text, "utf-8")
        path.chmod(0o600)
        return str(path)

    return written


def chosen(listed: str = "", *, home: str = "/nonexistent", **flags: Any) -> Target:
    environ = {"HOME": home} | ({"KUBECONFIG": listed} if listed else {})
    return resolve(ConnectionFlags()._replace(**flags), environ)


def refused(listed: str = "", **flags: Any) -> str:
    with pytest.raises(InputError) as caught:
        chosen(listed, **flags)
    (problem,) = caught.value.problems
    return str(problem)


# Which file, which entry


def test_of_several_files_the_first_current_context_wins(write: Write) -> None:
    """The Python client takes the last one, and so another cluster than kubectl."""
    both = os.pathsep.join([write(config("a"), "a"), write(config("b"), "b")])
    assert chosen(both).server == "https://a.example"


def test_a_later_file_fills_what_the_first_leaves_out(write: Write) -> None:
    first = write({"kind": "Config", "current-context": "b"}, "a")
    assert chosen(os.pathsep.join([first, write(config("b"), "b")])).server == "https://b.example"


def test_of_entries_of_one_name_the_first_wins(write: Write) -> None:
    second = config("a", server="https://other.example", user={"token": "other"})
    both = os.pathsep.join([write(config("a"), "a"), write(second, "b")])
    target = chosen(both)
    assert (target.server, target.user["token"]) == ("https://a.example", "a-token")


def test_missing_files_of_kubeconfig_are_skipped_and_said(write: Write) -> None:
    target = chosen(os.pathsep.join(["/nonexistent/x", write(config())]))
    assert target.server == "https://dev.example"
    assert target.warnings == ("KUBECONFIG names files that do not exist: /nonexistent/x",)


def test_without_kubeconfig_the_file_in_home_counts(write: Write, tmp_path: Path) -> None:
    write(config("home"), ".kube/config")
    assert chosen(home=str(tmp_path)).server == "https://home.example"


def test_the_option_kubeconfig_is_read_alone(write: Write) -> None:
    environ = {"KUBECONFIG": write(config("a"), "a")}
    flags = ConnectionFlags(kubeconfig=write(config("b"), "b"))
    assert resolve(flags, environ).server == "https://b.example"


def test_context_cluster_and_user_can_be_named_apart(write: Write) -> None:
    both = os.pathsep.join([write(config("a"), "a"), write(config("b"), "b")])
    assert chosen(both, context="b").server == "https://b.example"
    target = chosen(both, cluster="b", user="a")
    assert (target.server, target.user["token"]) == ("https://b.example", "a-token")


def test_paths_are_those_seen_from_the_file_that_names_them(write: Write, tmp_path: Path) -> None:
    user = {"client-certificate": "pki/me.pem", "exec": {"command": "./login", "apiVersion": "v"}}
    path = write(config(user=user, **{"certificate-authority": "ca.pem"}), "folder/config")
    target = chosen(path)
    folder = str(tmp_path / "folder")
    assert target.cluster["certificate-authority"] == f"{folder}/ca.pem"
    assert target.user["client-certificate"] == f"{folder}/pki/me.pem"
    assert target.user["exec"]["command"] == f"{folder}/./login"


def test_a_bare_plugin_name_is_looked_up_on_path_not_beside_the_file(write: Write) -> None:
    user = {"exec": {"command": "aws", "apiVersion": "v"}}
    assert chosen(write(config(user=user))).user["exec"]["command"] == "aws"


# What the options replace


def test_a_server_needs_no_kubeconfig_at_all() -> None:
    target = chosen(server="10.0.0.1:6443")
    assert (target.server, dict(target.user)) == ("https://10.0.0.1:6443", {})


def test_a_token_replaces_every_other_way_to_log_in(write: Write) -> None:
    user = {"exec": {"command": "x", "apiVersion": "v"}, "tokenFile": "t", "username": "u"}
    assert dict(chosen(write(config(user=user)), token="mine").user) == {"token": "mine"}


def test_another_server_is_not_checked_against_the_old_name(write: Write) -> None:
    path = write(config(**{"tls-server-name": "dev"}))
    assert "tls-server-name" not in chosen(path, server="https://other").cluster
    assert chosen(path, server="https://o", tls_server_name="o").cluster["tls-server-name"] == "o"


def test_skipping_verification_drops_the_authority_and_is_said(write: Write) -> None:
    target = chosen(
        write(config(**{"certificate-authority-data": "eA=="})), insecure_skip_tls_verify=True
    )
    assert "certificate-authority-data" not in target.cluster
    assert target.warnings == ("insecure-skip-tls-verify: the server's certificate is not checked",)


def test_a_server_without_tls_is_said() -> None:
    (warning,) = chosen(server="http://127.0.0.1:1").warnings
    assert "without TLS" in warning


def test_a_kubeconfig_that_everybody_can_read_is_said(write: Write) -> None:
    path = write(config())
    Path(path).chmod(0o644)
    assert chosen(path).warnings == (
        f"kubeconfig {path} can be read by everybody: chmod 600 {path}",
    )


def test_b134_a_kubeconfig_lying_here_that_runs_a_program_is_said(
    write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(config(user={"exec": {"command": "curl", "apiVersion": "v"}}), "repo/config")
    assert chosen(path).warnings == ()
    monkeypatch.chdir(tmp_path / "repo")
    assert chosen(path).warnings == (
        f"kubeconfig {path} in the working directory runs curl to log in",
    )


# As whom


def test_impersonation_of_the_kubeconfig_is_sent(write: Write) -> None:
    """The Python client knows none of it and would act with full rights."""
    user = {
        "token": "t",
        "as": "reader",
        "as-uid": "7",
        "as-groups": ["g1", "g2"],
        "as-user-extra": {"why": ["because"]},
    }
    assert chosen(write(config(user=user))).impersonation.headers() == [
        ("Impersonate-User", "reader"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "g1"),
        ("Impersonate-Group", "g2"),
        ("Impersonate-Extra-why", "because"),
    ]


def test_impersonation_by_options_replaces_that_of_the_kubeconfig(write: Write) -> None:
    path = write(config(user={"token": "t", "as": "reader", "as-groups": ["g1"]}))
    assert chosen(path, as_user="other").impersonation.headers() == [("Impersonate-User", "other")]


def test_further_facts_are_sent_under_keys_that_are_percent_encoded() -> None:
    extra = ("scopes=a", "scopes=b=c", "example.org/caf\u00e9 100%=x")
    target = chosen(server="https://h", as_user="jane", as_user_extra=extra)
    assert target.impersonation.headers() == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Extra-scopes", "a"),
        ("Impersonate-Extra-scopes", "b=c"),
        ("Impersonate-Extra-example.org%2Fcaf%C3%A9%20100%25", "x"),
    ]


def test_further_facts_by_options_replace_those_of_the_kubeconfig_key_by_key(write: Write) -> None:
    extra = {"a": ["1", "2"], "b": ["3"]}
    path = write(config(user={"token": "t", "as": "reader", "as-user-extra": extra}))
    assert chosen(path, as_user_extra=("a=9",)).impersonation.headers() == [
        ("Impersonate-User", "reader"),
        ("Impersonate-Extra-b", "3"),
        ("Impersonate-Extra-a", "9"),
    ]


def test_further_facts_are_pairs_about_somebody() -> None:
    assert "has no KEY=" in refused(server="https://h", as_user="j", as_user_extra=("scopes",))
    assert "has no KEY=" in refused(server="https://h", as_user="j", as_user_extra=("=x",))
    assert "there is none" in refused(server="https://h", as_user_extra=("a=b",))


# Inside a pod


def test_a_pod_without_kubeconfig_uses_its_own_account() -> None:
    assert resolve(ConnectionFlags(), {}, is_pod=True).in_cluster


def test_a_kubeconfig_wins_over_the_pods_account(write: Write) -> None:
    environ = {"KUBECONFIG": write(config())}
    assert not resolve(ConnectionFlags(), environ, is_pod=True).in_cluster


def test_a_context_is_never_replaced_by_the_pods_account() -> None:
    with pytest.raises(InputError):
        resolve(ConnectionFlags(context="prod"), {"HOME": "/nonexistent"}, is_pod=True)


# B131: bad ones


BAD = [
    ("no file", "", {"kubeconfig": "/nonexistent/k"}, "no such kubeconfig file"),
    ("empty", "", {}, "no cluster is given"),
    ("only a comment", "# nothing\n", {}, "no cluster is given"),
    ("not YAML", "clusters: [", {}, "not valid YAML"),
    ("not a map", "- a\n- b\n", {}, "no map with clusters and users"),
    ("another kind", "kind: Secret\n", {}, "kind is not Config"),
    ("clusters is a map", "clusters: {a: b}\n", {}, "clusters: must be a list"),
    ("an entry without name", "users: [{user: {}}]\n", {}, "users[0]: must be a map with a name"),
    ("an entry that is text", "users: [x]\n", {}, "users[0]: must be a map with a name"),
    ("a user that is text", "users: [{name: a, user: x}]\n", {}, "users[0].user: must be a map"),
    ("a list as current-context", "current-context: []\n", {}, "current-context: must be a string"),
    ("no current-context", yaml.safe_dump(config(current="")), {}, "no context is chosen"),
    ("an unknown current-context", yaml.safe_dump(config(current="x")), {}, "names context x"),
    (
        "a context without its cluster",
        yaml.safe_dump({**config(), "clusters": []}),
        {},
        "context dev names cluster dev, which is in none of the files",
    ),
    (
        "a context without its user",
        yaml.safe_dump({**config(), "users": []}),
        {},
        "context dev names user dev, which is in none of the files",
    ),
    ("an unknown context", yaml.safe_dump(config()), {"context": "prod"}, "no context of that name"),
    ("a near context", yaml.safe_dump(config()), {"context": "dew"}, "did you mean dev?"),
    ("an unknown user", yaml.safe_dump(config()), {"user": "jane"}, "no user of that name"),
    (
        "a cluster without server",
        yaml.safe_dump(config(server="")),
        {},
        "cluster dev has no server",
    ),
    ("not UTF-8", "\udcff", {}, "not UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("content", "flags", "message"), [row[1:] for row in BAD], ids=[row[0] for row in BAD]
)
def test_b131_what_is_wrong_with_a_kubeconfig_is_one_line_with_its_file(
    tmp_path: Path, content: str, flags: dict[str, Any], message: str
) -> None:
    path = tmp_path / "config"
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    path.chmod(0o600)

    line = refused(str(path), **flags)

    assert message in line
    assert str(path) in line or "/nonexistent/k" in line or flags


def test_what_is_wrong_never_quotes_what_stands_there(write: Write) -> None:
    assert "hunter2" not in refused(write("users: [{name: a, user: {token: hunter2"))
    assert "hunter2" not in refused(write("users: hunter2\n"))
    assert "hunter2" not in refused(write("a: !hunter2 x\n"))


def test_a_directory_and_a_device_are_no_kubeconfig(tmp_path: Path) -> None:
    assert "is a directory" in refused(str(tmp_path))
    assert "not a regular file" in refused(kubeconfig="/dev/null")


def test_a_run_is_gone_on_with_by_the_context_that_it_was_begun_by(write: Write) -> None:
    both = config("dev")
    both["contexts"] += config("prod")["contexts"]
    environ = {"HOME": "/nonexistent", "KUBECONFIG": write(both)}

    def context(name: str, **flags: Any) -> str:
        return in_context(name, ConnectionFlags()._replace(**flags), environ).context

    assert context("prod") == "prod"
    assert context("dev") == "", "it is the current one"
    assert context("gone") == "", "whoever has renamed it says which one"
    assert context("prod", context="other") == "other"
    assert context("prod", server="https://elsewhere") == ""
