"""The page *Data*: a table, a folder or the example cohort becomes a cohort, and its description is shown."""

from __future__ import annotations

import json
from typing import Any

import streamlit as st

from adapcla.data import description as words
from adapcla.disclosure import format_count
from adapcla.io import READERS
from adapcla.pipeline.options import arguments_of, options_of, reading_options
from adapcla.pipeline.settings import SimulateOptions
from adapcla.report.charts import svg_image
from adapcla.studio import widgets
from adapcla.studio.jobs import Job, command_words
from adapcla.studio.workspace import TABLES, plain_name

WAYS = ("The example cohort", "Drop a table", "A file or folder on this computer")
_GUESS, _NONE = "(guess)", "(none)"
#: Options that are columns of a table, and are chosen beside what was found in it.
_COLUMNS = ("patient", "visit", "date", "day", "codes", "attributes")
#: Further options that are columns: of numbers, and of what is said of a visit.
_MORE_COLUMNS = ("value", "unit", "time", "kind", "length", "ending")
#: Words under which a described cohort is remembered.
_LOOK, _READ, _DESCRIBE = "look", "read", "describe"


def data_screen() -> None:
    """Choose patients, look at what they would come to, read them, and see what they are."""
    sources = widgets.space().contents().sources
    if not sources:
        st.write("Begin with the example cohort: simulated patients, ready in seconds. Or bring your own.")
    way = st.radio("Where are the patients?", WAYS, horizontal=True, key="way")
    if way == WAYS[0]:
        _example()
    elif way == WAYS[1]:
        _drop()
    else:
        _by_path()
    if way != WAYS[0]:
        _show_look()
    reading = widgets.newest_job(kind=_READ)
    if reading is not None:
        widgets.show(reading, quiet=reading.state == "done")
    if sources:
        st.header("What is there")
        _describe_cohort(sources, reading)


# ---- three ways in ------------------------------------------------------------------------------------------
def _example() -> None:
    """Simulated patients, one click away."""
    st.write(
        "A simulated hospital with known probabilities and a long tail of rare codes. Nobody in it is real, "
        "and everything that the studio does can be tried on it."
    )
    with st.expander("Its size"):
        patients = st.number_input("Patients", 500, 1_000_000, 8000, step=500, key="example-patients")
        codes = st.number_input("Codes", 40, 100_000, 400, step=20, key="example-codes")
    if st.button("Make the example cohort", type="primary", key="example"):
        out = widgets.fresh("cohorts", "example cohort")
        given = {"patients": int(patients), "codes": int(codes)}
        words = command_words("simulate", options=options_of(SimulateOptions), given=given, out=out)
        widgets.begin(words, "The example cohort", kind=_READ, cohort=out)
        st.rerun()


def _drop() -> None:
    """A file that is dropped on the page; it is kept in the folder, for its owner only."""
    dropped = st.file_uploader(
        "One row for each code (patient, visit or date, code), or one for each visit", type=list(TABLES), key="upload"
    )
    if dropped is not None and st.session_state.get("kept") != dropped.file_id:
        path = widgets.space().keep("uploads", dropped.name, dropped.getvalue())
        st.session_state["kept"] = dropped.file_id
        _look("table", path, {})


def _by_path() -> None:
    """A path on this computer, and what it is."""
    with st.form("named"):
        source = st.selectbox("What is it?", list(READERS), format_func=lambda name: READERS[name][1], key="source")
        text = st.text_input("Its path on this computer", key="path", placeholder="/data/mimic-iv")
        if st.form_submit_button("Look at it", type="primary"):
            path = widgets.space().named_path(text)
            _look(str(source), str(path), {})


def _changes(options: dict[str, Any]) -> dict[str, Any]:
    """The options of reading that are not as usual."""
    usual = {name: option.default for name, option in reading_options().items()}
    return {name: value for name, value in options.items() if value not in (None, "", (), usual[name])}


def _import(source: str, path: str, out: str, options: dict[str, Any], dry_run: bool = False) -> list[str]:
    """The words that read a source."""
    words = command_words("import", source, path, out=out, dry_run=dry_run)
    return [*words[:-1], *arguments_of(reading_options(), options, "--read"), words[-1]]


def _look(source: str, path: str, options: dict[str, Any]) -> None:
    """Start a first look, which reads the beginning only."""
    about = {"kind": _LOOK, "source": source, "path": path, "options": json.dumps(options)}
    widgets.begin(_import(source, path, "unused", options, dry_run=True), "A first look", **about)
    st.rerun()


# ---- what would be read -------------------------------------------------------------------------------------
def _show_look() -> None:
    """The newest first look: columns, what would be left out, and the choices of reading."""
    job = widgets.newest_job(kind=_LOOK)
    if job is None:
        return
    widgets.show(job, quiet=True)
    found = job.result
    if job.running or not found:
        return
    name = job.about["path"].rsplit("/", 1)[-1]
    st.subheader(f"{name}: {found['bytes']:,} bytes")
    _parts_of(found)
    if found["problem"]:
        widgets.error(found["problem"])
        if found["dropped"]:
            widgets.table(["reason", "how many"], list(found["dropped"].items()), "What would be left out")
    elif found["tried"] is None:
        st.write("It is too large to be tried in a moment. What is left out, and why, is counted while it is read.")
    else:
        part = "All of it was" if found["tried"] == "all" else f"Its first {found['tried']:,} rows were"
        st.write(
            f"{part} tried: {found['patients']:,} patients, {found['visits']:,} visits, {found['codes']:,} codes. "
            + ("Nothing would be left out." if not found["dropped"] else "This would be left out:")
        )
        if found["dropped"]:
            widgets.table(["reason", "how many"], list(found["dropped"].items()))
    _choices(job, found)


def _parts_of(found: dict[str, Any]) -> None:
    """The columns or tables that were found."""
    if "columns" in found:
        rows = [
            (column["name"] or f"column {number}", column["kind"], column["part"] or "–")
            for number, column in enumerate(found["columns"], 1)
        ]
        widgets.table(["column", "looks like", "taken for"], rows)
        if not found["header"]:
            st.write("The first line does not look like a header, and is not shown: it may be a patient's.")
    else:
        widgets.table(["table", "bytes"], [(each["name"], each["bytes"]) for each in found["tables"]])


def _choices(job: Job, found: dict[str, Any]) -> None:
    """How it is read: guesses that can be changed."""
    before = json.loads(job.about["options"])
    names = [column["name"] for column in found.get("columns", ()) if column["name"]]
    with st.form("choices"):
        options = _columns(names, before) if job.about["source"] == "table" else {}
        with st.expander("More choices"):
            options |= _reading(before, names, job.about["source"] == "table")
        name = st.text_input(
            "Name", plain_name(job.about["path"].rsplit("/", 1)[-1].partition(".")[0]), key="cohort-name"
        )
        left, right = st.columns(2)
        again = left.form_submit_button("Look again with these choices")
        read = right.form_submit_button("Read all of it", type="primary", disabled=bool(found["problem"]))
    source, path = job.about["source"], job.about["path"]
    if again:
        _look(source, path, _changes(options))
    if read:
        out = widgets.fresh("cohorts", name)
        widgets.begin(_import(source, path, out, options), f"Reading {name}", kind=_READ, cohort=out)
        st.rerun()


def _columns(names: list[str], before: dict[str, Any]) -> dict[str, Any]:
    """Which column plays which part; names are chosen where they are known, and typed where they are not."""
    titles = {
        "patient": "Patient",
        "visit": "Visit",
        "date": "Date of the visit",
        "day": "Day since the first visit",
        "codes": "Codes",
    }
    out: dict[str, Any] = {}
    for place, (part, title) in zip(st.columns(len(titles)), titles.items(), strict=True):
        given = before.get(part) or ""
        if names and part != "codes":
            listed = [_GUESS, *names]
            chosen = place.selectbox(title, listed, listed.index(given) if given in listed else 0, key=f"column-{part}")
            out[part] = None if chosen == _GUESS else chosen
        else:
            hint = "Several with commas, or with * (dx*)" if part == "codes" else None
            out[part] = place.text_input(title, given, placeholder=_GUESS, key=f"column-{part}", help=hint) or None
    chosen_before = [name for name in before.get("attributes", ()) if name in names]
    who = st.multiselect("Columns that say who a patient is, such as sex", names, chosen_before, key="attributes")
    out["attributes"] = tuple(who)
    return out


def _reading(before: dict[str, Any], names: list[str], of_table: bool) -> dict[str, Any]:
    """Choices that every source has: every other option of reading, with its own choices, default and help.

    Options that name a column are offered for tables alone, with the columns that were found.
    """
    out: dict[str, Any] = {}
    left_out = _COLUMNS if of_table else (*_COLUMNS, *_MORE_COLUMNS)
    options = [option for option in reading_options().values() if option.name not in left_out]
    places = st.columns(2)
    for number, option in enumerate(options):
        place, given = places[number % 2], before.get(option.name)
        if option.name in _MORE_COLUMNS and names:
            listed = [_NONE, *names]
            index = listed.index(given) if given in listed else 0
            title = f"Column of {option.name}"
            chosen = place.selectbox(title, listed, index, key=f"column-{option.name}", help=option.help or None)
            out[option.name] = None if chosen == _NONE else chosen
        else:
            out[option.name] = widgets.option_field(place, option, given, "reading")
    return out


# ---- what it is ---------------------------------------------------------------------------------------------
def _describe_cohort(sources: list[str], reading: Job | None) -> None:
    """The description of a cohort with its pictures: numbers of many patients, never a row of one."""
    first = reading.about["cohort"] if reading is not None else ""
    cohort = widgets.choose("Cohort", sources, "cohort", first)
    job = widgets.newest_job(kind=_DESCRIBE, cohort=cohort)
    if job is None:
        job = widgets.begin(
            command_words("describe", cohort, figure=f".studio/{plain_name(cohort)}.svg"),
            "Describing it",
            kind=_DESCRIBE,
            cohort=cohort,
        )
    widgets.show(job, quiet=True)
    description = job.result
    if job.running or not description:
        return
    shown = {**description, "attributes": {}}
    widgets.table(["", ""], list(words.summary_lines(shown)))
    picture = widgets.space().root / ".studio" / f"{plain_name(cohort)}.svg"
    if picture.is_file():
        widgets.parts(svg_image(picture.read_bytes(), "The long tail: how many visits hold each code"))
    rows = [
        (name, part["codes"], words.percent(part["share_of_codes"]), words.percent(part["share_of_entries"]))
        for name, part in words.stratum_rows(description)
    ]
    widgets.table(["stratum", "codes", "of all codes", "of all entries"], rows, "How the codes are used")
    for name, categories in description["attributes"].items():
        counts = [(category, "withheld" if n is None else format_count(n)) for category, n in categories.items()]
        widgets.table([name, "patients"], counts)
    if description["dropped"]:
        widgets.table(["reason", "how many"], list(description["dropped"].items()), "Left out while reading")
    st.caption("Next: the page Train and release.")
