"""Emulated disks and arrays of them."""
