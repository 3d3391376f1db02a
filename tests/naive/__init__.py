"""A second, deliberately naive model of the controllers: the oracle of the differential tests.

Written from what Kubernetes does (the rules of docs/fidelity.md), by literal loops; it shares no code
with ``kubectl_evictplan`` but the value types of its input. When the two disagree, one is wrong.
"""
