"""What ``--executor MODULE:FUNCTION`` may name."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor


def two_threads() -> Executor:
    return ThreadPoolExecutor(2)


def no_executor() -> object:
    return object()
