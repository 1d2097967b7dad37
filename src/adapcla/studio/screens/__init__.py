"""The pages of the studio, one file each: what is asked, which command that becomes, and what the folder then holds."""
