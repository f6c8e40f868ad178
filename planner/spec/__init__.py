"""What users and catalogues declare, as frozen dataclasses, and how it is read and checked."""
