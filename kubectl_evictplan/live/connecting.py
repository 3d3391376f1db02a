"""From kubectl's connection options to a transport that has logged in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager

from kubectl_evictplan.errors import EvictplanError
from kubectl_evictplan.live.credentials import is_pod
from kubectl_evictplan.live.flags import ConnectionFlags
from kubectl_evictplan.live.kubeconfig import resolve
from kubectl_evictplan.live.problems import masked
from kubectl_evictplan.live.transport import Transport
from kubectl_evictplan.world import World


@contextmanager
def connected(
    flags: ConnectionFlags,
    environ: Mapping[str, str],
    *,
    warn: Callable[[str], None] | None = None,
    world: World | None = None,
) -> Iterator[Transport]:
    """Log in where the options and the kubeconfig say; whatever goes wrong quotes no credential.

    ``warn`` is told what is odd about the connection. Raises InputError for kubeconfigs and options,
    AccessError for credentials.
    """
    target = resolve(flags, environ, is_pod=is_pod(environ))
    for warning in target.warnings:
        if warn:
            warn(warning)
    transport = Transport(
        target,
        environ,
        request_timeout_ns=flags.request_timeout_ns,
        world=world or World(),
    )
    try:
        yield transport
    except EvictplanError:
        raise
    except Exception as error:
        if not _quotes(error, transport.secrets):
            raise
        # Ours to mend, and to be reported: whatever it quotes, no credential.
        text = masked(str(error), transport.secrets)
        raise AssertionError(f"{type(error).__name__}: {text}").with_traceback(
            error.__traceback__
        ) from None


def _quotes(error: BaseException | None, secrets: Collection[str]) -> bool:
    """Whether an error, or one that led to it, has a credential in its text."""
    while error is not None:
        if masked(str(error), secrets) != str(error):
            return True
        error = error.__cause__ or error.__context__
    return False
