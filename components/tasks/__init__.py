"""tasks: one file per component."""
