"""The table of commands, in the order in which a newcomer meets them. It is text: nothing is loaded to list it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Verb:
    """One command.

    Attributes:
        call: ``module:function`` whose parameters are arguments and flags.
        show: ``module:function`` that prints the result; its further parameters are flags too.
        settings: ``module:Class`` whose fields are flags; ``A|B`` where either may be meant.
        first: flags that most people use first.
        required: flags that the command line asks for though the function does not.
        file: the first argument is a YAML file of the settings.
        plan: ``module:function`` that ``--dry-run`` calls with the values and the folder.
        checker: ``module:function`` that checks settings of methods (``--npo.beta``), without running anything.
    """

    summary: str
    call: str
    show: str
    example: str
    settings: tuple[str, ...] = ()
    first: tuple[str, ...] = ()
    required: tuple[str, ...] = ()
    notes: str = ""
    file: bool = False
    plan: str = ""
    checker: str = ""


API, CALLS, SHOW, AUDITS = (
    "medunlearn.api",
    "medunlearn.cli.calls",
    "medunlearn.cli.show",
    "medunlearn.cli.show_audits",
)
CONFIG, BUILD = "medunlearn.config", "medunlearn.build"
LLM = "--llm URL --llm.model NAME names a language-model server; other keys of it: docs/servers.md."


def _build(name: str, summary: str, example: str, settings: str, first: tuple[str, ...], plan: str = "") -> Verb:
    classes = "|".join(f"{CONFIG}:{one}" for one in settings.split("|"))
    return Verb(
        summary,
        f"{BUILD}:{name}",
        f"{SHOW}:benchmark",
        f"medunlearn build {name} {example}",
        (classes,),
        first,
        required=("out",),
        notes=LLM if "llm" in first else "",
        plan=plan,
    )


VERBS: Mapping[tuple[str, ...], Verb] = {
    ("demo",): Verb(
        "Run everything once on an invented hospital: memorize it, forget a tenth of it, report "
        "what was forgotten.",
        f"{CALLS}:demo",
        f"{SHOW}:demo",
        "medunlearn demo --out demo/ (minutes on two CPU cores, no network); medunlearn demo audit "
        "--out demo-audit/",
        first=("out", "synthetic", "open"),
    ),
    ("build", "amnesia"): _build(
        "amnesia",
        "Build AMNESIA: patients with a note and eight questions each, random and disease-level splits.",
        "--synthetic 400 --out bench/; of notes of your own: medunlearn build amnesia NOTES.csv "
        "--llm http://127.0.0.1:8000/v1 --llm.model qwen3-32b --out bench/",
        "AmnesiaSettings|AmnesiaNotesSettings",
        ("synthetic", "out", "llm", "limit", "percents"),
        "medunlearn.papers.amnesia.notes:plan_from_notes",
    ),
    ("build", "diagnosis"): _build(
        "diagnosis",
        "Build a diagnosis benchmark: history and laboratory results in, diagnoses out; parts by patient.",
        "--synthetic 200 --out bench/; of your own: medunlearn build diagnosis ADMISSIONS.csv --out "
        "bench/ --test 1000",
        "DiagnosisSettings",
        ("synthetic", "out", "validation", "test", "percents"),
    ),
    ("build", "medforget"): _build(
        "medforget",
        "Build MedForget: institutions, patients, studies and sections, with chest X-rays and questions on each.",
        "--synthetic 64 --out bench/; MIMIC-CXR: medunlearn build medforget --mimic-cxr mimic-cxr/ --out bench/",
        "MedforgetSettings",
        ("synthetic", "mimic_cxr", "openi", "folder", "out", "llm"),
        "medunlearn.papers.medforget.assemble:plan_medforget",
    ),
    ("build", "lume"): _build(
        "lume",
        "Build LUME: stories and biographies with completions and knowledge questions, released or built anew.",
        "lume-files/ --out bench/; built anew: medunlearn build lume --synthetic 40 --out bench/",
        "LumeSettings|LumeNewSettings",
        ("synthetic", "new", "out", "llm", "articles"),
        "medunlearn.papers.lume.new:plan_new",
    ),
    ("build", "tofu"): _build(
        "tofu",
        "Build TOFU: questions on authors who never were, with splits forget01, forget05 and forget10.",
        "hub --out tofu/",
        "TofuSettings",
        ("out", "revision"),
    ),
    ("build", "muse"): _build(
        "muse",
        "Build MUSE: news articles or a book, with verbatim prompts and questions, and documents no model saw.",
        "hub --out muse/ --corpus books",
        "MuseSettings",
        ("out", "corpus", "revision"),
    ),
    ("build", "options"): Verb(
        "Build from multiple-choice questions of MedQA's or MedMCQA's form, with questions no model sees.",
        f"{BUILD}:options",
        f"{SHOW}:benchmark",
        "medunlearn build options questions.jsonl --out bench/ --nonmembers 100",
        (f"{CONFIG}.options:OptionsSettings",),
        ("out", "limit", "nonmembers", "percents"),
        required=("out",),
    ),
    ("build", "keywords"): Verb(
        "Find each question's disease keywords, which the leakage score (LS) looks for in responses.",
        f"{API}:keywords",
        f"{SHOW}:keywords",
        "medunlearn build keywords bench/ --extractor scispacy --out keywords.parquet",
        first=("extractor", "out"),
        notes="`evaluate` finds them by itself, with the extractor offline, when it needs them.",
    ),
    ("inspect",): Verb(
        "Show what is in a benchmark or a run: counts, splits, settings, problems.",
        f"{CALLS}:inspect",
        f"{SHOW}:inspected",
        "medunlearn inspect bench/ --tables --tokenizer runs/target",
        first=("tables", "tokenizer"),
    ),
    ("train",): Verb(
        "Train the target model, or with --without the retrained model. Given again, it resumes.",
        f"{API}:train",
        f"{SHOW}:training",
        "medunlearn train bench/ --model tiny --out runs/target; the retrained model: add --without random_10",
        (f"{CONFIG}:TrainSettings",),
        ("model", "out", "without", "epochs", "lr"),
        required=("out",),
        notes="Defaults are those of AMNESIA's Table 6; the tiny model has its own.",
    ),
    ("unlearn",): Verb(
        "Make a trained model forget one split's forget set. Given again, it resumes.",
        f"{API}:unlearn",
        f"{SHOW}:unlearning",
        "medunlearn unlearn runs/target bench/ --split random_10 --method npo --npo.beta 0.2 --out runs/npo; "
        "a deletion request: --split patient=patient-0007,patient-0031",
        (f"{CONFIG}:UnlearnSettings",),
        ("split", "method", "out", "epochs", "lr"),
        required=("out",),
        notes="A method's own settings are --METHOD.KEY VALUE; `medunlearn list methods` shows them.",
        checker="medunlearn.pipeline.presets:unlearn_settings",
    ),
    ("evaluate",): Verb(
        "Ask a model the benchmark's questions and score its responses.",
        f"{API}:evaluate",
        f"{SHOW}:evaluation",
        "medunlearn evaluate runs/npo bench/ --split random_10 --against runs/target --against runs/retrained",
        (f"{CONFIG}:EvaluateSettings",),
        ("split", "against", "folds", "metrics", "limit"),
        notes="Responses and scores are kept in the run's folder; asking again costs nothing.",
    ),
    ("score",): Verb(
        "Score the stored responses of an evaluated run again; no model is asked.",
        "medunlearn.pipeline.score:score",
        f"{SHOW}:scored_again",
        "medunlearn score runs/npo --measures rouge_l,token_f1",
        first=("measures", "split", "benchmark"),
        notes="Rows of these measures are replaced in the evaluation's scores.parquet; other measures stay.",
    ),
    ("attack",): Verb(
        "Attack a model: tell members of its training set, or bring back what it was made to forget.",
        f"{API}:attack",
        f"{SHOW}:attacks",
        "medunlearn attack runs/npo bench/ --split random_10 --attacks membership --against runs/target",
        (f"{CONFIG}:AttackSettings",),
        ("split", "attacks", "against", "reference", "out"),
        notes="An attack's own settings are --ATTACK.KEY VALUE; `medunlearn list attacks` shows "
        "them. Membership needs "
        "documents that no model is trained on (docs/measure.md).",
    ),
    ("utility",): Verb(
        "Measure a model's utility with tasks of lm-evaluation-harness.",
        f"{API}:utility",
        f"{SHOW}:utilities",
        "medunlearn utility runs/npo --tasks mmlu --limit 20 --against runs/target",
        (f"{CONFIG}:UtilitySettings",),
        ("tasks", "limit", "against", "fewshot", "include"),
        notes="Needs `pip install 'medunlearn[utility]'`, or task files of your own in --include.",
    ),
    ("audit",): Verb(
        "Measure what a model repeats verbatim of texts that it may have been trained on.",
        f"{API}:audit",
        f"{AUDITS}:audit",
        "medunlearn audit runs/target bench/ --baseline runs/before --limit 100 --out runs/audit; a "
        "server: medunlearn "
        "audit http://127.0.0.1:8000/v1 notes=notes.csv --model-name meditron --out runs/audit; stored responses: "
        "medunlearn audit --responses responses.jsonl --out runs/audit",
        (f"{CONFIG}.audit:AuditSettings", f"{CONFIG}.audit:AuditParts"),
        ("out", "baseline", "limit", "prefixes", "responses"),
        required=("out",),
        notes="Also: audit identifiers, audit kinds, audit diagnosis. Further steps can be asked of "
        "an audit that is "
        "done: --identifiers --kinds --options questions.jsonl --encoder FOLDER.",
    ),
    ("audit", "identifiers", "find"): Verb(
        "Find identifiers and sensitive content in responses, trace them to the records, and count them.",
        f"{CALLS}:find_identifiers",
        f"{AUDITS}:identifiers",
        "medunlearn audit identifiers find responses.jsonl --records bench/ --out runs/identifiers",
        (f"{CONFIG}.identifiers:IdentifierSettings",),
        ("records", "out", "detectors", "llm", "show_text"),
        notes=f"{LLM} Examples are masked; the tables written hold text of records.",
    ),
    ("audit", "identifiers", "review"): Verb(
        "Write a sample of responses, with their records and findings, for people to review.",
        f"{CALLS}:review_identifiers",
        f"{AUDITS}:sheet",
        "medunlearn audit identifiers review runs/identifiers --limit 50 --out sheet/",
        first=("out", "limit", "least_rouge"),
        notes="The sheet holds text of records. Write yes or no into `label`, and into `missed` of "
        "a response's first "
        "row what was missed, as `kind: value; kind: value`.",
    ),
    ("audit", "identifiers", "corrected"): Verb(
        "Counts as the reviewers correct them, with precision and recall of what was found.",
        f"{CALLS}:correct_identifiers",
        f"{AUDITS}:corrected",
        "medunlearn audit identifiers corrected sheet/",
    ),
    ("audit", "identifiers", "recall"): Verb(
        "Recall and precision of a detector, by kind of identifier.",
        f"{CALLS}:detector_recall",
        f"{AUDITS}:recall",
        "medunlearn audit identifiers recall --detector presidio --labelled notes.jsonl",
        first=("detector", "labelled", "synthetic"),
        notes="Without a file, invented notes are labelled text; on real notes a detector finds less.",
    ),
    ("audit", "kinds", "find"): Verb(
        "Sort an audit's memorized spans into kinds: by rules, and by a language model where one is named.",
        f"{CALLS}:find_kinds",
        f"{AUDITS}:kinds",
        "medunlearn audit kinds find runs/audit --clinical notes",
        (f"{CONFIG}.audit_report:KindSettings",),
        ("clinical", "datasets", "at_least", "corpus", "llm"),
        notes=LLM,
    ),
    ("audit", "kinds", "review"): Verb(
        "Write a sample of memorized spans for a person to sort.",
        f"{CALLS}:review_kinds",
        f"{AUDITS}:sheet",
        "medunlearn audit kinds review runs/audit --limit 50 --out sheet.csv",
        first=("out", "limit"),
        notes="The sheet is blind and holds text of records. Write a kind, or `unclear`, into `kind`.",
    ),
    ("audit", "kinds", "corrected"): Verb(
        "Read what people filled in, and compare rules and judge with it.",
        f"{CALLS}:correct_kinds",
        f"{AUDITS}:kinds",
        "medunlearn audit kinds corrected runs/audit sheet.csv",
    ),
    ("audit", "diagnosis"): Verb(
        "Top-k diagnostic accuracy of a model, overall and by specialty, with a report.",
        f"{API}:diagnose",
        f"{AUDITS}:diagnosis",
        "medunlearn audit diagnosis runs/diagnosis bench/ --against runs/base",
        (f"{CONFIG}:DiagnoseSettings",),
        ("against", "part", "k", "gold", "out"),
        notes="Without --against, a run that was watched (watch.part) is compared with the model "
        "before its training.",
    ),
    ("judge",): Verb(
        "Judge labels, questions or responses with one or several language models.",
        f"{CALLS}:judge",
        f"{SHOW}:judged",
        "medunlearn judge runs/npo --benchmark bench/ --llm http://127.0.0.1:8000/v1 --llm.model qwen3; a panel: "
        "medunlearn judge bench/ --task label --llm judges.yaml --out runs/labels --per-group 300",
        (f"{CONFIG}:JudgeSettings",),
        ("llm", "task", "benchmark", "out", "per_group"),
        notes="judges.yaml holds `judges:` and a list, each with base_url and model (docs/servers.md); "
        "--llm.KEY VALUE sets "
        "a key for every judge. Answers are kept as they come.",
    ),
    ("annotate",): Verb(
        "Write a CSV and a local page on which a person labels what judges judged.",
        f"{API}:annotate",
        f"{SHOW}:annotation",
        "medunlearn annotate runs/labels --limit 100 --out sheet/",
        first=("out", "limit"),
        notes="The page and the CSV ask the same; use either. They hold text of records.",
    ),
    ("agree",): Verb(
        "Compare judges with people's labels, and people with each other.",
        f"{API}:agree",
        f"{SHOW}:agreement",
        "medunlearn agree runs/labels sheet/labels.csv",
        notes="Columns: case_id, label (Yes or No; for responses 1 to 10), and annotator, else the file's name.",
    ),
    ("run",): Verb(
        "Run an experiment from its file: build, train, retrain, unlearn with each method, evaluate, report.",
        f"{CALLS}:run",
        f"{SHOW}:experiment",
        "medunlearn run examples/hospital.yaml --unlearn.epochs 5 --unlearn.npo.beta 0.2",
        (f"{CONFIG}:ExperimentSettings",),
        ("plan", "out", "split", "train", "unlearn"),
        notes="Every stage is kept; given again, the command does only what is not done.",
        file=True,
    ),
    ("sweep",): Verb(
        "Run a sweep from its file: methods x splits x seeds, with a report. Survives a failing cell.",
        f"{CALLS}:sweep",
        f"{SHOW}:swept",
        "medunlearn sweep examples/sweep-small.yaml --unlearn.epochs 2 --jobs 2",
        (f"{CONFIG}:SweepSettings",),
        ("plan", "jobs", "out", "splits", "seeds"),
        notes="unlearn.search: {split: ..., lr: [...]} finds each method's learning rate. A cell "
        "that fails is listed "
        "with its reason, and the exit code is 1.",
        file=True,
    ),
    ("report",): Verb(
        "Write report.html, report.md and report.json from runs, a sweep, or audits.",
        f"{CALLS}:report",
        f"{SHOW}:report",
        "medunlearn report runs/target runs/retrained runs/npo --benchmark bench/ --out report/; "
        "audits: medunlearn "
        "report runs/audit runs/audit-base --relations relations.yaml --out report/",
        first=("out", "benchmark", "split", "title", "show_text"),
    ),
    ("export",): Verb(
        "Write a model as a full Hugging Face folder; LoRA is merged, a delta is put together with its base.",
        f"{API}:export",
        f"{SHOW}:exported",
        "medunlearn export runs/npo --out hf/",
        first=("out", "push", "private"),
        required=("out",),
        notes="Also: export tasks. A hub is asked only with --push. A model that was trained on real patients may "
        "repeat them: push it where its data may go.",
    ),
    ("export", "tasks"): Verb(
        "Write a benchmark as tasks of lm-evaluation-harness, scored by our measures.",
        f"{API}:export_tasks",
        f"{SHOW}:exported_tasks",
        "medunlearn export tasks lume/ --split released --like runs/target --out tasks/",
        (f"{CONFIG}:TaskExportSettings",),
        ("split", "out", "like", "folds", "limit"),
        required=("out",),
    ),
    ("list",): Verb(
        "List methods, measures, attacks, benchmarks, sources, papers, tasks of language models, or presets.",
        f"{CALLS}:listed",
        f"{SHOW}:listing",
        "medunlearn list methods",
    ),
}
GROUPS: Mapping[tuple[str, ...], str] = {
    ("build",): "Build a benchmark folder.",
    ("audit",): "Measure what a model gives away.",
    ("audit", "identifiers"): "Identifiers in responses: find, review, correct, and measure the detectors.",
    (
        "audit",
        "kinds",
    ): "Kinds of what a model memorized (beneficial, uninformative, harmful): find, review, correct.",
    ("export",): "Write a model or a benchmark's tasks for others.",
}
MOVED: Mapping[str, str] = {
    "kinds": "medunlearn audit kinds",
    "identifiers": "medunlearn audit identifiers",
    "keywords": "medunlearn build keywords",
    "diagnose": "medunlearn audit diagnosis",
    "export-tasks": "medunlearn export tasks",
}
