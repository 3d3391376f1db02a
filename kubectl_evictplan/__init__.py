"""Predict which pods Kubernetes will evict, when, by whom and why."""

__version__ = "0.1.0"
