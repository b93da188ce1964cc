"""`kvlab measure URL`: times an OpenAI-compatible endpoint as a client sees it."""

import argparse
import os
from typing import Any

from kvlab.cli.errors import CommandError


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser(
        "measure", help="time to first token, time per token and gaps of an OpenAI-compatible URL"
    )
    parser.add_argument("url", metavar="URL", help="as the SDK wants it, for example http://127.0.0.1:8000/v1")
    parser.add_argument("--model", help="default: the first model that the endpoint lists")
    parser.add_argument("--prompt", help="what to ask (default: a short story)")
    parser.add_argument("--tokens", type=int, default=64, help="longest answer (default: 64)")
    parser.add_argument("--repeat", type=int, default=5, help="answers, one after the other (default: 5)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Ask, and print a table. The key is read from OPENAI_API_KEY; a local server takes any."""
    from kvlab import endpoint
    from kvlab.providers.loopback import direct_client, is_loopback

    if options.repeat < 1 or options.tokens < 1:
        raise CommandError("--repeat and --tokens must be at least 1.")
    prompt = endpoint.PROMPT if options.prompt is None else options.prompt
    if not prompt.strip() or not _is_utf8(prompt):
        raise CommandError("--prompt needs a question in valid UTF-8: write one, or leave --prompt out.")
    key = os.environ.get("OPENAI_API_KEY", "").strip() or "local"
    if not key.isascii() or not key.isprintable():
        raise CommandError("OPENAI_API_KEY holds a line break or another character that no key has: correct it.")
    if not options.url.startswith(("http://", "https://")):
        raise CommandError(f"{options.url!r:.80} is not an address: it must begin with http:// or https://.")
    try:
        direct = is_loopback(options.url)
    except ValueError as error:
        raise CommandError(f"{error}.") from error
    try:
        import openai
    except ModuleNotFoundError:
        raise CommandError("the OpenAI SDK is not installed: install the extra `api` of this course.") from None
    settings = {"base_url": options.url, "api_key": key, "max_retries": 0}
    client = direct_client(openai.OpenAI, openai, **settings) if direct else openai.OpenAI(**settings)
    try:
        model, real = (options.model, options.model) if options.model else endpoint.first_model(client)
        name = model if model == real else f"{model}, for which kvlab's local server runs {real!r}"
        print(f"{options.url}, model {name}, answers of at most {options.tokens} tokens at temperature 0")
        answers = [endpoint.ask(client, model, prompt, options.tokens) for _ in range(options.repeat)]
    except openai.APIConnectionError as error:
        raise CommandError(
            f"nothing answers at {options.url}: start a server there, or correct the address."
        ) from error
    except openai.NotFoundError as error:
        hint = "" if options.url.rstrip("/").endswith("/v1") else f" Try {options.url.rstrip('/')}/v1."
        raise CommandError(f"{options.url} refused: {str(error)[:200]}.{hint}") from error
    except (openai.APIError, ValueError) as error:
        raise CommandError(f"{options.url} refused: {str(error)[:200]}.") from error
    print(endpoint.report(answers))
    return 0


def _is_utf8(text: str) -> bool:
    """Whether the text can be sent: bytes of the command line that are no UTF-8 arrive as halves of characters."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
