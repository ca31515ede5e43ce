"""data: one file per component."""
