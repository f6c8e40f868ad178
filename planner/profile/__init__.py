"""What the traffic is: per class lengths, arrivals, bursts, reuse, peaks. Knows no GPU."""
