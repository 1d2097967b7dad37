"""The checks of OHDSI's Data Quality Dashboard on DuckDB: its own SQL and thresholds, rendered and translated here.

The dashboard is R and Java; its checks are templates of SqlRender for SQL Server, one file per kind of check, and
tables that say which field is asked what. The folder of its sources (or its `inst` folder) is given by the user.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

Row = dict[str, str]
#: Answers of a check: it failed, it passed, it does not apply, or it could not be run.
FAILED, PASSED, NOT_APPLICABLE, ERROR = "failed", "passed", "not applicable", "error"
_TYPES = {"integer": "BIGINT", "bigint": "BIGINT", "float": "DOUBLE", "date": "DATE", "datetime": "TIMESTAMP"}
_LEVELS = {"TABLE": "Table_Level", "FIELD": "Field_Level", "CONCEPT": "Concept_Level"}
#: Checks whose table or field being there is what they ask.
_EXISTENCE = ("cdmTable", "cdmField")


def verdicts(folder: Path) -> dict[str, Any]:
    """Checks by answer, the share of applicable checks that failed, and the worst of these by name."""
    import duckdb
    from given import content

    root = Path(content(folder / "task.json")["dqd"])
    root = root / "inst" if (root / "inst").is_dir() else root
    database = duckdb.connect()
    load(database, folder / "subject", rows_of(root / "csv" / "OMOP_CDMv5.4_Field_Level.csv"))
    answers: dict[str, list[str]] = {name: [] for name in (FAILED, PASSED, NOT_APPLICABLE, ERROR)}
    for check in rows_of(root / "csv" / "OMOP_CDMv5.4_Check_Descriptions.csv"):
        template = (root / "sql" / "sql_server" / check["sqlFile"]).read_text(encoding="utf-8")
        for row in rows_of(root / "csv" / f"OMOP_CDMv5.4_{_LEVELS[check['checkLevel']]}.csv"):
            if holds(check["evaluationFilter"], row):
                answers[answer(database, check["checkName"], template, row)].append(check["checkName"])
    applicable = len(answers[FAILED]) + len(answers[PASSED]) + len(answers[ERROR])
    counts = {f"checks {name}": len(names) for name, names in answers.items()}
    kinds = sorted(set(answers[FAILED]), key=answers[FAILED].count, reverse=True)
    failed = {f"failed: {name}": answers[FAILED].count(name) for name in kinds}
    counts["of the passed, that a table or field is there"] = sum(name in _EXISTENCE for name in answers[PASSED])
    return {**counts, "share failed": len(answers[FAILED]) / max(applicable, 1), **failed}


def version(folder: Path) -> str:
    """The version of the dashboard, as its sources say; `unknown` where they do not."""
    from given import content

    about = Path(content(folder / "task.json")["dqd"]) / "DESCRIPTION"
    words = about.read_text(encoding="utf-8").splitlines() if about.is_file() else []
    return next((line.split(":")[1].strip() for line in words if line.startswith("Version:")), "unknown")


def rows_of(path: Path) -> list[Row]:
    """The rows of a table of checks."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


def load(database: Any, folder: Path, fields: list[Row]) -> None:
    """Every table of the CDM, those without a CSV file empty; one with a file has the columns of the file alone."""
    tables: dict[str, dict[str, str]] = {}
    for field in fields:
        kind = _TYPES.get(field["cdmDatatype"].lower(), "VARCHAR")
        tables.setdefault(field["cdmTableName"].lower(), {})[field["cdmFieldName"].lower()] = kind
    database.execute("CREATE SCHEMA cdm")
    database.execute("CREATE MACRO isnumeric(x) AS CASE WHEN TRY_CAST(x AS DOUBLE) IS NULL THEN 0 ELSE 1 END")
    database.execute("CREATE MACRO to_day(x) AS CAST(strptime(x, '%Y%m%d') AS DATE)")
    for name in sorted({*tables, *(path.stem for path in folder.glob("*.csv"))}):
        path, types = folder / f"{name}.csv", tables.get(name, {})
        if path.is_file():
            with path.open(encoding="utf-8", newline="") as file:
                types = {column: types.get(column, "VARCHAR") for column in next(csv.reader(file))}
        columns = ", ".join(f'"{column}" {kind}' for column, kind in types.items())
        database.execute(f'CREATE TABLE cdm."{name}" ({columns})')
        if path.is_file():
            source = f"read_csv('{path}', header = true, all_varchar = true)"
            database.execute(f'INSERT INTO cdm."{name}" BY NAME SELECT * FROM {source}')


def holds(condition: str, row: Row) -> bool:
    """Whether a row is asked: conditions are comparisons of a column with a word, joined by &.

    >>> holds("isForeignKey=='Yes' & fkDomain!= ''", {"isForeignKey": "Yes", "fkDomain": ""})
    False
    """
    for part in condition.split("&"):
        found = re.fullmatch(r"\s*(\w+)\s*(==|!=)\s*'(.*)'\s*", part)
        if found is None:
            raise ValueError(f"a condition of another form: {condition}")
        name, sign, word = found.groups()
        value = row.get(name) or ""
        if (value == word) != (sign == "=="):
            return False
    return True


def answer(database: Any, name: str, template: str, row: Row) -> str:
    """What one check says: beyond its threshold (in percent) it failed, over no rows it does not apply."""
    import duckdb

    known = "SELECT 1 FROM information_schema.columns WHERE table_name = ? AND column_name = ?"
    field = (row.get("cdmTableName", "").lower(), row.get("cdmFieldName", "").lower())
    if field[1] and not database.execute(known, field).fetchall():
        return FAILED if name in _EXISTENCE else NOT_APPLICABLE
    parameters = {key: value or "" for key, value in row.items() if key}
    parameters |= {"schema": "cdm", "cdmDatabaseSchema": "cdm", "vocabDatabaseSchema": "cdm", "cohort": "FALSE"}
    parameters |= {"cohortDefinitionId": "0", "cohortDatabaseSchema": "cdm", "cohortTableName": "cohort"}
    try:
        violated, share, total = database.execute(translated(rendered(template, parameters))).fetchone()
    except (duckdb.Error, ValueError):
        return ERROR
    if not total and name not in _EXISTENCE:
        return NOT_APPLICABLE
    threshold = row.get(f"{name}Threshold") or ""
    if not threshold or threshold == "NA":
        return FAILED if violated else PASSED
    return FAILED if 100 * (share or 0) > float(threshold) else PASSED


def rendered(template: str, parameters: dict[str, str]) -> str:
    """A template of SqlRender with its parameters put in and its conditions decided.

    >>> rendered("SELECT {@a == 'x'}?{1}:{2} FROM @schema.t", {"a": "x", "schema": "cdm"})
    'SELECT 1 FROM cdm.t'
    """
    text = re.sub(r"/\*.*?\*/", "", template, flags=re.S)
    text = re.sub(r"\{DEFAULT[^}]*\}", "", text)
    for name in sorted(parameters, key=len, reverse=True):
        # A backslash in a value is no reference to a group.
        text = re.sub(f"@{name}(?![A-Za-z0-9_])", parameters[name].replace("\\", r"\\"), text)
    while (begin := _condition(text)) is not None:
        text = _decided(text, begin)
    return text


def _condition(text: str) -> int | None:
    """Where the last condition begins: what stands inside others comes first."""
    places = [found.start() for found in re.finditer(r"\{[^{}]*\}\s*\?\s*\{", text)]
    return places[-1] if places else None


def _decided(text: str, begin: int) -> str:
    """The text with one condition replaced by the branch that holds."""
    condition_end = _close(text, begin)
    yes_begin = text.index("{", condition_end)
    yes_end = _close(text, yes_begin)
    chosen, end = text[yes_begin + 1 : yes_end], yes_end + 1
    rest = re.match(r"\s*:\s*\{", text[end:])
    other = ""
    if rest is not None:
        no_begin = end + rest.end() - 1
        no_end = _close(text, no_begin)
        other, end = text[no_begin + 1 : no_end], no_end + 1
    return text[:begin] + (chosen if _true(text[begin + 1 : condition_end]) else other) + text[end:]


def _close(text: str, begin: int, braces: str = "{}") -> int:
    """Where the brace that opens at a place is closed."""
    depth = 0
    for place in range(begin, len(text)):
        depth += {braces[0]: 1, braces[1]: -1}.get(text[place], 0)
        if depth == 0:
            return place
    raise ValueError("a brace that is never closed")


def _true(condition: str) -> bool:
    """Whether a condition of SqlRender holds: comparisons, IN, and words that are true, joined by | and &."""
    tests: dict[str, Callable[[str, str], bool]] = {"==": lambda a, b: a == b, "!=": lambda a, b: a != b}

    def one(part: str) -> bool:
        part = part.strip()
        inside = re.fullmatch(r"(.+?)\s+IN\s+\((.*)\)", part, flags=re.I | re.S)
        if inside is not None:
            return _bare(inside[1]) in [_bare(word) for word in inside[2].split(",")]
        for sign, test in tests.items():
            if sign in part:
                left, right = part.split(sign, 1)
                return test(_bare(left), _bare(right))
        negated = part.startswith("!")
        return (_bare(part.lstrip("!")).lower() in ("true", "1", "t")) != negated

    return any(all(one(part) for part in option.split("&")) for option in condition.split("|"))


def _bare(word: str) -> str:
    """A word without its quotation marks."""
    return word.strip().strip("'").strip()


def translated(statement: str) -> str:
    """SQL of SQL Server as DuckDB says it."""
    import sqlglot

    statement = re.sub(r"COUNT_BIG", "COUNT", statement, flags=re.I)
    statement = re.sub(r"'0' \+", "'0' ||", statement)
    # A date without dashes is a date to SQL Server alone.
    statement = re.sub(r"'(\d{4})(\d{2})(\d{2})'", r"'\1-\2-\3'", statement)
    while (begin := statement.find("CAST(CONCAT(")) >= 0:
        end = _close(statement, begin + len("CAST"), "()")
        inside = statement[begin + len("CAST(") : end]
        statement = f"{statement[:begin]}to_day({inside.rpartition(' AS ')[0]}){statement[end + 1 :]}"
    return sqlglot.transpile(statement.strip().rstrip(";"), read="tsql", write="duckdb")[0]
