"""`python -m kvlab.real_tokenizers`: record what the tokenizers on this machine make of the course's texts."""

from kvlab.paths import data_dir
from kvlab.real_tokenizers.record import record

if __name__ == "__main__":
    record(data_dir() / "tokenizers.json")
