"""gradients: one file per component."""
