"""The gRPC face: PoolDiscoveryService, health, reflection, and the server's options."""
