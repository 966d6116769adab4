"""The registrations as a source: shares, their leases, and what a store adds to them."""
