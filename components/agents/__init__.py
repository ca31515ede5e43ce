"""agents: one file per component."""
