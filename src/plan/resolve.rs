//! From what was written in several layers to what will run, or to every reason why it cannot.

use super::course::{Said, between};
use super::expand::{Expansion, expand};
use super::job::{PlannedJob, Source};
use super::layers::{Setting, built_in, layered, settings, settle};
use super::task::plan_job;
use super::world::{Purpose, World};
use crate::spec::{Code, Diagnostic, JobSpec, Layer, Place, SourceFile};
use crate::units::{JobId, RunId};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// A job file.
#[derive(Clone, Debug)]
pub struct JobFile {
    /// Its text.
    pub source: Arc<SourceFile>,
    /// The stem of its name: what its jobs are called by default.
    pub stem: String,
    /// What it says; `None` where it is not TOML.
    pub spec: Option<JobSpec>,
}

/// What a plan is made from.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// The job files, in the order in which their jobs are planned.
    pub files: &'a [JobFile],
    /// `[defaults]` of `runner.toml`, where there is one.
    pub settings: Option<&'a JobSpec>,
    /// What flags say about every job.
    pub flags: &'a JobSpec,
    /// The value of `{{ run }}`.
    pub run: &'a RunId,
    /// The working directory: the default of `repo`.
    pub cwd: &'a Path,
    /// What the plan is for.
    pub purpose: Purpose,
    /// The machine.
    pub world: &'a dyn World,
}

/// What will run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The jobs, in the order of their files and of the combinations of their matrices.
    pub jobs: Vec<PlannedJob>,
    /// By job: what was set above the built-in defaults, and where.
    pub settings: BTreeMap<JobId, Vec<Setting>>,
    /// What is worth knowing before it runs.
    pub warnings: Vec<Diagnostic>,
}

/// Plans all jobs. `found` is what reading the files has found already.
///
/// # Errors
/// Every error of every file in one go, in the order of the files, with the warnings between them.
pub fn resolve(request: &Request<'_>, found: Vec<Diagnostic>) -> Result<Plan, Vec<Diagnostic>> {
    let mut planner =
        Planner { request, found, jobs: Vec::new(), said: Vec::new(), names: Vec::new(), settings: BTreeMap::new() };
    let (defaults, faults) = built_in(request.cwd);
    planner.found.extend(faults);
    for file in request.files {
        planner.file(file, &defaults);
    }
    planner.missing_keys();
    planner.shared_branches();
    planner.between_jobs();
    planner.finish()
}

struct Planner<'a> {
    request: &'a Request<'a>,
    found: Vec<Diagnostic>,
    /// Each job with the place that its branch comes from.
    jobs: Vec<(PlannedJob, Place)>,
    /// For each of them, where it says what other jobs matter to it.
    said: Vec<Said>,
    /// The names so far, also of jobs that something else is wrong with.
    names: Vec<(JobId, Place)>,
    settings: BTreeMap<JobId, Vec<Setting>>,
}

impl Planner<'_> {
    fn file(&mut self, file: &JobFile, defaults: &JobSpec) {
        let Some(spec) = &file.spec else { return };
        let layers = [Some(self.request.flags), Some(spec), self.request.settings, Some(defaults)];
        let layers: Vec<&JobSpec> = layers.into_iter().flatten().collect();
        let mut merged = layered(&layers);
        self.found.extend(settle(&mut merged));
        let written = settings(&merged, defaults);
        let Expansion { named, found } = expand(file, &merged, self.request.run);
        self.found.extend(found);
        for job in named {
            self.unique(&job.id, &job.place);
            let (planned, found) = plan_job(self.request, file, &merged, defaults, &job);
            self.found.extend(found);
            if let Some(planned) = planned {
                self.settings.insert(planned.id.clone(), written.clone());
                self.said.push(Said::of(&merged, &job.place));
                let branch = merged.worktree.branch.as_ref().filter(|branch| branch.layer() != Layer::BuiltIn);
                self.jobs.push((planned, branch.map_or(job.place, |branch| branch.place.clone())));
            }
        }
    }

    /// Names are unique in a run, and on file systems that do not tell cases apart.
    fn unique(&mut self, id: &JobId, place: &Place) {
        let same = |other: &JobId| other.as_str().eq_ignore_ascii_case(id.as_str());
        let Some((first, at)) = self.names.iter().find(|(name, _)| same(name)) else {
            self.names.push((id.clone(), place.clone()));
            return;
        };
        let (message, help) = if first == id {
            (format!("two jobs have the name `{id}`"), "give one of them another `name`")
        } else {
            (format!("the names `{first}` and `{id}` differ in case only"), "folders would not tell them apart")
        };
        let report = Diagnostic::error(Code::DuplicateName, message)
            .at(place.clone(), "this job")
            .also(at.clone(), "and this job")
            .help(help);
        self.found.push(report);
    }

    /// The keys of models must be there before any money is spent.
    fn missing_keys(&mut self) {
        let mut missing: BTreeMap<&str, Vec<&JobId>> = BTreeMap::new();
        for (job, _) in &self.jobs {
            let key = job.model.provider.key_variable();
            if let Some(name) = key.filter(|name| !self.request.world.has_variable(name)) {
                missing.entry(name).or_default().push(&job.id);
            }
        }
        for (name, jobs) in missing {
            let shown: Vec<_> = jobs.iter().take(3).map(|id| format!("`{id}`")).collect();
            let more = if jobs.len() > 3 { format!(" and {} more", jobs.len() - 3) } else { String::new() };
            let report = Diagnostic::error(Code::KeyMissing, format!("the variable {name} is not set"))
                .note(format!("it holds the key of the model for {}{more}", shown.join(", ")))
                .help("set it, or name another one: api_key_env in [model]");
            self.found.push(report);
        }
    }

    /// Two jobs of one repository cannot make one branch, nor one below the other.
    fn shared_branches(&mut self) {
        let mut taken: Vec<(&Path, &str, &JobId, &Place)> = Vec::new();
        let mut found = Vec::new();
        for (job, place) in &self.jobs {
            // Each fixture becomes a repository of its own.
            let Source::Repo(repo) = &job.source else { continue };
            let branch = job.worktree.branch.as_str();
            let below = |one: &str, other: &str| one.strip_prefix(other).is_some_and(|rest| rest.starts_with('/'));
            let clash = taken.iter().find(|(other_repo, other, ..)| {
                *other_repo == repo && (*other == branch || below(branch, other) || below(other, branch))
            });
            // Two jobs of one name are reported as such.
            if let Some((_, other, id, at)) = clash.filter(|(.., id, _)| **id != job.id) {
                let message = if *other == branch {
                    format!("the jobs `{id}` and `{}` would make the same branch `{branch}`", job.id)
                } else {
                    format!("the branches `{other}` and `{branch}` cannot be there at the same time")
                };
                let report = Diagnostic::error(Code::Conflict, message).at(place.clone(), "this branch");
                let report = if *at == place { report } else { report.also((*at).clone(), "and this branch") };
                found.push(
                    report.help("let the name of the job be a part of it: branch = \"runner/{{ run }}/{{ job }}\""),
                );
            }
            taken.push((repo, branch, &job.id, place));
        }
        self.found.extend(found);
    }

    /// Needs, bases and groups. Where some job could not be planned, a need that names it would be reported too: those come later.
    fn between_jobs(&mut self) {
        if self.jobs.len() == self.names.len() {
            let jobs: Vec<_> = self.jobs.iter().map(|(job, _)| job).zip(&self.said).collect();
            self.found.extend(between(&jobs));
        }
    }

    fn finish(self) -> Result<Plan, Vec<Diagnostic>> {
        let files = self.request.files;
        let mut found: Vec<Diagnostic> = Vec::new();
        // The combinations of a matrix find the same again and again.
        for diagnostic in self.found {
            if !found.contains(&diagnostic) {
                found.push(diagnostic);
            }
        }
        found.sort_by_key(|diagnostic| match &diagnostic.at {
            Some((place, _)) => {
                let file = files.iter().position(|file| Arc::ptr_eq(&file.source, &place.file));
                (place.file.layer() != Layer::Settings, file.unwrap_or(files.len()), place.span.start)
            }
            None => (true, usize::MAX, 0),
        });
        if found.iter().any(Diagnostic::is_error) {
            return Err(found);
        }
        let jobs = self.jobs.into_iter().map(|(job, _)| job).collect();
        Ok(Plan { jobs, settings: self.settings, warnings: found })
    }
}
