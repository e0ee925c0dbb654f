"""What happens to traffic between nodes: Toxiproxy's links, the kernel's delay and loss, and whether they act."""
