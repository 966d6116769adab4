"""Who is calling and what that caller may do, decided in one place for both faces."""
