"""One file per source, each with `read(root, options) -> Cohort`."""
