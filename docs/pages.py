"""Pages of the site that no notebook holds, composed of notebooks and package.

Routes with times, the claims with links to the cells that decide them, the result
files with the commands that make them, the gallery, and the index of the reference.
Everything is counted or looked up when the site is built; nothing here is kept up to
date by hand but the order of the routes.
"""

import csv
import importlib
import inspect
import json
import math
import re
from html import escape
from html.parser import HTMLParser

import process

# how fast one reads: words and open lines of code a minute, seconds for a figure
WORDS, LINES, SECONDS = 200, 15, 20
FOLDED = {"hide-input", "hide-cell", "remove-input"}

# door → (who stands there, what they come for, the chapters of their route in order)
ROUTES = {
    "publisher": (
        "The publisher",
        "I hold a table of people and want to publish something about it",
        [
            "0_start/01_story",
            "0_start/03_the_promise",
            "0_start/02_your_own_csv",
            "0_start/09_tasks",
            "0_start/06_advice",
            "0_start/07_officer",
            "0_start/05_hospital",
            "1_privacy/08_budget",
        ],
    ),
    "analyst": (
        "The analyst",
        "I was given a release and want the graph, and to know which edges I can trust",
        [
            "0_start/01_story",
            "0_start/08_first_hour",
            "2_publish/02_noise_correction",
            "3_recover/02_existence",
            "3_recover/08_estimators",
            "3_recover/09_selection",
            "6_experiments/04_frontier",
        ],
    ),
    "student": (
        "The student",
        "I want to understand why it works, from coin tosses to lower bounds",
        [
            "0_start/08_first_hour",
            "8_course/01_reconstruction",
            "8_course/02_two_worlds",
            "8_course/03_graphs",
            "8_course/04_noise",
            "8_course/05_budgets",
            "8_course/06_trust",
            "8_course/07_signals",
            "8_course/08_reading",
        ],
    ),
    "critic": (
        "The critic",
        "I do not believe it, and want to see each statement fail or hold",
        [
            "5_papers/01_claim",
            "5_papers/02_guo",
            "5_papers/09_repairs",
            "1_privacy/09_audit",
            "6_experiments/11_table1",
            "6_experiments/31_what_came_back",
            "reference/03_ledger",
        ],
    ),
    "hurried": (
        "The shortest path",
        "I have an afternoon, and want the theory from the promise to its limits",
        [
            "0_start/01_story",
            "0_start/03_the_promise",
            "8_course/01_reconstruction",
            "8_course/03_graphs",
            "8_course/04_noise",
            "3_recover/08_estimators",
            "6_experiments/04_frontier",
        ],
    ),
}
GREEK = dict(
    zip(
        "alpha beta gamma delta epsilon varepsilon lambda mu sigma rho tau theta phi"
        " kappa omega nu Delta Sigma Theta Omega Phi Lambda sqrt infty le ge"
        " times".split(),
        "αβγδεελμσρτθφκωνΔΣΘΩΦΛ√∞≤≥×",
        strict=True,
    )
)


def plain(text):
    "Markdown with formulas as a line of text."
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\\([A-Za-z]+)", lambda found: GREEK.get(found[1], found[1]), text)
    return " ".join(re.sub(r"[$`*{}]|\\[,;!]", "", text).split())


def title_of(notebook):
    "A chapter's title as text."
    return plain(re.match(r"# (.+)", notebook.cells[0].source)[1])


def subtitle_of(notebook):
    "The line below the title, as Markdown; empty if there is none."
    found = re.match(r"# .+\n+> (.+)", notebook.cells[0].source)
    return found[1] if found else ""


def minutes(notebook):
    """How long a processed chapter takes to read: its words, its open code, its
    figures."""
    words = lines = figures = 0
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            text = re.sub(r"```.*?```|<[^>]*>", " ", cell.source, flags=re.DOTALL)
            words += len(text.split())
            continue
        figures += process.has_figure(cell)
        if not FOLDED & set(cell.metadata.get("tags", [])):
            lines += cell.source.count("\n") + 1
    return max(1, math.ceil(words / WORDS + lines / LINES + figures * SECONDS / 60))


def hours(total):
    "Minutes in words, to the nearest quarter of an hour above 45."
    if total <= 45:
        return f"{total} minutes"
    quarters = round(total / 15)
    whole, part = quarters // 4, ["", " ¼", " ½", " ¾"][quarters % 4]
    count = f"{whole or ''}{part}".strip()
    return f"{count} hour{'s' if total > 67 else ''}"


def routes_page(chapters):
    """The routes as Markdown.

    Parameters
    ----------
    chapters : dict
        Page -> (title, subtitle, minutes).
    """
    text = [
        "# Five routes\n\n{.subtitle}\n> One for each door, and the shortest one, with"
        " the time that each takes\n\nThe times are counted from the pages:"
        f" {WORDS} words and {LINES} lines of open code a minute, {SECONDS} seconds"
        " for a figure. Running the cells, changing them and doing the exercises"
        " takes about as long again.\n"
    ]
    for door, (name, wish, pages) in ROUTES.items():
        pages = [page for page in pages if page in chapters]
        total = sum(chapters[page][2] for page in pages)
        text.append(f"({door})=\n## {name}: {hours(total)}\n\n*{wish}.*\n")
        for k, page in enumerate(pages, 1):
            title, subtitle, needed = chapters[page]
            text.append(f"{k}. [{title}]({page}.ipynb), {needed} min: {subtitle}")
        text.append("")
    return "\n".join(text)


# claims


def cell_that_defines(notebook, name):
    "The id of the cell at whose top level a function is defined, or None."
    for cell in notebook.cells:
        if cell.cell_type == "code":
            code = process.split_directives(cell.source)[1]
            if name in process.defined_names(code):
                return cell.id
    return None


def decided_in(claims, notebooks):
    """{number of a claim: (page, id of the cell that decides it)}.

    Parameters
    ----------
    claims : sequence of Claim
    notebooks : dict
        Module such as papers.guo -> (page, notebook as it stands in nbs).
    """
    found = {}
    for k, claim in enumerate(claims):
        check = getattr(claim.check, "func", claim.check)  # of a partial, what it calls
        page, notebook = notebooks[check.__module__.removeprefix("privglasso.")]
        cell = cell_that_defines(notebook, check.__name__)
        if cell is None:
            raise ValueError(f"no cell of {page} defines {check.__name__}")
        found[k] = page, cell
    return found


def claims_page(claims, places):
    "Every claim with its verdict, which links to the cell that decides it."
    count = {v: sum(c.verdict == v for c in claims) for v in ("FALSE", "TRUE with fix")}
    text = [
        "# Claims and verdicts\n\n{.subtitle}\n> Each statement that was checked, and"
        f" the cell that decides it\n\n{len(claims)} statements: {count['FALSE']} are"
        f" false, {count['TRUE with fix']} need a fix, the others hold. A verdict leads"
        " to the cell that computes both sides; it is run again by every test."
        " `privglasso claims` prints the same list with the numbers, and"
        " [All claims](5_papers/08_claims.ipynb) says what is counted."
    ]
    for paper in dict.fromkeys(claim.paper for claim in claims):
        text.append(f"\n## {paper}\n\n```{{raw}} html\n<table class='claims'><tbody>")
        for k, claim in enumerate(claims):
            if claim.paper == paper:
                page, cell = places[k]
                verdict = claim.verdict.split()[-1].lower()
                text.append(
                    f"<tr><td><b>{escape(claim.name)}</b><br><small>"
                    f"{escape(claim.source)}</small></td><td><p>"
                    f"{escape(claim.statement)}</p><p class='counter'>"
                    f"{escape(claim.example)}</p><p class='instead'>"
                    f"{escape(claim.corrected)}</p></td><td>"
                    f"<a class='verdict {verdict}' href='{page}.html#{anchor(cell)}'>"
                    f"{claim.verdict}</a></td></tr>"
                )
        text.append("</tbody></table>\n```")
    return "\n".join(text)


def anchor(cell):
    "The HTML id of a notebook's cell."
    return f"at-{cell}"


# results


def preview(path, rows=5, columns=8):
    "The number of rows of a CSV file and its first ones as an HTML table."
    with path.open(newline="", encoding="utf-8") as file:
        table = list(csv.reader(file))
    head, body = table[0], table[1:]
    more = "<th>…</th>" if len(head) > columns else ""
    html = "".join(f"<th>{escape(name)}</th>" for name in head[:columns]) + more
    lines = "".join(
        "<tr>"
        + "".join(f"<td>{escape(short(x))}</td>" for x in row[:columns])
        + "</tr>"
        for row in body[:rows]
    )
    return len(
        body
    ), f"<table><thead><tr>{html}</tr></thead><tbody>{lines}</tbody></table>"


def short(text):
    "A number in four digits, any other text as it is."
    try:
        value = float(text)
    except ValueError:
        return text
    return text if len(text) <= 6 else f"{value:.4g}"


def results_page(folder, modules, notebooks):
    """The result files, the commands that make them, and the chapters that print them.

    Parameters
    ----------
    folder : Path
        data/results, with its manifest.
    modules : dict
        Name of a file without ending -> module that computes it.
    notebooks : dict
        Module -> (page, notebook).
    """
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    text = [
        "# Results\n\n{.subtitle}\n> Every number that the book prints from a long"
        " computation, and the command that makes it anew\n\nThe files are in"
        " `data/results`. Each command resumes where it was stopped; with"
        " `PROFILE=quick` it is a rehearsal of a minute or so. The seconds are those of"
        " one core."
    ]
    for path in sorted(folder.glob("*.csv")):
        name, made = path.stem, manifest.get(path.stem, {})
        rows, table = preview(path)
        page, notebook = notebooks[modules[name]]
        command = (
            "make bench"
            if name.startswith("benchmark_")
            else f"make reproduce ONLY={name}"
        )
        seconds = made.get("seconds")
        cost = f", {seconds:,.0f} s" if seconds and seconds >= 1 else ""
        text.append(
            f"\n## {name}\n\nIn [{title_of(notebook)}]({page}.ipynb);"
            f" {rows} rows{cost}; [the file](files/data/results/{path.name})."
            f"\n\n```sh\n{command}\n```\n\n"
            f"```{{raw}} html\n<details class='rows'><summary>first rows</summary><div"
            f" class='scroll'>{table}</div></details>\n```"
        )
    return "\n".join(text)


def study_modules():
    "{name of a result file: module that computes it}."
    registry = importlib.import_module("privglasso.experiments.studies")
    modules = {
        study.name: study.run.__module__.removeprefix("privglasso.")
        for study in registry.STUDIES
    }
    measuring = importlib.import_module("privglasso.experiments.measuring")
    for chapter in measuring.CHAPTERS:
        name = f"experiments.{chapter}"
        parts = importlib.import_module(f"privglasso.{name}").PARTS
        modules |= {study.name: name for study in parts.values()}
    return modules


# reference


def one_line(thing):
    "What a docstring says first, as Markdown."
    text = inspect.getdoc(thing) or ""
    return " ".join(text.split("\n\n")[0].split())


def has_example(thing):
    "Whether a docstring shows what to type."
    return "\nExamples\n" in (inspect.getdoc(thing) or "")


def used_in(names, notebooks):
    """{name: the first page, in the order of the book, whose open code uses it}.

    Parameters
    ----------
    names : iterable of str
    notebooks : dict
        Page -> processed notebook.
    """
    found = {}
    pages = sorted(notebooks, key=lambda page: (page == "index", page))
    for page in pages:
        code = "\n".join(
            cell.source
            for cell in notebooks[page].cells
            if cell.cell_type == "code"
            and "exported" not in cell.metadata.get("tags", [])
        )
        words = set(re.findall(r"\w+", code))
        for name in names:
            if name in words:
                found.setdefault(name, page)
    return found


JOBS = {
    "Publish": ("privacy", "publish"),
    "Plan and recover": ("recover",),
    "Compare and draw": ("base",),
    "Data": ("data_sets",),
    "Papers and experiments": ("papers", "experiments"),
}


def public_table(package, titles, notebooks):
    """The names that a user types, by job: what each does, and where it is used.

    Parameters
    ----------
    package : module
        privglasso.
    titles : dict
        Page -> title.
    notebooks : dict
        Page -> processed notebook.
    """
    things = {name: getattr(package, name) for name in package.__all__}
    home = {name: package._HOME[name] for name in things}
    used = used_in(things, notebooks)
    text = []
    for job, folders in JOBS.items():
        text.append(
            f"\n## {job}\n\n| name | what it does | see it used |\n|---|---|---|"
        )
        for name, module in package._HOME.items():
            if module.partition(".")[0] not in folders:
                continue
            page = used.get(name)
            where = f"[{titles[page]}](../{page}.ipynb)" if page else ""
            role = f"{{py:obj}}`{name} <privglasso.{home[name]}.{name}>`"
            said = one_line(things[name]).replace("|", "\\|")
            text.append(f"| {role} | {said} | {where} |")
    return "\n".join(text)


def rows_of(names, said):
    "Lines of a table: a name and what it does."
    bar = "\\|"
    return "\n".join(
        f"| {name} | {text.replace('|', bar)} |"
        for name, text in zip(names, said, strict=True)
    )


def exported_symbols():
    """nbdev's index of exported names. A method that a public class has from a private
    base is one of its own, as it is on the module's page."""
    index = importlib.import_module("privglasso._modidx").d["syms"]
    symbols = {title: dict(names) for title, names in index.items()}
    for title, names in symbols.items():
        module = importlib.import_module(title)
        for name in module.__all__:
            for base in private_bases(getattr(module, name), title):
                place = f"{title}.{base.__name__}."
                for full, where in index[title].items():
                    if full.startswith(place):
                        own = f"{title}.{name}.{full.removeprefix(place)}"
                        names.setdefault(own, where)
    return symbols


def private_bases(kind, title):
    "The bases of a module's class that are private to the module."
    if not inspect.isclass(kind) or kind.__module__ != title:
        return []
    bases = [base for base in kind.__mro__ if base.__module__ == title]
    return [base for base in bases if base.__name__.startswith("_")]


def module_page(name, chapter, excluded, foreign):
    "One module's reference: its purpose, its names in a line each, then all of them."
    title = f"privglasso.{name}"
    module = importlib.import_module(title)
    own = [x for x in module.__all__ if x not in excluded and not x.startswith("_")]
    things = [getattr(module, each) for each in own]
    said = [one_line(x) if callable(x) else f"a {type(x).__name__}" for x in things]
    links = [f"{{py:obj}}`{each} <{title}.{each}>`" for each in own]
    head = "| name | what it does |\n|---|---|\n" if own else ""
    return (
        f"# {title}\n\n{{.subtitle}}\n> {one_line(module)}\n\nDerived, tested and"
        f" drawn in the chapter [{chapter[1]}](../{chapter[0]}.ipynb).\n\n{head}"
        f"{rows_of(links, said)}\n\n```{{rst}}\n.. automodule:: {title}\n   :members:\n"
        f"   :inherited-members: {', '.join(foreign)}\n"
        f"   :exclude-members: {', '.join(excluded)}\n   :member-order: bysource\n```\n"
    )


def package_page(name, modules):
    "The modules of a package in a line each."
    said = [one_line(importlib.import_module(f"privglasso.{x}")) for x in modules]
    links = [f"[{module}]({module}.md)" for module in modules]
    rows = rows_of(links, said)
    return f"# privglasso.{name}\n\n| module | what it is for |\n|---|---|\n{rows}\n"


def api_index(packages, table):
    "The front page of the reference."
    short = {
        name: ", ".join(f"[{x.partition('.')[2] or x}]({x}.md)" for x in modules)
        for name, modules in packages.items()
    }
    rows = rows_of(
        [f"[privglasso.{name}]({name}.md)" for name in short], short.values()
    )
    return (
        "# API reference\n\n{.subtitle}\n> The names a user types, in a line each;"
        " below them every module\n\n`import privglasso as pg` offers the names of the"
        " first tables as `pg.name`; each page shows parameters, results and examples."
        " A module and the chapter it is exported from have the same name."
        f"\n{table}\n\n## All modules\n\n| package | modules |\n|---|---|\n{rows}\n"
    )


# gallery


class Figures(HTMLParser):
    "(address, alternative text, caption, anchor) of the figures of a page."

    def __init__(self, text):
        super().__init__()
        self.found, self.title, self._drawn = [], "", 0
        self._cell, self._last, self._caption, self._head = False, "", None, None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        "Remember where we are, and keep a figure."
        attrs = dict(attrs)
        if attrs.get("id"):
            self._last = attrs["id"]
        if tag == "img" and "_images/" in attrs.get("src", ""):
            self.found.append([attrs["src"], attrs.get("alt", ""), "", self._last])
        if tag == "figure":  # a slider's caption is not that of the image before it
            self._drawn = len(self.found)
        if tag == "figcaption":
            self._caption = []
        if tag == "h1":
            self._head = []

    def handle_endtag(self, tag):
        "A caption ends."
        if tag == "figcaption" and self._caption is not None:
            words = "".join(self._caption).replace("¶", "")
            if len(self.found) > self._drawn:
                self.found[-1][2] = " ".join(words.split())
            self._caption = None
        if tag == "h1" and self._head is not None:
            self.title = " ".join("".join(self._head).replace("¶", "").split())
            self._head = None

    def handle_data(self, data):
        "The words of a caption or of the title."
        for words in (self._caption, self._head):
            if words is not None:
                words.append(data)


GALLERY = """# Gallery

{.subtitle}
> Every figure of the book; each leads to where it is drawn

```{raw} html
<div id='gallery'></div>
```
"""


def fill_gallery(html, pages):
    """Write the figures of the built `pages` into the gallery's page.

    Parameters
    ----------
    html : Path
        The folder of the site.
    pages : iterable of (str, list of str)
        Title of a part, and its pages.
    """
    blocks = []
    for part, names in pages:
        items = []
        for name in names:
            page = Figures((html / f"{name}.html").read_text(encoding="utf-8"))
            for source, alt, caption, near in page.found:
                file = source.rpartition("_images/")[2]
                shown = plain(re.sub(r"\\[()\[\]]", "", caption or alt))
                items.append(
                    f"<a href='{name}.html#{near}'><figure><img loading='lazy'"
                    f" src='_images/{file}' alt=\"{escape(alt)}\"><figcaption>"
                    f"{escape(shown)} <small>{escape(page.title)}</small>"
                    "</figcaption></figure></a>"
                )
        if items:
            blocks.append(
                f"<h2>{escape(part)}</h2><div class='tiles'>{''.join(items)}</div>"
            )
    path = html / "gallery.html"
    text = path.read_text(encoding="utf-8")
    shell = "<div id='gallery'></div>"
    if shell not in text:
        raise ValueError("the gallery's page has lost its place for figures")
    path.write_text(
        text.replace(shell, f"<div id='gallery'>{''.join(blocks)}</div>"),
        encoding="utf-8",
    )


def read_packages(modules):
    "{package: its modules}, in the order of the book."
    packages = {}
    for module in modules:
        packages.setdefault(module.partition(".")[0], []).append(module)
    return packages
