"""The untrusted side: what runs in the jail, and what brings it there. Nothing in here knows an answer."""
