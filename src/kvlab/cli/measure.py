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

    if options.repeat < 1 or options.tokens < 1:
        raise CommandError("--repeat and --tokens must be at least 1.")
    if not options.url.startswith(("http://", "https://")):
        raise CommandError(f"{options.url!r:.80} is not an address: it must begin with http:// or https://.")
    try:
        import openai
    except ModuleNotFoundError:
        raise CommandError("the OpenAI SDK is not installed: install the extra `api` of this course.") from None
    client = openai.OpenAI(base_url=options.url, api_key=os.environ.get("OPENAI_API_KEY", "local"), max_retries=0)
    try:
        model = options.model or endpoint.first_model(client)
        print(f"{options.url}, model {model}, answers of at most {options.tokens} tokens at temperature 0")
        prompt = options.prompt or endpoint.PROMPT
        answers = [endpoint.ask(client, model, prompt, options.tokens) for _ in range(options.repeat)]
    except openai.APIConnectionError as error:
        raise CommandError(
            f"nothing answers at {options.url}: start a server there, or correct the address."
        ) from error
    except (openai.APIError, ValueError) as error:
        raise CommandError(f"{options.url} refused: {str(error)[:200]}.") from error
    print(endpoint.report(answers))
    return 0
