"""A figure as a PNG, and as an <img> that says in words what it shows. No matplotlib is needed to import this."""

from __future__ import annotations

import base64
import html
import io
import struct
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure


# zlib's levels above 3 take twice as long and save less than a tenth of such a picture.
COMPRESSION = {"compress_level": 3}


def png(figure: Figure) -> bytes:
    """The figure as a PNG, at its own size."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    return printed(FigureCanvasAgg(figure))


def printed(canvas: FigureCanvasAgg) -> bytes:
    """A canvas's figure as a PNG. A character that the font lacks is drawn as a box, without a warning."""
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph")
        canvas.print_png(buffer, pil_kwargs=COMPRESSION)  # as savefig does, which walks through the figure twice
    return buffer.getvalue()


def as_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def image_html(picture: bytes, alt: str) -> str:
    """An <img> that holds the PNG. It states its size, so that the page does not jump while a new one is decoded."""
    width, height = struct.unpack(">II", picture[16:24])  # the PNG's header (IHDR), in pixels
    return (
        f'<img alt="{html.escape(alt)}" width="{width}" height="{height}" style="max-width:100%;height:auto"'
        f' src="data:image/png;base64,{as_base64(picture)}">'
    )
