"""Ten thousand mutated files through every source: no traceback, no hang.

python benchmarks/fuzz_tables.py --files 10000
"""

from __future__ import annotations

import sys
from pathlib import Path

# The mutations and the tiny data sets are those of the tests.
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.io.fuzz import main

if __name__ == "__main__":
    main(files=10_000)
