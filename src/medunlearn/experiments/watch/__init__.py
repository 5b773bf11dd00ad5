"""What is measured of every model besides its answers, at the end and after each epoch: membership and utility."""
