"""What is read of Services and EndpointSlices about whose clients go where."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("hints", [{"forZones": [{"name": "za"}]}, {"forNodes": [{"name": "n"}]}])
def test_policies_distribution_and_hints_are_read(load: Any, hints: Any) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "s", "namespace": "d"},
        "spec": {"internalTrafficPolicy": "Local", "trafficDistribution": "PreferClose"},
    }
    some = [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"name": f"s-{number}", "namespace": "d"},
            "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"], **also}],
        }
        for number, also in enumerate(({}, {"hints": hints}))
    ]
    found = load(service, *some).infrastructure
    [read] = found.services
    assert (read.internal_traffic_policy, read.traffic_distribution) == ("Local", "PreferClose")
    assert [one.hinted for one in found.endpoint_slices] == [False, True]
