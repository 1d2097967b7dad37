"""One figure per file, each a function that returns a matplotlib figure in the project's style."""
