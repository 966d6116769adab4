"""Names that strangers choose, made safe to be read by people.

Characters that steer a terminal, change the direction of writing or cannot be
seen are shown as escapes, so that two names that look the same are the same.
What a terminal or a document does with the rest is the matter of whoever shows it.
"""

import unicodedata

_UNSAFE = {"Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp"}


def printable(text: str) -> str:
    """The text on one line, with every control, format and unassigned character escaped.

    A backslash is doubled, so that an escape is never the text's own.
    """
    if text.isascii() and text.isprintable() and "\\" not in text:
        return text
    return "".join(map(_printable_character, text))


def _printable_character(character: str) -> str:
    if character == "\\":
        return "\\\\"
    if unicodedata.category(character) not in _UNSAFE:
        return character
    code = ord(character)
    if code <= 0xFF:  # noqa: PLR2004 - what two digits hold
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"  # noqa: PLR2004 - as above
