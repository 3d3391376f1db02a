"""What kubectl's connection options say, by their own names; parsing them needs no cluster."""

from __future__ import annotations

from typing import NamedTuple

from kubectl_evictplan.kube.durations import SECOND_NS

CHUNK_SIZE_DEFAULT = 500
REQUEST_TIMEOUT_DEFAULT_NS = 30 * SECOND_NS


class ConnectionFlags(NamedTuple):
    """The options as typed; "" and () mean that one is not given.

    ``request_timeout_ns``: how long one answer may take, 0 for as long as it likes. ``chunk_size``:
    objects per answer, 0 for all in one. ``namespace`` "" is the whole cluster.
    """

    kubeconfig: str = ""
    context: str = ""
    cluster: str = ""
    user: str = ""
    namespace: str = ""
    server: str = ""
    token: str = ""
    as_user: str = ""
    as_groups: tuple[str, ...] = ()
    as_uid: str = ""
    as_user_extra: tuple[str, ...] = ()
    certificate_authority: str = ""
    client_certificate: str = ""
    client_key: str = ""
    insecure_skip_tls_verify: bool = False
    tls_server_name: str = ""
    no_exec_auth: bool = False
    allow_relative_exec: bool = False
    request_timeout_ns: int = REQUEST_TIMEOUT_DEFAULT_NS
    chunk_size: int = CHUNK_SIZE_DEFAULT
