//! Arguments of the commands that bring work to where it is wanted.

use clap::Args;

/// Arguments of `runner publish`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
#[command(after_help = "\
Variables: RUNNER_PUBLISH_TOKEN (or GITHUB_TOKEN, GH_TOKEN for GitHub's own host), RUNNER_PUBLISH_TOKEN_ENV, RUNNER_PUBLISH_USER,
RUNNER_PUBLISH_REMOTE, RUNNER_PUBLISH_API_URL, RUNNER_PUBLISH_BASE, RUNNER_PUBLISH_ALLOW, RUNNER_PUBLISH_BRANCHES.
Exit codes: 0 all is published, 1 something is refused, 2 usage, 3 the network, the server or the token.")]
pub struct PublishArgs {
    /// A run, or one job of it: an id, the beginning of one, `last`, or a folder.
    #[arg(value_name = "RUN[/JOB]")]
    pub what: String,

    /// The digest that the run told at its end; without it the files are held against each other alone.
    #[arg(long, value_name = "SHA256")]
    pub digest: Option<String>,

    /// Publish jobs that did not pass too, as drafts.
    #[arg(long)]
    pub include_failed: bool,

    /// Push to this remote [default: origin].
    #[arg(long, value_name = "NAME")]
    pub remote: Option<String>,

    /// The name of the variable that holds the token.
    #[arg(long, value_name = "VARIABLE")]
    pub token_env: Option<String>,

    /// Where the forge's API is [default: as GitHub has it at the remote's host].
    #[arg(long, value_name = "URL")]
    pub api_url: Option<String>,

    /// The branch that pull requests are for [default: what the job started from, else the repository's default].
    #[arg(long, value_name = "BRANCH")]
    pub base: Option<String>,

    /// Paths that may hold what is refused elsewhere: protected files, binaries, links, submodules, what looks like a secret.
    #[arg(long, value_name = "GLOB")]
    pub allow: Vec<String>,

    /// Branches that may be pushed to [default: runner/**].
    #[arg(long, value_name = "GLOB")]
    pub branches: Vec<String>,

    /// The most changed files of a job [default: 300].
    #[arg(long, value_name = "N")]
    pub max_files: Option<usize>,

    /// The most changed lines of a job [default: 10000].
    #[arg(long, value_name = "N")]
    pub max_lines: Option<u64>,

    /// The most bytes in changed files of a job [default: 10485760].
    #[arg(long, value_name = "N")]
    pub max_bytes: Option<u64>,

    /// Check everything, and touch nothing.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `runner apply`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ApplyArgs {
    /// The job: an id of a run, the beginning of one, `last`, or a folder, and the job's name.
    #[arg(value_name = "RUN/JOB")]
    pub what: String,

    /// Check the job's branch out, instead of changing the files of what is checked out.
    #[arg(long)]
    pub branch: bool,
}
