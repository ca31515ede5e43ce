"""optimizers: one file per component."""
