"""Why a configuration is slow, from what the compiler made of it, with the user's line and what to try."""
