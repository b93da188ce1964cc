"""Addresses of this machine, and HTTP clients that reach them directly, whatever proxy the environment names."""

from __future__ import annotations

import ipaddress
import re
import ssl
import weakref
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

LONGEST = 2000  # characters of an address


def host_of(url: str) -> str:
    """The host of an http or https address. Raises ValueError for anything else."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname or "", parts.port  # a port that is no port raises
    except ValueError:
        host = ""
    plain = len(url) <= LONGEST and url.isprintable() and " " not in url
    if not plain or not url.startswith(("http://", "https://")) or not re.fullmatch(r"[A-Za-z0-9._:-]+", host):
        raise ValueError(f"{url!r:.80} is not an address: write it as http://host:port/v1")
    return host


def is_loopback(url: str) -> bool:
    """Whether an address names this machine: localhost, 127.0.0.0/8 or ::1. Raises ValueError for what is no address."""
    host = host_of(url)
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def direct_client(make: Any, sdk: ModuleType, **options: Any) -> Any:
    """make(**options), a client of the SDK `sdk`, that ignores proxies: a proxy can't reach this machine's loopback,
    and would see every prompt. Its connections close with it.
    """
    http = sdk.DefaultHttpxClient(trust_env=False, verify=_certificates(str(options.get("base_url", ""))))
    client = make(http_client=http, **options)
    weakref.finalize(client, http.close)
    return client


def _certificates(url: str) -> ssl.SSLContext | bool:
    """What a client of this address trusts: nobody where no certificate is ever shown, since reading the usual list
    takes longer than a request. A redirect to https is refused then.
    """
    return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) if url.startswith("http://") else True
