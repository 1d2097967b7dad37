"""What every door takes where nothing else is said; nothing heavy is imported here, so that help stays quick."""

from __future__ import annotations

#: The row of the method table that is trained from Python, on the command line, for a release and in the studio.
DEFAULT_METHOD = "tailwise"
#: The row that is trained with differential privacy, which a prior over pairs of codes cannot be.
PRIVATE_METHOD = "adapcla"
