"""links: one file per component."""
