"""Many jobs and services at once: one plan to buy and place them."""
