"""When each node of a cluster began and ended, and what it is: from the cluster or a file to gpu.nodes."""
