"""Right: doubles, then searches between."""


def break_even_requests(write_multiplier, read_multiplier):
    def pays(n):
        return write_multiplier + (n - 1) * read_multiplier < n

    if pays(1):
        return 1
    if read_multiplier >= 1:
        raise ValueError("never")
    high = 2
    while not pays(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if pays(middle) else (middle, high)
    return high
