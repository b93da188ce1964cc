"""The primer corpus: documents drawn from a small stochastic grammar. No outside text is used.

`documents(seed)` yields texts for ever; the same seed gives the same texts. Choices are skewed (a few words are
usual, most are rare), so that a next-token distribution has a clear top and a tail, as in real text.
"""

from collections.abc import Callable, Iterator, Sequence

from kvlab.primer import words as w
from kvlab.primer.writer import Person, Writer, a, cap, fillers, listing


def page(r: Writer) -> str:
    """A page of a first reader: lower case, full stops set apart."""
    child = r.person()
    lines: list[str] = []
    for _ in range(r.between(3, 9)):
        who = r.random.choices(
            [*w.FAMILY, child.name.lower(), f"the {r.pick(w.JOBS, 0.7)}", f"the {r.pick(w.ANIMALS, 0.7)}"],
            [8, 5, 3, 3, 4, 2, 3],
        )[0]
        if who.removeprefix("the ") in w.ANIMALS:
            lines.append(f"{who} {r.pick(w.ANIMAL_DEEDS, 0.7)} .")
            continue
        verb, past, thing, reason = r.deed(who)
        lines.append(f"{who} {past} {thing}{' ' + reason if r.chance(0.25) else ''} .")
        if r.chance(0.2):
            lines.append(f"what did {who} {verb} ? {who} {past} {thing} .")
        elif r.chance(0.15):
            lines.append(f"who {past} {thing} ? {who} did .")
    return " ".join(lines)


def lost(r: Writer) -> str:
    """A thing is lost, looked for and found; then questions about it."""
    p = r.person()
    q = r.person(p)
    colour, thing, place = r.pick(w.COLOURS, 0.4), r.pick(w.TOYS + w.THINGS, 0.3), r.pick(w.PLACES, 0.5)
    trait = r.pick(w.TRAITS, 0.5)
    found, *wrong = r.random.sample(w.BOXES, r.between(2, 4))
    text = [
        f"{r.pick(('Once there was', 'Long ago there was', 'There was once'), 0.7)} {a(trait)} {p.kind} named {p.name}.",
        f"{p.name} had {a(colour)} {thing}.",
        f"{cap(p.he)} {r.pick(('loved', 'liked'), 1)} the {colour} {thing} very much.",
        r.pick(w.WEATHER, 0.5),
        f"One day {p.name} went to the {place} with {p.his} {thing}.",
        *fillers(r, 0, 4, p, q),
        f"When {p.he} came home, the {thing} was gone.",
        f"{p.name} was {r.pick(('sad', 'very sad', 'worried'), 0.7)} and began to {r.pick(('cry', 'look everywhere'), 0.7)}.",
    ]
    if r.chance(0.8):
        text += [f"{cap(p.he)} met {q.name}.", talk(r, p, q)]
    for box in wrong:
        who = p.name if r.chance(0.6) else "They"
        text.append(f"{who} looked in the {box}, but the {thing} was not there.")
    text += [
        *fillers(r, 0, 3, p, q),
        f"{r.pick(('At last', 'Finally', 'In the end'), 0.7)} {q.name} looked in the {found} and found the {colour} {thing}.",
        f'"{r.pick(("Thank you", "Thank you so much", "You are a true friend"), 0.7)}, {q.name}!" said {p.name}.',
        f"{p.name} was {r.pick(('happy', 'very happy', 'glad'), 0.7)} again.",
    ]
    questions = [
        f"Who lost the {thing}? {p.name} did.",
        f"What color was the {thing}? It was {colour}.",
        f"Where was the {thing}? It was in the {found}.",
        f"Who found the {thing}? {q.name} did.",
        f"Where did {p.name} go? {p.name} went to the {place}.",
        f"What was {p.name} like? {p.name} was {trait}.",
    ]
    return " ".join(text + r.random.sample(questions, r.between(0, 4)))


def talk(r: Writer, p: Person, q: Person) -> str:
    kind = r.pick(range(3), 0.6)
    if kind == 0:
        ask = r.pick(("Can you help me", "Will you come with me", "Do you know the way"), 0.7)
        return (
            f'"{ask}?" asked {p.name}. "{r.pick(("Yes, of course", "Yes, I can", "I will try"), 0.7)}," said {q.name}.'
        )
    if kind == 1:
        return f'"Good morning, {q.name}," said {p.name}. "Good morning, {p.name}," said {q.name}.'
    doing = r.pick(("looking for my friend", "waiting for the bus", "going home", "making a present"), 0.7)
    return f'"What are you doing?" asked {q.name}. "I am {doing}," said {p.name}.'


def pet(r: Writer) -> str:
    """A child and a pet with a name."""
    p = r.person()
    animal, name, colour = r.pick(w.ANIMALS, 0.5), r.pick(w.PET_NAMES), r.pick(w.COLOURS, 0.4)
    snack, place = r.pick(w.SNACKS, 0.6), r.pick(w.PLACES, 0.5)
    text = [
        f"{p.name} had {a(r.pick(('small', 'big', 'old', 'young'), 0.7))} {animal} named {name}.",
        f"{name} was {colour} and {r.pick(w.TRAITS, 0.5)}.",
        *fillers(r, 0, 3, p),
        f"Every {r.pick(('day', 'morning', 'evening'), 0.8)} {p.name} gave {name} {snack}.",
    ]
    event = r.pick(range(3), 0.4)
    if event == 0:
        text += [
            f"One day the {animal} ran away to the {place}.",
            f'{p.name} called, "{name}! {name}! Where are you?"',
            *fillers(r, 0, 5, p),
            f"The {animal} was hungry, so it came back.",
            f'{p.name} gave the {animal} {snack} and said, "Good {animal}, {name}!"',
        ]
    elif event == 1:
        text += [
            f"One day it rained and the {animal} was wet and cold.",
            f"{p.name} took {name} home and dried the {animal} with a {r.pick(w.COLOURS, 0.4)} towel.",
            *fillers(r, 0, 5, p),
            f"Soon {name} was warm and fell asleep.",
        ]
    else:
        text += [
            f"One day {name} climbed up a tall tree and could not come down.",
            f"{p.name} asked the {r.pick(w.JOBS, 0.6)} for a ladder.",
            *fillers(r, 0, 4, p),
            f"{p.name} climbed up the ladder and carried the {animal} down.",
        ]
    text.append(
        r.pick((f"{p.name} and {name} were best friends.", f"And that is the story of {name} the {animal}."), 0.7)
    )
    questions = [
        f"What was the name of the {animal}? The name of the {animal} was {name}.",
        f"What color was {name}? {name} was {colour}.",
        f"Who had {a(animal)}? {p.name} did.",
        f"What did {name} eat? {name} ate {snack}.",
    ]
    return " ".join(text + r.random.sample(questions, r.between(0, 3)))


def errand(r: Writer) -> str:
    """A shopping list, kept in mind on the way."""
    p, who = r.person(), r.pick(w.FAMILY, 0.5)
    foods = r.random.sample(w.FOODS, r.between(2, 4))
    shop = r.pick(("market", "shop"), 0.7)
    text = [
        f"{cap(who)} asked {p.name} to go to the {shop}.",
        f'"Please buy {listing(foods)}," said {who}.',
        *fillers(r, 0, 8, p),
        f"At the {shop} {p.name} bought {listing(foods)}.",
        f"At home {p.he} put the {listing(foods)} on the table.",
        f'"Well done, {p.name}," said {who}.',
    ]
    return " ".join(text)


def cause(r: Writer) -> str:
    """Small chains of cause and effect."""
    p = r.person()
    he, his = cap(p.he), p.his
    chains = (
        ("It began to rain.", f"{p.name} opened {his} umbrella.", f"{he} stayed dry."),
        ("The path was covered with ice.", f"{p.name} slipped and fell down.", f"{cap(his)} knee hurt."),
        ("The day was very hot.", f"{p.name} drank a cup of cold water.", f"{he} felt better."),
        ("It grew dark.", f"{p.name} lit a candle.", f"Now {p.he} could see the road."),
        (f"{p.name} dropped the glass.", "The glass broke into many pieces.", f"{p.name} swept the floor."),
        (f"{p.name} slept too long.", f"{he} missed the bus.", f"{he} had to walk to school."),
        ("A strong wind came.", f"The wind blew away {his} hat.", f"{p.name} ran after the hat and caught it."),
        (f"{p.name} played in the mud.", f"{cap(his)} shirt was dirty.", "Mom washed the shirt."),
        (f"{p.name} went out without a coat.", f"{he} caught a cold.", f"The doctor gave {p.him} tea with honey."),
    )
    text = [f"This is {p.name}. {p.name} is {a(r.pick(w.TRAITS, 0.5))} {p.kind}."]
    for chain in r.random.sample(chains, r.between(1, 3)):
        text += chain
    return " ".join([*text, r.pick((f"{p.name} laughed.", f"{p.name} went to bed early."), 0.5)])


def handover(r: Writer) -> str:
    """A thing passes from hand to hand; who has it now?"""
    first = r.person()
    second = r.person(first)
    people = [first, second, r.person(first, second)]
    colour, thing = r.pick(w.COLOURS, 0.4), r.pick(w.TOYS + w.THINGS, 0.3)
    owner = first
    text = [f"{owner.name} had {a(colour)} {thing}."]
    for _ in range(r.between(1, 4)):
        text += fillers(r, 0, 3, *people)
        before, owner = owner, r.pick([p for p in people if p is not owner])
        text.append(
            r.pick(
                (
                    f"{before.name} gave the {thing} to {owner.name}.",
                    f"{owner.name} took the {thing} from {before.name}.",
                ),
                0.6,
            )
        )
        if r.chance(0.5):
            text.append(f"Who has the {thing}? {owner.name} has the {thing}.")
    return " ".join([*text, f"Who has the {thing} now? {owner.name} has the {thing}."])


def trip(r: Writer) -> str:
    """Two friends on the way to a place."""
    p = r.person()
    q = r.person(p)
    goal, first, second = r.random.sample(w.PLACES, 3)
    job, gift = r.pick(w.JOBS, 0.5), f"{a(r.pick(w.COLOURS, 0.4))} {r.pick(w.THINGS, 0.5)}"
    text = [
        r.pick(w.WEATHER, 0.5),
        f"{p.name} and {p.his} friend {q.name} wanted to go to the {goal}.",
        f'"Let us go together," said {p.name}.',
        f"First they walked to the {first}.",
        f"There they met {a(r.pick(w.TRAITS, 0.5))} {job}.",
        f'"Where are you going?" asked the {job}. "We are going to the {goal}," said {q.name}.',
        *fillers(r, 0, 4, p, q),
        f"The {job} gave them {gift}.",
        f"Then they came to the {second}, where they {r.pick(('sat down and rested', 'played a game', 'sang a song'), 0.6)}.",
        *fillers(r, 0, 3, p, q),
        f"At last they came to the {goal}.",
        f"In the evening {p.name} and {q.name} went home.",
    ]
    questions = [
        f"Where did they want to go? They wanted to go to the {goal}.",
        f"Who gave them {gift}? The {job} did.",
        f"Who went with {p.name}? {q.name} did.",
    ]
    return " ".join(text + r.random.sample(questions, r.between(0, 3)))


def asked_again(
    r: Writer, fact: str, question: str, lengths: Sequence[tuple[int, int]], people: Sequence[Person]
) -> str:
    """A fact, then the question about it, once after a long middle or several times on the way."""
    if r.chance(0.4):
        text = [fact]
        for _ in range(r.between(2, 4)):
            text += [*fillers(r, 0, 6, *people), question]
        return " ".join(text)
    return " ".join([fact, *fillers(r, *r.pick(lengths), *people), question])


DISTANCES = ((0, 3), (2, 8), (6, 16), (14, 28), (24, 40))


def secret(r: Writer, lengths: Sequence[tuple[int, int]] = DISTANCES) -> str:
    word = r.pick(w.SECRETS)
    question = f"What is the secret word? The secret word is {word}."
    return asked_again(r, f"The secret word is {word}. Do not forget it.", question, lengths, ())


def animal_name(r: Writer, lengths: Sequence[tuple[int, int]] = DISTANCES) -> str:
    animal, name = r.pick(w.ANIMALS, 0.4), r.pick(w.PET_NAMES)
    fact = f"This is a story about {a(r.pick(w.TRAITS, 0.5))} {animal} named {name}."
    question = f"What was the name of the {animal}? The name of the {animal} was {name}."
    return asked_again(r, fact, question, lengths, ())


def hidden(r: Writer, lengths: Sequence[tuple[int, int]] = DISTANCES) -> str:
    p = r.person()
    colour, thing, box = r.pick(w.COLOURS), r.pick(w.TOYS + w.THINGS), r.pick(w.BOXES)
    fact = f"{p.name} put the {colour} {thing} in the {box}."
    question = f"Where was the {colour} {thing}? It was in the {box}. Who put it there? {p.name} did."
    return asked_again(r, fact, question, lengths, (p,))


def zoo(r: Writer, lengths: Sequence[tuple[int, int]] = ((0, 2), (0, 6), (4, 14))) -> str:
    """Several animals, each with a name: the right one has to be found, not just any."""
    animals = r.random.sample(w.ANIMALS, r.between(2, 4))
    names = dict(zip(animals, r.random.sample(w.PET_NAMES, len(animals)), strict=True))
    text = [r.pick((f"The {x} was named {names[x]}.", f"{names[x]} was a {x}."), 0.5) for x in animals]
    for x in r.random.sample(animals, r.between(2, len(animals))):
        low, high = r.pick(lengths, 0.7)
        text += [*fillers(r, low // 2, high // 2), f"What was the name of the {x}? The name of the {x} was {names[x]}."]
    return " ".join(text)


def friends(r: Writer, lengths: Sequence[tuple[int, int]] = ((0, 2), (0, 6), (4, 14))) -> str:
    """Several children, each with a thing: who had which?"""
    people: list[Person] = []
    for _ in range(r.between(2, 4)):
        people.append(r.person(*people))
    things = r.random.sample(w.TOYS + w.THINGS, len(people))
    owned = list(zip(people, things, strict=True))
    text = [f"{p.name} had {a(r.pick(w.COLOURS, 0.4))} {thing}." for p, thing in owned]
    for p, thing in r.random.sample(owned, r.between(2, len(owned))):
        low, high = r.pick(lengths, 0.7)
        text += [*fillers(r, low // 2, high // 2, *people), f"Who had the {thing}? {p.name} had the {thing}."]
    return " ".join(text)


def echo(r: Writer) -> str:
    """Words said again in the same order."""
    said = r.random.sample(w.SECRETS + tuple(n.lower() for n in w.PET_NAMES[:8]), r.between(3, 6))
    return f"Say it again: {' '.join(said)}. {cap(' '.join(said))}. And again: {' '.join(said)}."


def homonym(r: Writer) -> str:
    """One word in one of its two meanings, settled by what stands around it."""
    word = r.pick(tuple(w.HOMONYMS), 1.0)
    sense = r.between(0, 1)
    p = r.person()
    deeds = r.random.sample(w.HOMONYMS[word][sense], 2)
    text = [
        *([r.pick(w.WEATHER, 0.5)] if r.chance(0.4) else []),
        f"{p.name} {deeds[0]}.",
        r.pick(w.SENSE_ENDINGS[word][sense]),
        *fillers(r, 0, 2, p),
        f"Then {p.he} {deeds[1]}.",
        r.pick(w.SENSE_ENDINGS[word][sense]),
    ]
    return " ".join(text)


def sums(r: Writer) -> str:
    p, who = r.person(), r.pick(w.FAMILY, 0.5)
    have = r.between(1, 8)
    more = r.between(1, 9 - have)
    food = r.pick(("apples", "pears", "plums", "nuts", "cookies"), 0.5)
    count = [w.NUMBERS[n - 1] for n in (have, more, have + more)]
    first = food[:-1] if have == 1 else food
    return (
        f"{p.name} had {count[0]} {first}. {cap(who)} gave {p.him} {count[1]} more. Now {p.name} has {count[2]} {food}."
    )


def chat(r: Writer) -> str:
    """Question and answer with the two role tokens."""
    who = r.pick(w.FAMILY)
    _, past, thing, reason = r.deed(who)
    kind = r.pick(range(3))
    if kind == 0:
        return f"<|user|>Continue the text: {who} {past}<|assistant|>{who} {past} {thing} {reason} ."
    if kind == 1:
        return f"<|user|>Who {past} {thing}? {cap(who)} {past} {thing}.<|assistant|>{cap(who)} {past} {thing}."
    foods = r.random.sample(w.FOODS, r.between(2, 4))
    return f"<|user|>Repeat the list: {listing(foods)}.<|assistant|>{cap(listing(foods))}."


KINDS: tuple[tuple[Callable[[Writer], str], int], ...] = (
    (page, 16),
    (lost, 18),
    (pet, 16),
    (errand, 8),
    (cause, 8),
    (handover, 8),
    (trip, 12),
    (secret, 9),
    (animal_name, 8),
    (hidden, 5),
    (zoo, 7),
    (friends, 6),
    (echo, 3),
    (homonym, 8),
    (sums, 2),
    (chat, 4),
)


def documents(seed: int) -> Iterator[str]:
    """Documents for ever, the same for the same seed."""
    writer = Writer(seed)
    kinds, weights = zip(*KINDS, strict=True)
    while True:
        yield writer.random.choices(kinds, weights)[0](writer)


def binding_documents(seed: int) -> Iterator[str]:
    """Only documents in which several animals or children have to be told apart."""
    writer = Writer(seed)
    near = ((0, 0), (0, 2))
    while True:
        yield writer.pick((zoo, friends, zoo))(writer, near)


def long_needles(seed: int) -> Iterator[str]:
    """Facts asked about once, after a middle of up to 400 tokens."""
    writer = Writer(seed)
    while True:
        yield writer.pick((animal_name, animal_name, secret))(writer, ((32, 42), (38, 52)))


def short_needles(seed: int) -> Iterator[str]:
    """Facts asked about within a few sentences: what a model must see often before it learns to look back."""
    writer = Writer(seed)
    near = ((0, 2), (0, 4))
    while True:
        kind = writer.pick((secret, animal_name, hidden, zoo, friends))
        yield kind(writer, near)
