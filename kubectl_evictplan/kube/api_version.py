"""The group and version of every file that this program writes or reads as its own."""

API_VERSION = "evictplan.dev/v1alpha1"
