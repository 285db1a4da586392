"""What runs in production: tuned choices, looked up by operator, shape and device."""
