"""The fake world of the unit tests: servers, disks, machines without Docker."""
