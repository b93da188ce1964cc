"""The command `kvlab`: lab, reset, doctor, run and models. Importing it imports no torch."""
