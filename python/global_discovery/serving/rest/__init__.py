"""The REST gateway: HTTP and JSON for callers that do not speak gRPC."""
