"""A second, deliberately naive model of the controllers: the oracle of the differential tests.

Written from the specifications only, by literal loops over plain dictionaries; it shares no code
with ``kubectl_evictplan`` but the value types of its input. When the two disagree, one is wrong.
"""
