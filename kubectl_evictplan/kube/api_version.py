"""The group and version of every file that this program writes or reads as its own."""

from __future__ import annotations

from typing import Final

API_VERSION: Final = "evictplan.dev/v1alpha1"
