"""A catalogue of hostile and odd hand-ins for unit 01, made by code. See README.md in this folder."""
