"""A lab seen while it runs: one sampler for all viewers, a load with a ledger, and commands."""
