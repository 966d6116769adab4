"""TLS of both faces: what their files hold, and how new ones come into use while we run."""
