//! Publishes checked jobs, one after the other: quarantine, rules, push, pull request.

use super::check::Checked;
use super::forge::{Forge, Token, Wanted};
use super::leave::PUBLISHED;
use super::policy::DiffPolicy;
use super::record::{Published, SCHEMA, text};
use super::remote::Remote;
use super::request::{self, Facts};
use crate::model::Http;
use crate::output::Files;
use crate::process::Environment;
use crate::worktree::{Credentials, PushFault, Pushed, Quarantine, Repository};
use std::time::Duration;
use tokio::time::sleep;

/// Waits before the second and the third push to a server that cannot be reached.
const WAITS: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(4)];

/// Why a job was not published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The work, or what was left of it, is not fit; another try ends the same.
    Refused(String),
    /// The network, the server or the token.
    Failed(String),
}

impl Fault {
    /// The words.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Self::Refused(text) | Self::Failed(text) => text,
        }
    }
}

/// What all jobs that are published have in common.
#[derive(Debug)]
pub struct Publisher<'a> {
    /// Where the base of the work is.
    pub repository: &'a Repository,
    /// Where it goes.
    pub remote: &'a Remote,
    /// Who pushes; `None` leaves it to git.
    pub credentials: Option<Credentials>,
    /// Where the forge's API is, and its token; needed for pull requests.
    pub api: Result<Api, String>,
    /// The rules.
    pub policy: &'a DiffPolicy,
    /// The branch that pull requests are for, whatever the run says.
    pub target: Option<String>,
    /// Where the run can be seen.
    pub link: Option<String>,
    /// The connections.
    pub http: &'a Http,
    /// The door to the disk, which knows the secrets.
    pub files: &'a Files,
    /// What git runs with.
    pub env: &'a Environment,
    /// Look, but touch nothing.
    pub dry_run: bool,
}

/// The API of a forge.
#[derive(Clone)]
pub struct Api {
    /// Without a final slash.
    pub url: String,
    /// The token.
    pub token: String,
}

impl std::fmt::Debug for Api {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Api").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Publisher<'_> {
    /// Publishes a job, and writes down what was published. Doing it again changes nothing.
    ///
    /// # Errors
    /// A fault, in words without a secret. Nothing was pushed when it is the work that is refused.
    pub async fn publish(&self, job: &Checked) -> Result<(Published, Pushed), Fault> {
        let file = &job.file;
        if let Some(problem) = self.policy.branch_problem(&file.branch) {
            return Err(Fault::Refused(problem));
        }
        if file.target.as_deref() == Some(&file.branch) || self.target.as_deref() == Some(&file.branch) {
            return Err(Fault::Refused(format!("the branch `{}` is the one that the work is for", file.branch)));
        }
        let record = job.folder.join(PUBLISHED);
        if record.symlink_metadata().is_ok_and(|about| !about.is_file()) {
            return Err(Fault::Refused(format!("{} is no regular file", record.display())));
        }
        // All that can be missing is asked for before anything is pushed.
        let forge = if file.on_pass == "pull-request" { Some(self.forge()?) } else { None };
        let quarantine = Quarantine::beside(self.repository, self.env).await.map_err(Fault::Failed)?;
        let taken = quarantine.take(job.bundle.clone(), &file.base, &file.commit, &file.branch).await;
        taken.map_err(|why| Fault::Refused(format!("the bundle is not taken: {why}")))?;
        let (steps, whole) = quarantine.changes(&file.base, &file.commit).await.map_err(Fault::Refused)?;
        let problems = self.policy.problems(&steps, &whole, self.files.redactor());
        if !problems.is_empty() {
            let hint = "look at it, and name by --allow what may be published all the same";
            return Err(Fault::Refused(format!(
                "its changes are not published unseen ({hint}):\n    {}",
                problems.join("\n    ")
            )));
        }
        let pushed = if self.dry_run { Pushed::Before } else { self.push(&quarantine, job).await? };
        let pull_request = match forge {
            Some(forge) if !self.dry_run => {
                let made = forge.ensure(&self.wanted(job)).await;
                Some(made.map_err(|why| {
                    Fault::Failed(format!(
                        "the branch `{}` is pushed, but there is no pull request: {}",
                        file.branch,
                        self.redacted(&why)
                    ))
                })?)
            }
            Some(_) | None => None,
        };
        let published = Published {
            schema: SCHEMA,
            run: file.run.clone(),
            job: file.job.clone(),
            remote: self.remote.url.clone(),
            branch: file.branch.clone(),
            commit: file.commit.clone(),
            pull_request,
        };
        if !self.dry_run {
            let written = self.files.replace(&record, &text(&published));
            written.map_err(|error| Fault::Failed(format!("it is published, but {error}")))?;
        }
        Ok((published, pushed))
    }

    fn forge(&self) -> Result<Forge<'_>, Fault> {
        let api = self.api.as_ref().map_err(|why| Fault::Failed(why.clone()))?;
        let names = self.remote.repository.as_ref();
        let (owner, name) = names.ok_or_else(|| {
            Fault::Failed(format!(
                "{} names no owner and no repository, so there is nowhere to open a pull request",
                self.remote.url
            ))
        })?;
        Ok(Forge { http: self.http, api: &api.url, owner, name, token: Token(&api.token) })
    }

    fn wanted(&self, job: &Checked) -> Wanted {
        let file = &job.file;
        let facts = Facts {
            report: &job.report,
            run: &file.run,
            asked: &file.asked,
            link: self.link.as_deref(),
            version: &file.runner,
        };
        Wanted {
            head: file.branch.clone(),
            base: self.target.clone().or_else(|| file.target.clone()),
            title: self.redacted(&request::title(facts)),
            body: self.redacted(&request::body(facts)),
            draft: !job.passed(),
        }
    }

    async fn push(&self, quarantine: &Quarantine, job: &Checked) -> Result<Pushed, Fault> {
        let (commit, branch) = (&job.file.commit, &job.file.branch);
        let mut waits = WAITS.iter();
        loop {
            let pushed = quarantine.push(&self.remote.url, commit, branch, self.credentials.as_ref()).await;
            let fault = match pushed {
                Ok(pushed) => return Ok(pushed),
                Err(fault) => fault,
            };
            let at = format!("`{branch}` of {}", self.remote.url);
            return Err(match (fault, waits.next()) {
                (PushFault::Unreachable(_), Some(wait)) => {
                    sleep(*wait).await;
                    continue;
                }
                (PushFault::Unreachable(why), None) => {
                    Fault::Failed(format!("{at} cannot be reached: {}", self.redacted(&why)))
                }
                (PushFault::Foreign(why), _) => Fault::Refused(format!(
                    "{at} holds other work, which is not overwritten: {}; delete that branch or publish to another one",
                    self.redacted(&why)
                )),
                (PushFault::Refused(why), _) => {
                    Fault::Failed(format!("the server refuses {at}: {}", self.redacted(&why)))
                }
                (PushFault::Denied(why), _) => Fault::Failed(format!(
                    "{at} may not be pushed to: {}; {}",
                    self.redacted(&why),
                    match self.credentials {
                        Some(_) => "is the token right, and may it write?",
                        None =>
                            "no token was found: set RUNNER_PUBLISH_TOKEN, or name the variable that holds it by --token-env",
                    }
                )),
            });
        }
    }

    fn redacted(&self, text: &str) -> String {
        let text = self.files.redacted(text);
        let text = self.credentials.as_ref().map_or_else(|| text.clone(), |known| known.redacted(&text));
        match &self.api {
            Ok(api) => text.replace(&api.token, "[redacted]"),
            Err(_) => text,
        }
    }
}
