"""What every door takes where nothing else is said; nothing heavy is imported here, so that help stays quick."""

from __future__ import annotations

#: The row of the method table that is trained where nobody names one.
DEFAULT_METHOD = "tailwise"
