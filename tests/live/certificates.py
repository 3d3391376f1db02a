"""Certificates for servers and clients on loopback, made anew for every run of the tests."""

from __future__ import annotations

import tempfile
from pathlib import Path

import trustme


def make_certificates() -> tempfile.TemporaryDirectory[str]:
    """A folder, there as long as the value returned is.

    ``authority.pem`` signed ``server.pem`` (127.0.0.1), ``elsewhere.pem`` (another name) and ``client.pem``
    (jane of the readers), each with its key; ``stranger.pem`` is an authority that signed none of them.
    """
    folder = tempfile.TemporaryDirectory(prefix="certificates-")
    path, authority = Path(folder.name), trustme.CA()
    authority.cert_pem.write_to_path(path / "authority.pem")
    trustme.CA().cert_pem.write_to_path(path / "stranger.pem")
    leaves = {
        "server": authority.issue_cert("127.0.0.1", "kubernetes.default"),
        "elsewhere": authority.issue_cert("elsewhere.example"),
        "client": authority.issue_cert(
            "client.invalid", common_name="jane", organization_name="readers"
        ),
    }
    for name, leaf in leaves.items():
        leaf.private_key_and_cert_chain_pem.write_to_path(path / f"{name}.pem")
    return folder
