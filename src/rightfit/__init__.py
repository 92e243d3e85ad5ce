"""rightfit: from a machine-learning workload to the cloud server to rent, how to set it up, what it costs, and how sure that is."""

__version__ = "0.1.0"
