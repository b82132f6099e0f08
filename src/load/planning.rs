//! From arguments to a plan: finds, reads, parses and resolves, and gathers every error on the way.

use super::find::{Found, SETTINGS, find};
use super::machine::Machine;
use super::read::{Source, as_source, bounded, source};
use super::snapshot::Snapshot;
use crate::cli::JobArgs;
use crate::error::{Error, Kind};
use crate::exit::ExitStatus;
use crate::plan::{JobFile, Plan, Purpose, Request, resolve};
use crate::spec::{
    Code, Diagnostic, JobSpec, Layer, Paint, Place, SourceFile, Written, parse_job, parse_settings, render_all,
};
use crate::units::RunId;
use std::path::Path;
use std::sync::Arc;

/// Why there is no plan.
#[derive(Debug)]
pub enum Failure {
    /// The job files could not be found or read.
    Error(Error),
    /// Something is wrong with what they say: every error of every file, warnings between them.
    Findings(Vec<Diagnostic>),
}

impl Failure {
    /// How the process ends because of it.
    pub const fn exit(&self) -> ExitStatus {
        match self {
            Self::Error(error) => error.exit(),
            Self::Findings(_) => ExitStatus::Usage,
        }
    }

    /// The whole report for people.
    pub fn report(&self, paint: Paint) -> String {
        match self {
            Self::Error(error) => error.report(),
            Self::Findings(found) => render_all(found, paint),
        }
    }
}

/// Makes the plan of a run, or of a check. Standard input is read only where `-` is named.
///
/// # Errors
/// The job files cannot be found or read, or something is wrong with what they say.
pub fn plan(args: &JobArgs, snapshot: &Snapshot, run: &RunId, purpose: Purpose) -> Result<Plan, Failure> {
    let mut found = Vec::new();
    let settings = settings(snapshot, &mut found).map_err(Failure::Error)?;
    let files = job_files(args, snapshot, &mut found).map_err(Failure::Error)?;
    let flags = flags(args, &snapshot.cwd);
    let world = Machine(snapshot);
    let request = Request {
        files: &files,
        settings: settings.as_ref(),
        flags: &flags,
        run,
        cwd: &snapshot.cwd,
        purpose,
        world: &world,
    };
    resolve(&request, found).map_err(Failure::Findings)
}

/// `[defaults]` of `runner.toml` at the root of the repository.
fn settings(snapshot: &Snapshot, found: &mut Vec<Diagnostic>) -> Result<Option<JobSpec>, Error> {
    let Some(path) = snapshot.repository_root().map(|root| root.join(SETTINGS)).filter(|path| path.is_file()) else {
        return Ok(None);
    };
    let shown = shown(&path, &snapshot.cwd);
    Ok(parsed(source(Layer::Settings, &shown, &path)?, parse_settings, found).1)
}

/// A path as a person in the working directory would say it.
fn shown(path: &Path, cwd: &Path) -> String {
    if let Ok(below) = path.strip_prefix(cwd) {
        return below.display().to_string();
    }
    let up = cwd.ancestors().position(|folder| path.starts_with(folder)).unwrap_or(0);
    match cwd.ancestors().nth(up).and_then(|folder| path.strip_prefix(folder).ok()) {
        Some(below) if up > 0 => Path::new(&"../".repeat(up)).join(below).display().to_string(),
        _ => path.display().to_string(),
    }
}

fn job_files(args: &JobArgs, snapshot: &Snapshot, found: &mut Vec<Diagnostic>) -> Result<Vec<JobFile>, Error> {
    if let Some(text) = &args.prompt {
        return Ok(prompt(text, snapshot, found).into_iter().collect());
    }
    let mut files = Vec::new();
    for one in find(&args.jobs, &snapshot.cwd)? {
        let (source, stem) = match one {
            Found::File { shown, path } => {
                let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
                (source(Layer::Job, &shown, &path)?, stem)
            }
            Found::Input => {
                let text = match &args.input {
                    Some(bytes) => bytes.clone(),
                    None => input()?,
                };
                let text = String::from_utf8(text).map_err(std::string::FromUtf8Error::into_bytes);
                (as_source(Layer::Job, "-", &snapshot.cwd, text), "stdin".to_owned())
            }
        };
        let (source, spec) = parsed(source, parse_job, found);
        files.push(JobFile { source, stem, spec });
    }
    Ok(files)
}

/// What standard input holds, up to the limit of a job file.
fn input() -> Result<Vec<u8>, Error> {
    let text = bounded(std::io::stdin().lock())
        .map_err(|error| Error::new(Kind::Environment, "cannot read standard input").because(error.to_string()))?;
    Ok(text.map_or_else(|bytes| bytes, String::into_bytes))
}

/// Reads standard input, where it is named as a job file, so that the run can be gone on with later.
///
/// # Errors
/// It cannot be read.
pub fn with_input(args: JobArgs) -> Result<JobArgs, Error> {
    if args.input.is_some() || !args.jobs.iter().any(|job| job == "-") {
        return Ok(args);
    }
    Ok(JobArgs { input: Some(input()?), ..args })
}

type Parser = fn(&Arc<SourceFile>) -> (Option<JobSpec>, Vec<Diagnostic>);

/// Parses a source, unless it is no text.
fn parsed((source, fault): Source, parse: Parser, found: &mut Vec<Diagnostic>) -> (Arc<SourceFile>, Option<JobSpec>) {
    if let Some(fault) = fault {
        found.push(fault);
        return (source, None);
    }
    let (spec, faults) = parse(&source);
    found.extend(faults);
    (source, spec)
}

/// The job of `--prompt`.
fn prompt(text: &str, snapshot: &Snapshot, found: &mut Vec<Diagnostic>) -> Option<JobFile> {
    let source = SourceFile::new(Layer::Job, "--prompt", &snapshot.cwd, text);
    if text.trim().is_empty() {
        found.push(Diagnostic::error(Code::OutOfRange, "the task of --prompt is blank"));
        return None;
    }
    let prompt = Written::new(source.text().to_owned(), Place::whole(&source));
    Some(JobFile { source, stem: "prompt".into(), spec: Some(JobSpec { prompt: Some(prompt), ..JobSpec::default() }) })
}

/// What flags say about every job.
fn flags(args: &JobArgs, cwd: &Path) -> JobSpec {
    let mut spec = JobSpec::default();
    if let Some(name) = &args.model {
        let source = SourceFile::new(Layer::Flag, "--model", cwd, name);
        spec.model.name = Some(Written::new(source.text().to_owned(), Place::whole(&source)));
    }
    if let Some(retries) = args.retries {
        let source = SourceFile::new(Layer::Flag, "--retries", cwd, &retries.to_string());
        spec.course.retries = Some(Written::new(retries, Place::whole(&source)));
    }
    spec
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Thinking;
    use std::fs;

    struct Shop(tempfile::TempDir);

    impl Shop {
        fn new(files: &[(&str, &[u8])]) -> Self {
            let shop = tempfile::tempdir().unwrap();
            fs::create_dir(shop.path().join(".git")).unwrap();
            for (name, text) in files {
                let path = shop.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(path, text).unwrap();
            }
            Self(shop)
        }

        fn plan(&self, below: &str, args: &JobArgs) -> Result<Plan, Failure> {
            let env = [("ANTHROPIC_API_KEY", "x"), ("PATH", "/usr/bin:/bin")];
            let snapshot = Snapshot {
                env: env.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
                cwd: self.0.path().join(below),
                stdout_is_terminal: false,
                stderr_is_terminal: false,
            };
            plan(args, &snapshot, &RunId("RUN".into()), Purpose::Run)
        }
    }

    fn named(jobs: &[&str]) -> JobArgs {
        JobArgs { jobs: jobs.iter().map(|job| (*job).to_owned()).collect(), ..JobArgs::default() }
    }

    fn report(result: Result<Plan, Failure>) -> (ExitStatus, String) {
        let failure = result.unwrap_err();
        (failure.exit(), failure.report(Paint::Plain))
    }

    #[test]
    fn b088_settings_job_and_flag_in_one_precedence() {
        let shop = Shop::new(&[
            ("runner.toml", b"[defaults]\nmax_turns = 7\ntoken_budget = 1000\nmodel = 'claude-opus-5'\n"),
            ("jobs/a.toml", b"prompt = 'x'\nmax_turns = 9\n"),
        ]);
        let plan =
            shop.plan("jobs", &JobArgs { model: Some("claude-haiku-5-5".into()), ..named(&["a.toml"]) }).unwrap();
        let job = &plan.jobs[0];
        assert_eq!((job.limits.max_turns.0, job.limits.token_budget.0), (9, 1000));
        assert_eq!(job.model.name, "claude-haiku-5-5");
        let origins: Vec<_> =
            plan.settings[&job.id].iter().map(|set| (set.key.as_str(), set.origin.as_str())).collect();
        assert_eq!(
            origins,
            [
                ("prompt", "a.toml:1"),
                ("max_turns", "a.toml:2"),
                ("token_budget", "../runner.toml:3"),
                ("model.name", "--model")
            ]
        );
    }

    #[test]
    fn a_prompt_is_a_job_without_a_file() {
        let shop = Shop::new(&[("runner.toml", b"[defaults]\n[[defaults.stop_hooks]]\nrun = 'true'\n")]);
        let args = JobArgs { prompt: Some("fix it".into()), ..JobArgs::default() };
        let plan = shop.plan("", &args).unwrap();
        assert_eq!((plan.jobs[0].id.as_str(), plan.jobs[0].file.as_str()), ("prompt", "--prompt"));
        assert_eq!(plan.jobs[0].gates[0].name, "true");
        assert_eq!(
            report(shop.plan("", &JobArgs { prompt: Some(" ".into()), ..JobArgs::default() })).0,
            ExitStatus::Usage
        );
    }

    #[test]
    fn paths_start_at_the_file_that_names_them() {
        let shop = Shop::new(&[
            ("jobs/a.toml", b"prompt_file = 'p/x.md'\n[model]\nprovider = 'replay'\ncassette = 'c.jsonl'\n[worktree]\nfixture = '../fix'\n"),
            ("jobs/p/x.md", b"\xef\xbb\xbfDo {{ job }}.\r\n"),
            ("jobs/c.jsonl", b""),
            ("fix/x", b""),
        ]);
        let plan = shop.plan("", &JobArgs::default()).unwrap();
        assert_eq!(plan.jobs[0].prompt, "Do a.\r\n");
        assert_eq!(plan.jobs[0].source, crate::plan::Source::Fixture(shop.0.path().join("jobs/../fix")));
    }

    #[test]
    fn every_error_of_every_file_in_one_go() {
        let shop = Shop::new(&[
            ("runner.toml", b"[default]\n"),
            ("a.toml", b"prompt = 1\nmax_turn = 2\n"),
            ("b.toml", b"prompt = 'x'\n\xff\n"),
            ("c.toml", b"prompt = \n"),
            ("d.toml", b"prompt = 'x'\ntimeout = 'banana'\nprompt_file = 'no.md'\n"),
        ]);
        let (exit, text) = report(shop.plan("", &named(&["a.toml", "b.toml", "c.toml", "d.toml"])));
        assert_eq!(exit, ExitStatus::Usage);
        let codes: Vec<_> =
            text.lines().filter_map(|line| Some(line.strip_prefix("error[")?.split_once(']')?.0)).collect();
        assert_eq!(
            codes,
            ["unknown-key", "wrong-type", "unknown-key", "not-utf8", "syntax", "bad-duration", "conflict"]
        );
        assert!(text.ends_with("error: 7 errors, nothing was run\n"), "{text}");
    }

    #[test]
    fn a_missing_key_is_found_before_money_is_spent() {
        let job = b"prompt = 'x'\n[model]\napi_key_env = 'NOT_THERE'\n";
        let shop = Shop::new(&[
            ("a.toml", job),
            ("b.toml", b"prompt = 'x'\n[model]\napi_key_env = 'NOT_THERE'\nbase_url = 'http://127.0.0.1:1'\n"),
        ]);
        assert!(report(shop.plan("", &named(&["a.toml"]))).1.contains("the variable NOT_THERE is not set"));
        shop.plan("", &named(&["b.toml"])).unwrap();
    }

    #[test]
    fn gates_and_hooks_keep_their_places_and_have_defaults_of_their_own() {
        let text = b"prompt = 'x'\n[[stop_hooks]]\nrun = 'true'\nkind = 'hook'\n[[stop_hooks]]\nrun = 'true'\n";
        let plan = Shop::new(&[("a.toml", text)]).plan("", &named(&["a.toml"])).unwrap();
        let (gate, hook) = (&plan.jobs[0].gates[0], &plan.jobs[0].hooks[0]);
        assert_eq!((gate.name.as_str(), gate.place, gate.max_blocks), ("true-2", 1, 5));
        assert_eq!((hook.name.as_str(), hook.place, hook.max_blocks), ("true", 0, 1));
        assert_eq!(gate.timeout, hook.timeout);
    }

    #[test]
    fn further_models_have_their_own_facts() {
        let text = b"prompt = 'x'\n[model]\nname = 'claude-opus-4-6'\nfallback = 'claude-opus-4-5'\n\
                     small = 'claude-haiku-5-5'\nthinking = { budget_tokens = 4096 }\ncontext_window = 90000\n";
        let model = Shop::new(&[("a.toml", text)]).plan("", &named(&["a.toml"])).unwrap().jobs.remove(0).model;
        let (fallback, small) = (model.fallback.unwrap(), model.small.unwrap());
        assert_eq!(
            (model.context_window.0, fallback.context_window.0, small.context_window.0),
            (90_000, 200_000, 1_000_000)
        );
        assert_eq!((fallback.thinking, small.thinking), (model.thinking, Some(Thinking::Off)));
        assert_eq!((model.binds_thinking, small.binds_thinking), (false, true));
        assert_eq!(fallback.provider, model.provider);
        assert!(small.prices.is_some() && small.prices != fallback.prices);
    }

    #[test]
    fn a_fallback_thinks_only_as_it_can() {
        let text = b"prompt = 'x'\n[model]\nname = 'claude-opus-4-6'\nfallback = 'claude-opus-5-5'\n\
                     small = 'claude-sonnet-5-5'\nthinking = 'off'\n";
        let model = Shop::new(&[("a.toml", text)]).plan("", &named(&["a.toml"])).unwrap().jobs.remove(0).model;
        assert_eq!(model.thinking, Some(Thinking::Off));
        assert_eq!((model.fallback.unwrap().thinking, model.small.unwrap().thinking), (None, None));
    }

    #[test]
    fn a_fallback_of_a_lower_layer_gives_way_to_the_main_model() {
        let shop = Shop::new(&[("a.toml", b"prompt = 'x'\n[model]\nfallback = 'claude-opus-5'\n")]);
        let args = JobArgs { model: Some("claude-opus-5".into()), ..named(&["a.toml"]) };
        assert_eq!(shop.plan("", &args).unwrap().jobs[0].model.fallback, None);
    }

    #[test]
    fn further_models_of_a_recording_cost_nothing_and_bind_nothing() {
        let text = b"prompt = 'x'\nmax_cost_usd = 1\n[model]\nprovider = 'replay'\ncassette = 'c.jsonl'\n\
                     fallback = 'mystery-7'\nsmall = 'claude-haiku-5-5'\n";
        let plan = Shop::new(&[("a.toml", text), ("c.jsonl", b"")]).plan("", &named(&["a.toml"])).unwrap();
        let model = &plan.jobs[0].model;
        let (fallback, small) = (model.fallback.as_ref().unwrap(), model.small.as_ref().unwrap());
        assert_eq!((&fallback.provider, &fallback.prices), (&model.provider, &model.prices));
        assert!(!model.binds_thinking && !small.binds_thinking && plan.warnings.is_empty());
    }

    #[test]
    fn b024_a_long_prompt_arrives_whole() {
        let long = "\"%PATH%\" 'é' \\ \u{1f600}\n".repeat(10_000);
        let shop = Shop::new(&[("p.md", long.as_bytes()), ("a.toml", b"prompt_file = 'p.md'\n")]);
        assert_eq!(shop.plan("", &named(&["a.toml"])).unwrap().jobs[0].prompt, long);
    }

    #[test]
    fn b080_the_window_of_the_job_wins_over_the_table() {
        let shop = Shop::new(&[("a.toml", b"prompt = 'x'\n[model]\nname = 'claude-opus-5'\ncontext_window = 32768\n")]);
        assert_eq!(shop.plan("", &named(&["a.toml"])).unwrap().jobs[0].model.context_window.0, 32_768);
    }

    #[test]
    fn an_unknown_model_works_with_a_warning() {
        let shop = Shop::new(&[("a.toml", b"prompt = 'x'\nmodel = 'mystery-7'\n")]);
        let plan = shop.plan("", &named(&["a.toml"])).unwrap();
        let (job, warnings) = (&plan.jobs[0], &plan.warnings);
        assert_eq!((job.model.prices.clone(), job.limits.max_cost, job.model.context_window.0), (None, None, 200_000));
        assert_eq!(warnings.iter().map(|warning| warning.code).collect::<Vec<_>>(), [Code::UnknownModel]);
    }
}
