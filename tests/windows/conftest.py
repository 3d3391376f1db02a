"""What several of these tests ask for."""

from __future__ import annotations

import pytest

from kubectl_evictplan.windows.clients import late_requests


@pytest.fixture
def unlimited(monkeypatch: pytest.MonkeyPatch) -> None:
    """What bounds of runs are compared with: windows that no client of a controller makes later."""
    monkeypatch.setattr(late_requests, "let_clients_wait", lambda *_, **__: None)
