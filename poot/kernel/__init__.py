"""The kernel IR, its builder and scalar operations, and what works on them.

Importing any part of it fills the table of scalar operations.
"""

from __future__ import annotations

from poot.kernel import expand as expand
