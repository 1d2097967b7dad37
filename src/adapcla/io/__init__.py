"""Sources of patients, and exports.

Lives here: one file per source, each with `read(root, options) -> Cohort`; the careful table reader and the assembly
that every source shares; the ways out (exports) and what is known of codes (groups, mappings, phenotypes).
May not: know a network, a metric or a figure.
May import: data and the ground floor; polars, duckdb and pyarrow inside functions.
"""

from adapcla.io.contract import SOURCES, Options, Source, read

__all__ = ["SOURCES", "Options", "Source", "read"]
