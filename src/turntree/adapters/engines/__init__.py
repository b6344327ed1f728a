"""What wakes sessions up."""
