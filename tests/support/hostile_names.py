"""Names that a registration may have and that try to be more than a name."""

HOSTILE = {
    "script": '"><script>window.hacked=1</script>',
    "image": "<img src=x onerror=window.hacked=1>",
    "single quotes": "' onmouseover='window.hacked=1' x='",
    "end of title": "</title></table></main><h1>gone</h1>",
    "template": "{{7*7}}{% raw %}${7*7}#{7*7}",
    "entity": "&lt;b&gt;&amp;",
    "url": "javascript:window.hacked=1",
    "comment": "<!-- <style>*{display:none}</style>",
    "right to left": "evil\u202etxt.exe\u2066",
    "invisible": "in\u200bvis\u2060ible\ufeff",
    "emoji": "\U0001f680" * 256,
    "long": "m" * 1024,
    "backslash": "a\\u202e\\b",
    "cdata": "<![CDATA[x]]>",
}
"""By what they try; each a legal model name."""
