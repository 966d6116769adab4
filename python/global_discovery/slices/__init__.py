"""What imported EndpointSlices mean: pure functions from slices to pools and routers.

Nothing here talks to an API server, keeps state or knows a registration.
"""
