"""What two recipes, plans, locks or bundles differ in, and what that does to size, memory, speed and acceptance."""
