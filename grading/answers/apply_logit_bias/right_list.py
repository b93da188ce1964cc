"""Right: goes through the vocabulary; a list comes back."""


def apply_logit_bias(logits, bias):
    if any(not 0 <= token < len(logits) for token in bias):
        raise ValueError("an id outside the vocabulary")
    return [value + bias.get(token, 0.0) for token, value in enumerate(logits.tolist())]
