"""measures: one file per component."""
