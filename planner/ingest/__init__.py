"""Files in any known log format → one canonical request table and counted rejects."""
