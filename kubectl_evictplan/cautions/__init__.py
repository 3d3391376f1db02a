"""The rules behind ``kubectl_evictplan.warnings``: one module per kind of surprise.

A rule is a function of one ``Situation`` that yields ``Warning`` values. Rules are pure, say only what
matters to this prediction, and never loop over pods with more than a lookup each.
"""
