"""Published results, recomputed: claims of papers beside what this planner's physics says."""
