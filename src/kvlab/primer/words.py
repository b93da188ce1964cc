"""The word lists of the primer language. Where order matters, the most usual comes first."""


def _words(text: str, separator: str | None = None) -> tuple[str, ...]:
    return tuple(w.strip() for w in text.split(separator))


BOYS = _words(
    "Tom Max Leo Ben Sam Dan Finn Jack Hugo Oscar Adam Felix Pete Nick Luke Owen Theo Ravi Omar Ivan Karl Noah Milo Jonas"
)
GIRLS = _words(
    "Anna Lily Mia Rosa Kate Nina Emma Ella Ruth Vera Lucy Sara Olga Maya Clara Jane Tina Iris Nora Zoe Elsa Dora Alma Hana"
)
FAMILY = ("mom", "dad", "grandma", "grandpa")
JOBS = _words("teacher baker farmer doctor driver painter gardener cook sailor nurse postman miller tailor shepherd")
ANIMALS = _words("cat dog rabbit horse cow duck hen goat frog fox bear mouse bird squirrel owl pony turtle lamb goose")
PET_NAMES = _words(
    "Pip Rusty Biscuit Snow Button Pepper Coco Ginger Spot Muffin Patch Bramble Dusty Pebble Clover Toffee "
    "Smoky Bella Star Hazel Fudge Misty Domino Nutmeg Sunny Acorn Willow Shadow Marble Poppy Sparky Velvet"
)
COLOURS = _words("red blue green yellow white black brown grey pink orange purple golden")
TRAITS = _words("kind brave clever shy lazy curious quiet funny strong gentle stubborn cheerful")
MOODS = _words("happy sad tired proud afraid angry hungry surprised bored glad")
TOYS = _words("ball kite doll boat drum train puzzle robot whistle puppet hoop top")
THINGS = _words(
    "key coin ring lamp book letter map ticket spoon brush basket hat scarf glove watch bell candle stone shell pencil mirror jar"
)
BOXES = _words("box drawer basket bag cupboard chest pot bucket barrel tent shed boot trunk pocket oven cave nest")
FOODS = _words(
    "bread milk cheese apples pears eggs butter honey soup rice carrots cake cookies jam nuts plums beans fish tea potatoes"
)
SNACKS = _words("an apple|a pear|a cookie|a plum|a carrot|a slice of bread|a piece of cheese|a bowl of soup|a bun", "|")
PLACES = _words(
    "park garden school market river forest beach library farm station hill lake bridge zoo bakery meadow attic castle museum field"
)
NUMBERS = _words("one two three four five six seven eight nine ten")
SECRETS = _words(
    "apple river tiger window silver garden rocket candle monkey pepper castle bottle button winter summer orange "
    "purple lemon butter spider dragon pirate island thunder shadow mirror ladder basket carpet hammer guitar violin "
    "trumpet pencil marble feather pillow blanket turtle rabbit parrot penguin camel zebra lion wolf eagle tulip"
)
WEATHER = _words(
    "It was a sunny day.|It was a warm morning.|It was raining.|It was a cold day.|Snow lay on the ground.|"
    "A strong wind was blowing.|The sun was shining.|It was a quiet evening.|The moon was bright that night.",
    "|",
)

# verb -> (past form, objects from the most to the least usual, a reason or setting that fits)
DEEDS: dict[str, tuple[str, tuple[str, ...], str]] = {
    verb: (past, _words(objects, "|"), reason)
    for verb, past, objects, reason in (
        (
            "wash",
            "washed",
            "the frame|the window|the floor|the dishes|the cup|the car|the shirt|the dog|the plate|the carrots",
            "because it was dirty",
        ),
        ("clean", "cleaned", "the kitchen|the room|the table|the stove|the boots|the mirror|the yard", "before lunch"),
        ("cook", "cooked", "the soup|the fish|the rice|the beans|the potatoes|the eggs", "because everyone was hungry"),
        ("bake", "baked", "a cake|the bread|a pie|the cookies|the buns", "for the party"),
        ("read", "read", "a book|a story|the letter|the newspaper|a poem|the map", "by the fire"),
        ("fix", "fixed", "the roof|the chair|the bike|the clock|the fence|the lamp|the door", "because it was broken"),
        ("paint", "painted", "the wall|the fence|the door|the boat|a picture|the chair", "with a big brush"),
        ("carry", "carried", "the bag|the basket|the water|the wood|the box|the ladder", "up the hill"),
        ("open", "opened", "the door|the window|the box|the letter|the gate|the jar", "and looked inside"),
        ("water", "watered", "the flowers|the garden|the roses|the tree|the grass", "because the day was hot"),
        ("cut", "cut", "the bread|the grass|the paper|the cake|the rope|the cheese", "with care"),
        ("sew", "sewed", "a dress|the button|a shirt|the curtain", "with a long needle"),
        ("feed", "fed", "the cat|the hens|the dog|the ducks|the fish|the horse", "in the morning"),
        ("find", "found", "a coin|the key|a shell|the ball|a feather|the hat", "under the bed"),
        ("draw", "drew", "a house|a cat|the sun|a tree|a ship|a horse", "with a red pencil"),
        ("catch", "caught", "the ball|a fish|the bus|a cold|a butterfly", "by the river"),
        ("buy", "bought", "some bread|some milk|a hat|some apples|a new coat", "at the market"),
    )
}
HABITS = {
    "mom": _words("wash wash wash clean read sew water cook"),
    "dad": _words("fix fix paint carry cook wash read"),
    "grandma": _words("bake bake sew cook feed wash"),
    "grandpa": _words("read fix feed water cut catch"),
}
ANIMAL_DEEDS = _words(
    "sat on the mat|ran to the gate|drank the milk|slept by the fire|hid under the bed|ate the grass|jumped over the wall",
    "|",
)

# One word, two meanings: each list of sentences settles one of them.
HOMONYMS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bank": (
        (
            "sat on the bank of the river",
            "caught a fish from the bank",
            "saw a frog on the green bank",
            "pulled the boat up to the bank",
            "found a wet stone on the bank",
        ),
        (
            "put the coins in the bank",
            "took money from the bank",
            "went to the bank to pay for the house",
            "asked the bank for a loan",
            "kept the gold in the bank",
        ),
    ),
    "bat": (
        ("saw a bat fly out of the cave", "heard a bat in the dark attic", "watched the bat hang from the roof"),
        ("hit the ball with a bat", "held the wooden bat with two hands", "broke the bat in the last game"),
    ),
    "ring": (
        ("wore a golden ring", "lost the ring in the grass", "gave a silver ring to the bride"),
        ("heard the bell ring", "let the telephone ring", "made the school bell ring"),
    ),
    "light": (
        ("lit a light in the dark room", "saw a light in the window", "turned off the light at night"),
        ("carried a light bag", "had a coat as light as a feather", "picked up the light box with one hand"),
    ),
}
SENSE_ENDINGS: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bank": (
        ("The water was deep and cold.", "The grass there was wet.", "The ducks swam past."),
        ("The money was safe there.", "The man at the desk counted the coins.", "The door was made of steel."),
    ),
    "bat": (
        ("It had small black wings.", "It slept all day."),
        ("It was a good game.", "The ball flew over the fence."),
    ),
    "ring": (
        ("It was made of gold.", "It was too big for the finger."),
        ("It was very loud.", "All the children ran to the door."),
    ),
    "light": (
        ("Now the room was bright.", "It was dark no more."),
        ("It was not heavy at all.", "It was easy to lift."),
    ),
}
