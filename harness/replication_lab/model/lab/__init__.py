"""What a lab is made of: topologies, links and their conditions, disks, servers, attached projects."""
