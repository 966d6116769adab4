"""Imported EndpointSlices as sources: what they show of pools and of routers."""
