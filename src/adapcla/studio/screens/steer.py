"""The page *Steer*: requested prevalences, the paper's rule and the closed loop side by side, and then a sample."""

from __future__ import annotations

from typing import Any

import numpy as np
import streamlit as st

from adapcla.errors import UsageError
from adapcla.pipeline.options import options_of
from adapcla.pipeline.settings import SampleOptions
from adapcla.report.charts import bar_table, format_share
from adapcla.studio import widgets
from adapcla.studio.jobs import Job, command_words
from adapcla.studio.screens.patients import SAMPLE, known_codes
from adapcla.studio.workspace import TABLES, Contents, Known

_STEER = "steer"
#: Both ways, as the jobs name them, and what is added to the command.
WAYS: dict[str, dict[str, Any]] = {"paper": {}, "loop": {"calibrate": True}}
TITLES = {"paper": "The paper's rule", "loop": "Closed loop"}
#: Prevalences of a code → the title and the style of their bars.
_BARS = {
    "before": ("as trained", "soft"), "requested": ("requested", ""), "paper": ("the paper's rule", "tail"),
    "loop": ("closed loop", "mid"),
}  # fmt: skip
_FROM = ("Choose codes", "Another site's prevalences (a table)", "A cohort in the folder")
_MOST_LINES = 60


def steer_screen() -> None:
    """Say what is wanted, see what both ways come to, and draw."""
    found = widgets.space().contents()
    if not found.models:
        st.write("There is no model to steer. Train one on the page Train and release.")
        return
    st.write(
        "The trained model is moved towards other prevalences without training again: by the paper's rule, and by a "
        "closed loop that samples, measures and corrects until the whole population has them."
    )
    model = widgets.choose("Model", found.models, "steer-model")
    target = _target(found, known_codes(model))
    with st.form("steer-form"):
        left, middle, right = st.columns(3)
        patients = int(left.number_input("Patients of each trial", 100, 1_000_000, 2000, key="steer-patients"))
        pilot = int(middle.number_input("Patients of a pilot", 100, 1_000_000, 5000, step=500, key="steer-pilot"))
        left.caption("Enough to see the prevalences of the codes that matter to you.")
        middle.caption("The closed loop draws up to ten pilots; more patients make it more precise but slower.")
        strength = float(right.slider("Strength", 0.0, 1.0, 1.0, 0.05, key="steer-strength"))
        right.caption("1 goes all the way to the requested prevalences.")
        missing = st.selectbox(
            "Codes without a request", ["keep", "drop"], key="missing", help="Leave alone, or never draw."
        )
        if st.form_submit_button("See both ways", type="primary", disabled=target is None and not _pending()):
            options = {"patients": patients, "pilot": pilot, "strength": strength, "missing": missing}
            _try_both(model, _target_path(target, known_codes(model)), options)
    _show_both()


def _pending() -> bool:
    """Whether codes are chosen whose table is not written yet."""
    return bool(st.session_state.get("steer-codes"))


# ---- what is wanted -----------------------------------------------------------------------------------------
def _target(found: Contents, about: Known) -> str | None:
    """The file or cohort to steer towards; None while nothing is chosen, or where codes are chosen on the page."""
    way = st.radio("What is requested?", _FROM, horizontal=True, key="steer-from")
    if way == _FROM[0]:
        _wishes(about)
        return None
    if way == _FROM[2]:
        st.session_state["steer-codes"] = []
        return widgets.choose("Towards the prevalences of", list(found.cohorts), "steer-cohort")
    st.session_state["steer-codes"] = []
    dropped = st.file_uploader("A table with the columns code and prevalence", type=list(TABLES), key="steer-upload")
    if dropped is None:
        return None
    if st.session_state.get("steer-kept", ("", ""))[0] != dropped.file_id:
        path = widgets.space().keep("targets", dropped.name, dropped.getvalue())
        st.session_state["steer-kept"] = (dropped.file_id, path)
    return str(st.session_state["steer-kept"][1])


def _wishes(about: Known) -> None:
    """Codes with the prevalence that is requested of each, in percent of visits."""
    for token in widgets.codes("Codes", about, "steer-codes"):
        share = about.share[about.vocabulary.index[token]]
        now = 0.0 if np.isnan(share) else 100 * float(share)
        st.number_input(
            f"{about.label(token)}: % of visits (now {format_share(now / 100)})",
            0.0, 99.9, min(round(2 * now, 4), 99.0), format="%.4f", key=f"wish-{token}",
        )  # fmt: skip


def _target_path(target: str | None, about: Known) -> str:
    """The path of what is requested; chosen codes become a table in the folder."""
    if target is not None:
        return target
    chosen = [str(token) for token in st.session_state.get("steer-codes", ())]
    if not chosen:
        raise UsageError(
            "nothing is requested\nexpected: a code with its prevalence\nto do: choose codes, or drop a table"
        )
    lines = [f"{token},{st.session_state[f'wish-{token}'] / 100!r}" for token in chosen]
    return widgets.space().keep("targets", "wishes.csv", ("code,prevalence\n" + "\n".join(lines) + "\n").encode())


def _try_both(model: str, target: str, options: dict[str, Any]) -> None:
    """Start both ways."""
    for way, more in WAYS.items():
        out = widgets.fresh("samples", f"steered {way}")
        given = {**options, "pilot": options["pilot"] if way == "loop" else None, "toward": target, **more}
        about = {"kind": _STEER, "way": way, "out": out, "model": model, "target": target}
        widgets.begin(_words(model, out, given), TITLES[way], **about)
    st.rerun()


def _words(model: str, out: str, given: dict[str, Any]) -> list[str]:
    """The words that sample; a sample is resumed where it was stopped."""
    return command_words("sample", model, options=options_of(SampleOptions), given=given, out=out, resume=True)


# ---- what both ways come to ---------------------------------------------------------------------------------
def _show_both() -> None:
    """Both newest trials side by side, and the button to draw."""
    jobs = {way: widgets.newest_job(kind=_STEER, way=way) for way in WAYS}
    tried = {way: job for way, job in jobs.items() if job is not None}
    if not tried:
        return
    st.header("Both ways")
    for place, job in zip(st.columns(2), tried.values(), strict=False):
        with place:
            widgets.show(job)
            _came(job)
    results = {way: job.result for way, job in tried.items()}
    if any("codes_by_prevalence" in result for result in results.values()):
        _side_by_side(results, known_codes(next(iter(tried.values())).about["model"]))
    loop = tried.get("loop")
    if loop is not None and loop.state == "done":
        _draw(loop)


def _came(job: Job) -> None:
    """How near one way came."""
    came = job.result.get("achieved")
    if came:
        st.write(
            f"**{came['inside_sampling_error']:.0%}** of {came['n_judged']} assessed codes are inside sampling error; "
            f"mean gap {format_share(came['mae'])} of visits, of which sampling alone leaves "
            f"{format_share(came['floor'])}."
        )
    elif job.result:
        st.write("No requested code is frequent enough among so many patients to be assessed.")


def _side_by_side(results: dict[str, dict[str, Any]], about: Known) -> None:
    """Requested, paper's rule and closed loop for each code, the most frequent first."""
    came = {
        way: {line["code"]: line for line in result.get("codes_by_prevalence", ())} for way, result in results.items()
    }
    lines = [
        {
            **line,
            "name": about.names.get(line["code"], ""),
            "paper": came.get("paper", {}).get(line["code"], {}).get("achieved"),
            "loop": came.get("loop", {}).get(line["code"], {}).get("achieved"),
        }
        for line in next(each for each in came.values() if each).values()
    ]
    lines.sort(key=lambda line: -line["requested"])
    rows = [((one["code"], one["name"]), [one[way] for way in _BARS]) for one in lines[:_MOST_LINES]]
    ways = dict(_BARS.values())
    widgets.parts(bar_table("Share of visits that hold the code", ("code", "name"), ways, rows))
    if len(lines) > _MOST_LINES:
        st.caption(f"The {_MOST_LINES} most frequent of {len(lines):,} requested codes.")


def _draw(loop: Job) -> None:
    """A sample by one of the ways, as large as is wanted."""
    with st.form("steer-draw"):
        left, right = st.columns(2)
        patients = int(left.number_input("Patients", 1, 100_000_000, 10_000, key="draw-patients"))
        way = str(right.selectbox("Way", list(WAYS)[::-1], format_func=lambda name: TITLES[name], key="draw-way"))
        if st.form_submit_button("Draw them", type="primary"):
            out = widgets.fresh("samples", "steered")
            pilot = "--set=pilot="
            kept = [word for word in loop.command if word.startswith(("--strength=", "--set=missing=", pilot))]
            words = _words(
                loop.about["model"], out, {"patients": patients, "toward": loop.about["target"], **WAYS[way]}
            )
            words += [word for word in kept if way == "loop" or not word.startswith(pilot)]
            widgets.begin(words, "Steered patients", kind=SAMPLE, way="steered", out=out, model=loop.about["model"])
            st.rerun()
    job = widgets.newest_job(kind=SAMPLE, way="steered")
    if job is not None:
        widgets.show(job)
        if job.state == "done" and job.code == 0:
            st.caption(
                f"{job.result.get('patients', 0):,} patients in {job.about['out']}: look at them on the page Patients."
            )
