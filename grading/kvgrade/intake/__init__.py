"""Take the hand-ins of a class from what a learning platform, Colab or a folder gives: `python -m kvgrade import`."""
