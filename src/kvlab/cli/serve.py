"""`kvlab serve`: a local server that the SDKs of Anthropic and OpenAI can talk to."""

import argparse
from typing import Any

from kvlab.cli.errors import CommandError


def add_parser(commands: Any) -> None:
    """Add this command to the parser."""
    parser = commands.add_parser("serve", help="answer the SDKs of Anthropic and OpenAI from this machine")
    parser.add_argument("--model", default="primer", help="a model that kvlab can load (default: primer)")
    parser.add_argument("--port", type=int, default=None, help="port to listen on (default: a free one)")
    parser.set_defaults(execute=execute)


def execute(options: argparse.Namespace) -> int:
    """Run the command until Ctrl-C."""
    from kvlab.providers.server import LocalServer

    try:
        server = LocalServer(options.model, options.port)
    except (ImportError, ValueError) as error:
        raise CommandError(f"{error}.") from error
    with server:
        print(f"The model {options.model} answers at {server.url} until you press Ctrl-C.")
        print(f'  anthropic.Anthropic(base_url="{server.url}", api_key="local")')
        print(f'  openai.OpenAI(base_url="{server.url}/v1", api_key="local")', flush=True)
        server.wait()
    return 0
