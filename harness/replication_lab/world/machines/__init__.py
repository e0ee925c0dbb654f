"""Virtual machines, the disks that DRBD replicates between them, and the cluster manager that moves their service."""
