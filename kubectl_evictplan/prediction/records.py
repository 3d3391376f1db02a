"""What all records of the answer have in common: their spelling, and the words for how sure something is."""

from __future__ import annotations

import msgspec

# In every admissible run, or in some.
CERTAIN = "certain"
POSSIBLE = "possible"


class Record(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Camel-cased frozen record; subclasses are the objects of the document."""
