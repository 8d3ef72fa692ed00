"""Which chapters look at downloaded data: those whose code, or what it imports, asks
for a registered file."""

import ast
from pathlib import Path

import nbformat
from process import module_of, split_directives, statements

ROOT = Path(__file__).resolve().parent.parent
REGISTRY = "privglasso.data_sets.dataset"
ASKING = {(REGISTRY, name) for name in ("fetch_file", "load_if_here", "data_cache")}


def names_used(tree):
    "The names that stand in a piece of code."
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def imported(tree, package):
    "{name: (module, name there)} of what a piece of code imports from the package."
    found = {}
    for node in ast.walk(tree):
        if not isinstance(node, ast.ImportFrom):
            continue
        above = package[: len(package) - node.level + 1] if node.level else []
        module = ".".join([*above, *filter(None, [node.module])])
        if module.partition(".")[0] == "privglasso":
            for each in node.names:
                found[each.asname or each.name] = module, each.name
    return found


def made_by(statement):
    "The names that a statement of a module makes."
    if isinstance(statement, ast.FunctionDef | ast.ClassDef):
        return {statement.name}
    stored = (node for node in ast.walk(statement) if isinstance(node, ast.Name))
    return {node.id for node in stored if isinstance(node.ctx, ast.Store)}


def definitions():
    "{(module, name): the (module, name) it is made from} of the package."
    found = {}
    for path in (ROOT / "privglasso").rglob("[!_]*.py"):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        *package, last = path.relative_to(ROOT).with_suffix("").parts
        module, elsewhere = ".".join([*package, last]), imported(tree, package)
        for statement in tree.body:
            parts = {elsewhere.get(n, (module, n)) for n in names_used(statement)}
            for name in made_by(statement):
                found.setdefault((module, name), set()).update(parts)
    return found


def asking_for_data():
    "Every (module, name) of the package that leads to a registered file."
    made, found = definitions(), set(ASKING)
    while more := {key for key, parts in made.items() if parts & found} - found:
        found |= more
    return found


def parts_of(path):
    "Every (module, name) that a chapter imports, or makes in the module it exports."
    notebook = nbformat.read(path, as_version=4)
    cells = (cell.source for cell in notebook.cells if cell.cell_type == "code")
    code = [each for cell in cells for each in statements(split_directives(cell)[1])]
    module = f"privglasso.{module_of(notebook)}"
    made = {(module, name) for statement in code for name in made_by(statement)}
    return made | set(imported(ast.Module(code, []), []).values())


def data_chapters():
    """The chapters that look at downloaded data, as paths.

    Returns
    -------
    list of Path
    """
    asking, chapters = asking_for_data(), sorted((ROOT / "nbs").rglob("[!.]*.ipynb"))
    return [path for path in chapters if asking & parts_of(path)]


if __name__ == "__main__":  # as `docs/stale.py` takes them
    print(*(path.relative_to(ROOT).as_posix() for path in data_chapters()))
