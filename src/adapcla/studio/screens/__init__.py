"""The pages of the studio, one file each: choices, the command they become, and what the folder then holds."""
