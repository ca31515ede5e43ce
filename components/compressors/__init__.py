"""compressors: one file per component."""
