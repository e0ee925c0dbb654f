"""A shop that keeps its orders in MySQL or MariaDB and reads them from a replica."""
