"""The table of commands, in the order in which a newcomer needs them. It is text, so listing it loads nothing."""

from __future__ import annotations

from collections.abc import Mapping

from medunlearn.paper import Paper, find_paper, installed_papers, own_papers, paper_targets
from medunlearn.verb import Verb

CALLS, CONFIG, IDENTIFIERS = "medunlearn.cli.calls", "medunlearn.config", "audit identifiers"
RESULTS, RUNS = "medunlearn.study.result_views", "medunlearn.study.run_views"
LLM = (
    "--llm URL --llm.model NAME names a language-model server; other keys of it: docs/servers.md. --llm rehearsal "
    "asks none: answers are drawn at random, and decide nothing."
)


_VERBS = (
    Verb(
        "demo",
        "Run everything once on an invented hospital: memorize it, forget a tenth of it, report what was "
        "forgotten.",
        "--out demo/ (minutes on two CPU cores, no network); medunlearn demo audit --out demo-audit/; one deletion "
        "request: medunlearn demo forget --out demo-forget/",
        "out synthetic open",
        call=f"{CALLS}:demo",
    ),
    Verb(
        "build keywords",
        "Find each question's disease keywords, which the leakage score (LS) looks for in responses.",
        "bench/ --extractor scispacy --out keywords.parquet",
        "extractor out",
        notes="`evaluate` finds them by itself, with the extractor offline, when it needs them.",
        call=f"{CALLS}:keywords",
    ),
    Verb(
        "inspect",
        "Show what is in a benchmark, a run or a file of notes: counts, splits, settings, problems.",
        "bench/ --tables --tokenizer runs/target; what is read of notes, what is left out and why, and ids that "
        "may be one person's: medunlearn inspect notes.csv.gz --patient-column Pat-Nr",
        "tables tokenizer patient_column text_column same_person",
        f"{CONFIG}.clinical_notes:NoteColumnFields",
        call=f"{CALLS}:inspect",
    ),
    Verb(
        "train",
        "Train the target model, or with --without the retrained model. Given again, it resumes.",
        "bench/ --model tiny --out runs/target; the retrained model: add --without random_10",
        "plan model out without epochs lr",
        f"{CONFIG}:TrainSettings",
        "Defaults are those of AMNESIA's Table 6; the tiny model has its own.",
        plan=f"{CALLS}:plan_training",
        plan_flag="plan",
        out=True,
        show=f"{RUNS}:train_view",
    ),
    Verb(
        "adopt",
        "Make a run of a model that was trained elsewhere: a Hugging Face folder, a hub id, or a LoRA adapter.",
        "hospital/model bench/ --out runs/target; a retrained model: add --role retrained --without random_10",
        "out role without template base",
        f"{CONFIG}:AdoptSettings",
        "Nothing is trained, and the weights are not copied: files are hashed, and a file that changes is noticed. "
        "`unlearn`, `evaluate` and `attack` take such a folder as it is, too.",
        out=True,
        show=f"{RUNS}:adopt_view",
    ),
    Verb(
        "forget",
        "Carry out a deletion request: adopt a model, make it forget a patient, verify, and write the signed case.",
        "hospital/model notes.csv --patient 4711 --key owner/signing.key --out case/; with notes that the model "
        "never saw, and as a chat model is asked: add --holdout unseen.csv --prompt 'Write the note of {name}.'",
        "patient key out holdout prompt plan",
        f"{CONFIG}:ForgetSettings",
        "case/ holds no text, name or id of the patient; case-model/ is the new model; case-work/ holds notes. "
        "Given again, it goes on where it was cut off (docs/forget.md).",
        plan=f"{CALLS}:plan_request",
        plan_flag="plan",
    ),
    Verb(
        "unlearn",
        "Make a trained model forget one split's forget set. Given again, it resumes.",
        "runs/target bench/ --split random_10 --method npo --npo.beta 0.2 --out runs/npo; "
        "a deletion request: --split patient=patient-0007,patient-0031",
        "plan split method out epochs lr",
        f"{CONFIG}:UnlearnSettings",
        "A method's own settings are --METHOD.KEY VALUE; `medunlearn list methods` shows them.",
        checker="medunlearn.study.presets:unlearn_settings",
        plan=f"{CALLS}:plan_unlearning",
        plan_flag="plan",
        out=True,
        show=f"{RUNS}:unlearn_view",
    ),
    Verb(
        "evaluate",
        "Ask a model the benchmark's questions and score its responses.",
        "runs/npo bench/ --split random_10 --against runs/target --against runs/retrained; a server: medunlearn "
        "evaluate http://127.0.0.1:8000/v1 bench/ --model-name meditron --split random_10; stored responses: "
        "medunlearn evaluate responses.jsonl bench/ --split random_10",
        "plan split against folds metrics limit",
        f"{CONFIG}:EvaluateSettings",
        "Responses and scores are kept in the run's folder; asking again costs nothing. A server and a table of "
        "responses (question_id, response) give text alone, and get a run below runs/; measures that need more "
        "are unscored.",
        plan=f"{CALLS}:plan_evaluation",
        plan_flag="plan",
        show=f"{RESULTS}:evaluate_view",
    ),
    Verb(
        "score",
        "Score the stored responses of an evaluated run, or of an audit, again; no model is asked.",
        "runs/npo --measures rouge_l,token_f1",
        "measures split benchmark",
        notes="Rows of these measures are replaced in scores.parquet; other measures stay.",
        call="medunlearn.study.rescore:score",
        show=f"{RESULTS}:score_view",
    ),
    Verb(
        "attack",
        "Attack a model: tell members of its training set, or bring back what it was made to forget.",
        "runs/npo bench/ --split random_10 --attacks membership --against runs/target",
        "split attacks against reference out",
        f"{CONFIG}:AttackSettings",
        "An attack's own settings are --ATTACK.KEY VALUE; `medunlearn list attacks` shows them. Membership needs "
        "documents that no model is trained on. --attacks battery runs all that try to bring back what was "
        "forgotten, quick a short choice of them; with --against runs/retrained and --out page/ the page shows "
        "what comes back (docs/measure.md).",
        show=f"{RESULTS}:attack_view",
    ),
    Verb(
        "utility",
        "Measure a model's utility with tasks of lm-evaluation-harness.",
        "runs/npo --tasks mmlu --limit 20 --against runs/target",
        "tasks limit against fewshot include",
        f"{CONFIG}:UtilitySettings",
        "Needs `pip install 'medunlearn[utility]'`, or task files of your own in --include.",
    ),
    Verb(
        "audit",
        "Measure what a model repeats verbatim of texts that it may have been trained on.",
        "runs/target bench/ --baseline runs/before --limit 100 --out runs/audit; a server: medunlearn audit "
        "http://127.0.0.1:8000/v1 notes=notes.csv --model-name meditron --out runs/audit; stored responses: "
        "medunlearn audit --responses responses.jsonl --out runs/audit",
        "out baseline limit prefixes responses",
        f"{CONFIG}.audit:AuditSettings {CONFIG}.audit:AuditParts",
        "Also: audit identifiers, audit kinds, audit diagnosis. Further steps can be asked of an audit that is "
        "done: --identifiers --kinds --options questions.jsonl --encoder FOLDER.",
        call=f"{CALLS}:audit",
        show="medunlearn.audit.audit_view:audit_view",
        out=True,
    ),
    Verb(
        f"{IDENTIFIERS} find",
        "Find identifiers and sensitive content in responses, trace them to the records, and count them.",
        "responses.jsonl --records bench/ --out runs/identifiers",
        "records out detectors llm show_text",
        f"{CONFIG}.audit:IdentifierSettings",
        f"{LLM} Examples are masked; the tables written hold text of records.",
        f"{CALLS}:find_identifiers",
    ),
    Verb(
        f"{IDENTIFIERS} review",
        "Write a sample of responses, with their records and findings, for people to review.",
        "runs/identifiers --limit 50 --out sheet/",
        "out limit least_rouge",
        notes="The sheet holds text of records. Write yes or no into `label`, and into `missed` of a response's "
        "first row what was missed, as `kind: value; kind: value`.",
        call=f"{CALLS}:review_identifiers",
    ),
    Verb(
        f"{IDENTIFIERS} corrected",
        "Counts as the reviewers correct them, with precision and recall of what was found.",
        "sheet/",
        call=f"{CALLS}:correct_identifiers",
    ),
    Verb(
        f"{IDENTIFIERS} recall",
        "Recall and precision of detectors, by kind of identifier; of several also their union and overlap.",
        "--detector patterns,presidio --labelled notes.jsonl",
        "detector labelled synthetic",
        notes="Without a file, invented notes are labelled text; on real notes a detector finds less.",
        call=f"{CALLS}:detector_recall",
    ),
    Verb(
        "audit kinds find",
        "Sort an audit's memorized spans into kinds: by rules, and by a language model where one is named.",
        "runs/audit --clinical notes",
        "clinical datasets at_least corpus llm",
        f"{CONFIG}.audit:KindSettings",
        LLM,
        f"{CALLS}:find_kinds",
    ),
    Verb(
        "audit kinds review",
        "Write a sample of memorized spans for a person to sort.",
        "runs/audit --limit 50 --out sheet.csv",
        "out limit",
        notes="The sheet is blind and holds text of records. Write a kind, or `unclear`, into `kind`.",
        call=f"{CALLS}:review_kinds",
    ),
    Verb(
        "audit kinds corrected",
        "Read what people filled in, and compare rules and judge with it.",
        "runs/audit sheet.csv",
        call=f"{CALLS}:correct_kinds",
    ),
    Verb(
        "judge",
        "Judge labels, questions or responses with one or several language models.",
        "runs/npo --benchmark bench/ --llm http://127.0.0.1:8000/v1 --llm.model qwen3; a panel: "
        "medunlearn judge bench/ --task label --llm judges.yaml --out runs/labels --per-group 300",
        "llm task benchmark out per_group",
        f"{CONFIG}:JudgeSettings",
        "judges.yaml holds `judges:` and a list, each with base_url and model (docs/servers.md); --llm.KEY VALUE "
        "sets a key for every judge. Answers are kept as they come.",
        plan=f"{CALLS}:plan_judging",
    ),
    Verb(
        "annotate",
        "Write a CSV and a local page on which a person labels what judges judged.",
        "runs/labels --limit 100 --out sheet/",
        "out limit",
        notes="The page and the CSV ask the same; use either. They hold text of records.",
        show=f"{RESULTS}:annotate_view",
    ),
    Verb(
        "agree",
        "Compare judges with people's labels, and people with each other.",
        "runs/labels sheet/labels.csv",
        notes="Columns: case_id, label (Yes or No; for responses 1 to 10), and annotator, else the file's name.",
    ),
    Verb(
        "run",
        "Run an experiment from its file: build, train, retrain, unlearn with each method, evaluate, report.",
        "examples/hospital.yaml --unlearn.epochs 5 --unlearn.npo.beta 0.2",
        "plan out split train unlearn",
        f"{CONFIG}:ExperimentSettings|{CONFIG}.experiments:AdaptationSettings",
        "Every stage is kept; given again, the command does only what is not done. A file that names a paper is an "
        "experiment of that paper's own: a model adapted step by step, and audited after each.",
        plan="medunlearn.api:plan",
        file=True,
    ),
    Verb(
        "sweep",
        "Run a sweep from its file: methods x splits x seeds, with a report. Survives a failing cell.",
        "examples/sweep-small.yaml --unlearn.epochs 2 --jobs 2",
        "plan jobs out splits seeds",
        f"{CONFIG}:SweepSettings",
        "unlearn.search: {split: ..., lr: [...]} finds each method's learning rate. A cell that fails is listed "
        "with its reason, and the exit code is 1.",
        plan=f"{CALLS}:plan_sweep",
        file=True,
    ),
    Verb(
        "tune",
        "Find each method's settings with an equal budget, on one half of the patients; report on the other half.",
        "examples/tune-small.yaml --runs 12 --jobs 2",
        "plan jobs out runs seeds",
        f"{CONFIG}:TuneSettings",
        "space: {lr: [1e-4, 1e-2], npo.beta: [0.01, 1]} says what is searched; without it, a stated default. Needs "
        "Optuna: pip install 'medunlearn[tune]'.",
        plan=f"{CALLS}:plan_tuning",
        file=True,
    ),
    Verb(
        "report",
        "Write report.html, report.md and report.json from runs, a sweep, two sweeps, a tuning, or audits.",
        "runs/target runs/retrained runs/npo --benchmark bench/ --out report/; audits: medunlearn report "
        "runs/audit runs/audit-base --relations relations.yaml --out report/; two sweeps: medunlearn report "
        "sweep-a/ sweep-b/ --out versus/ --tables tex,csv --figures svg",
        "out benchmark split title tables figures show_text",
        run="medunlearn.papers.reporting:report_view",
    ),
    Verb(
        "export",
        "Write a model as a full Hugging Face folder; LoRA is merged, a delta is put together with its base.",
        "runs/npo --out hf/",
        "out benchmark push public",
        notes="Also: export tasks. A hub is asked only with --push. A model that was trained on credentialed data "
        "may repeat it, and is not pushed without --allow-push.",
        run=f"{CALLS}:export",
        out=True,
    ),
    Verb(
        "export tasks",
        "Write a benchmark as tasks of lm-evaluation-harness, scored by our measures.",
        "lume/ --split released --like runs/target --out tasks/",
        "split out like folds limit",
        f"{CONFIG}:TaskExportSettings",
        out=True,
    ),
    Verb(
        "verify",
        "Check runs, or a model and its case: weights, tables, responses, signatures, what they depend on. With "
        "--subject: list every file that still holds a subject, and how.",
        "runs/npo; a case: medunlearn verify case-model/ case/ --public-key owner.pub; whether the patient came "
        "back after a fine-tune: medunlearn verify finetuned/ case/ --work case-work/; for a deletion request: "
        "medunlearn verify runs/ bench/ --subject patient=patient-0007 --benchmark bench/ --out holders.parquet",
        "subject benchmark identifiers public_key authority work out",
        notes="Of runs and cases the exit code is 1 if anything differs or is missing. Of a subject: text, tables "
        "and stores are read; weights are told by their run's training, tokenizers by strings. Files of other "
        "formats, such as archives, are listed as unread. Nothing is changed.",
        show=f"{RUNS}:verify_view",
    ),
    Verb(
        "case key",
        "Make the key pair that signs cases of deletion requests, and the secret for pseudonyms.",
        "--out owner/signing.key",
        "out",
        notes="The private key and pseudonyms.key stay with you; give OUT.pub to whoever checks a case. Nothing is "
        "overwritten: a second key in the same folder has the same secret, so that earlier patients can be told.",
    ),
    Verb(
        "case timestamp",
        "Have an authority time-stamp a case (RFC 3161).",
        "case/ --url http://tsa.example.org; with a command: medunlearn case timestamp case/ --command "
        '"openssl ts -reply -queryfile /dev/stdin -config tsa.cnf"',
        "url command authority",
        notes="The SHA-256 of the signed statement and a random number are sent, nothing else. The reply's "
        "signature is always checked; whose certificate signed it, only with --authority.",
    ),
    Verb(
        "case letter",
        "Verify a case and write the answer to its patient, in English, German or French.",
        "case/ --language en --public-key owner/signing.key.pub --out letter.html",
        "language out patient public_key",
        notes="One page with the verdict in plain words, what was tested, and the dates of the law; names are gaps "
        "to fill in. It says that records were removed only if the verdict is deleted. A case that differs from "
        "its signature gets no letter.",
    ),
    Verb(
        "case purge",
        "List every file that still holds a patient, and with --yes delete these files.",
        "runs/ bench/ --patient patient-0007 --benchmark bench/; then: medunlearn case purge runs/ bench/ "
        "--patient patient-0007 --benchmark bench/ --kinds responses --yes",
        "patient benchmark identifiers kinds yes",
        notes="A file is deleted as a whole, with what it holds of others. Files outside of the folders and behind "
        "links stay, and so do unread ones, which are listed. The exit code is 1 if a file that was to be deleted "
        "is still there.",
    ),
    Verb(
        "list",
        "List methods, measures, attacks, benchmarks, sources, papers, their tables and figures (exhibits), tasks "
        "of language models, or presets; with a name, everything about one of them.",
        "methods; one of them: medunlearn list attacks relearning",
        call=f"{CALLS}:listed",
    ),
)
_OWN: Mapping[tuple[str, ...], Verb] = {tuple(verb.words.split()): verb for verb in _VERBS}


def verbs(*, plug_ins: bool = True) -> Mapping[tuple[str, ...], Verb]:
    """Every command by its words: our own, `build` of each paper, and the papers' own.

    Args:
        plug_ins: also those of installed packages, whose metadata are read.
    """
    papers = installed_papers() if plug_ins else own_papers()
    of_papers = [verb for paper in papers for verb in _verbs_of(paper)]
    added = {tuple(verb.words.split()): verb for verb in of_papers}
    order = dict.fromkeys(word for word, *_ in _OWN)
    every = {**added, **_OWN}
    return {words: every[words] for word in order for words in every if words[0] == word}


def verb_of(words: tuple[str, ...]) -> Verb | None:
    """The command of these words; plug-ins, and a paper by path, are looked for where ours do not have it."""
    if verb := verbs(plug_ins=False).get(words):
        return verb
    if words[:1] == ("build",) and len(words) == 2 and (":" in words[1] or words[1] in paper_targets()):
        return build_verb(find_paper(words[1]), words[1])
    return verbs().get(words)


def build_verb(paper: Paper, name: str) -> Verb:
    """The command that builds a paper's benchmark.

    Args:
        name: the paper's name or path.
    """
    return Verb(
        f"build {name}",
        paper.summary or paper.title,
        paper.example or "--out bench/",
        paper.first,
        "|".join(way.settings for way in paper.builds if way.settings),
        LLM if "llm" in paper.first.split() else "",
        f"medunlearn.build:{name}",
        f"{RESULTS}:build_view",
        plan=next((way.plan for way in paper.builds if way.plan), ""),
        out=True,
    )


def _verbs_of(paper: Paper) -> list[Verb]:
    return [build_verb(paper, paper.name), *paper.verbs] if paper.builds else [*paper.verbs]


GROUPS: Mapping[tuple[str, ...], str] = {
    ("build",): "Build a benchmark folder.",
    ("audit",): "Measure what a model gives away.",
    ("audit", "identifiers"): "Identifiers in responses: find, review, correct, and measure the detectors.",
    ("audit", "kinds"): "Kinds of what a model memorized (beneficial, uninformative, harmful): find, review, "
    "correct.",
    ("export",): "Write a model or a benchmark's tasks for others.",
    ("case",): "Evidence of deletion requests: keys, time stamps, letters, and files that hold a patient.",
}
MOVED: Mapping[str, str] = {
    "kinds": "medunlearn audit kinds",
    "identifiers": "medunlearn audit identifiers",
    "keywords": "medunlearn build keywords",
    "diagnose": "medunlearn audit diagnosis",
    "export-tasks": "medunlearn export tasks",
    "sbom": "python -m medunlearn.results.sbom",
}
