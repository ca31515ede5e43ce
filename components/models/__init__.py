"""models: one file per component."""
