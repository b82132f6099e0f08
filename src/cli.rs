//! The command line. The help text is the documentation; nothing here is looked up or interpreted.

mod publish;

pub use publish::{ApplyArgs, PublishArgs};

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// Runs coding agents as batch and CI jobs: job files in, judged work and JUnit out.
#[derive(Clone, Debug, PartialEq, Parser)]
#[command(name = "runner", version, max_term_width = 100, subcommand_required = true, arg_required_else_help = true)]
#[command(after_help = "\
Exit codes: 0 every job passed, 1 some job failed, 2 usage or job files wrong and nothing was run,
3 some job could not be judged, 4 no job matched, 130 or 143 interrupted.")]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Clone, Debug, PartialEq, Subcommand)]
pub enum Command {
    /// Run jobs.
    Run(RunArgs),
    /// Check jobs without a model, and print the plan.
    Check(CheckArgs),
    /// List the runs of this repository.
    Runs(RunsArgs),
    /// Show a run, or one of its jobs: how it ended, its gates, its cost, where its files are.
    Show(ShowArgs),
    /// Write the reports of several runs, or of the parts of one batch, as those of one run.
    Report(ReportArgs),
    /// Put two runs side by side: what fails now, what passes now, what it cost.
    Compare(CompareArgs),
    /// Say what a code in a report means, and what to do about it.
    Explain(ExplainArgs),
    /// Print the matrix of a CI fan-out: one entry for each part of the batch.
    Matrix(MatrixArgs),
    /// Go on with a run that was interrupted or killed: finished jobs stay, the others go on where they were.
    Resume(ResumeArgs),
    /// Push what a run left to be published, and open pull requests.
    Publish(PublishArgs),
    /// Take a job's work into the current checkout.
    Apply(ApplyArgs),
}

/// Which jobs, and what is changed in all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Args)]
pub struct JobArgs {
    /// Job files, folders of them, or globs; `-` reads one from standard input [default: jobs/*.toml].
    #[arg(value_name = "JOBS")]
    pub jobs: Vec<String>,

    /// Run this task, without a job file.
    #[arg(short, long, value_name = "TEXT", conflicts_with = "jobs", allow_hyphen_values = true)]
    pub prompt: Option<String>,

    /// Use this model, whatever the job files say.
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,

    /// Try each job again up to N times, whatever the job files say.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(0..=20))]
    pub retries: Option<u32>,

    /// Which of the planned jobs: a name or a glob, `tag:`, `file:`, `verdict:` or `reason:` (of the last run), joined by `and`, `or`,
    /// `not` and parentheses. Of several, each adds its jobs. Jobs that a chosen one needs are run too.
    #[arg(long, value_name = "EXPR")]
    pub filter: Vec<String>,

    /// The I-th of N parts of the batch; jobs that need each other stay together. GitLab, `CircleCI`, Buildkite, Slurm arrays and indexed
    /// Kubernetes jobs say it by their variables; `1/1` is everything.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<String>,

    /// Balance the parts by how long the jobs took in this run, instead of by a hash of their names.
    #[arg(long, value_name = "RUN")]
    pub shard_by: Option<String>,

    /// Only the jobs that did not pass in this run; a job that passed there counts as passed for those that need it.
    #[arg(long, value_name = "RUN")]
    pub rerun_failed: Option<String>,

    /// Of those, only the ones that ended for one of these reasons.
    #[arg(long, value_name = "REASONS", value_delimiter = ',', requires = "rerun_failed")]
    pub reason: Vec<String>,

    /// What standard input holds, when it was read before.
    #[arg(skip)]
    pub input: Option<Vec<u8>>,
}

/// Arguments of `runner run`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RunArgs {
    /// Which jobs.
    #[command(flatten)]
    pub which: JobArgs,

    /// Run at most N jobs at once [default: 4 for each processor, but 8 to 32].
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub at_once: Option<u16>,

    /// Once a job has not passed, start no further one and stop those that run.
    #[arg(long, conflicts_with = "max_failures")]
    pub fail_fast: bool,

    /// The same once N jobs have not passed.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_failures: Option<u32>,

    /// Spend at most so many dollars on the whole run.
    #[arg(long, value_name = "USD")]
    pub max_cost_usd: Option<String>,

    /// End the whole run after this time, such as `8h` or `90m`; what was done by then is judged.
    #[arg(long, value_name = "TIME")]
    pub timeout: Option<String>,

    /// Write the JUnit report here too; the run folder always has one.
    #[arg(long, value_name = "PATH")]
    pub junit: Option<PathBuf>,

    /// Write the events of the run here too, one JSON object a line; `-` is standard output.
    #[arg(long, value_name = "PATH")]
    pub events: Option<PathBuf>,

    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Pretty)]
    pub format: Format,

    /// When to use colours.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,

    /// Print the result only, no progress.
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print more about each step.
    #[arg(short, long)]
    pub verbose: bool,

    /// Print the plan and stop before anything is run.
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `runner runs`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct RunsArgs {
    /// How many, newest last.
    #[arg(long, value_name = "N", default_value_t = 20)]
    pub limit: usize,

    /// How the list is printed.
    #[arg(long, value_enum, default_value_t = PlanFormat::Pretty)]
    pub format: PlanFormat,
}

/// Arguments of `runner show`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ShowArgs {
    /// The run, or RUN/JOB: its name, the beginning of one, its folder, or `last`.
    #[arg(value_name = "RUN[/JOB]", default_value = "last")]
    pub what: String,

    /// Print the job's patch too.
    #[arg(long)]
    pub diff: bool,

    /// Print what was said in the job too.
    #[arg(long)]
    pub transcript: bool,

    /// How it is printed.
    #[arg(long, value_enum, default_value_t = PlanFormat::Pretty)]
    pub format: PlanFormat,
}

/// Arguments of `runner report`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ReportArgs {
    /// The runs: names, beginnings of names, folders, `last`. Of two that ran a job, the later one is believed.
    #[arg(value_name = "RUN", required = true)]
    pub runs: Vec<String>,

    /// Write the merged run into this folder [default: beside the runs, as ID-merged].
    #[arg(long, value_name = "DIR")]
    pub out: Option<PathBuf>,

    /// Write the JUnit report here too.
    #[arg(long, value_name = "PATH")]
    pub junit: Option<PathBuf>,

    /// When to use colours.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Arguments of `runner compare`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CompareArgs {
    /// The earlier run.
    #[arg(value_name = "A")]
    pub before: String,

    /// The later run.
    #[arg(value_name = "B", default_value = "last")]
    pub after: String,

    /// How it is printed.
    #[arg(long, value_enum, default_value_t = PlanFormat::Pretty)]
    pub format: PlanFormat,
}

/// Arguments of `runner explain`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ExplainArgs {
    /// A reason, a terminal, a transition, an exit code [default: list all].
    #[arg(value_name = "CODE")]
    pub code: Option<String>,
}

/// Arguments of `runner matrix`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct MatrixArgs {
    /// Which jobs.
    #[command(flatten)]
    pub which: JobArgs,

    /// How many parts at most; none is empty.
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=256), default_value_t = 4)]
    pub shards: u32,

    /// When to use colours.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// Arguments of `runner resume`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct ResumeArgs {
    /// The run: its name, the beginning of one, its folder, or `last` [default: the last one that is not over].
    #[arg(value_name = "RUN")]
    pub run: Option<String>,

    /// Go on though something has changed since: job files, base commits, the model, the runner itself.
    #[arg(long)]
    pub allow_changes: bool,

    /// Run at most N jobs at once [default: as many as before].
    #[arg(short = 'j', long = "jobs", value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub at_once: Option<u16>,

    /// How the result is printed.
    #[arg(long, value_enum, default_value_t = Format::Pretty)]
    pub format: Format,

    /// When to use colours.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,

    /// Print the result only, no progress.
    #[arg(short, long, conflicts_with = "verbose")]
    pub quiet: bool,

    /// Print more about each step.
    #[arg(short, long)]
    pub verbose: bool,
}

/// Arguments of `runner check`.
#[derive(Clone, Debug, PartialEq, Eq, Args)]
pub struct CheckArgs {
    /// Which jobs.
    #[command(flatten)]
    pub which: JobArgs,

    /// How the plan is printed.
    #[arg(long, value_enum, default_value_t = PlanFormat::Pretty)]
    pub format: PlanFormat,

    /// When to use colours.
    #[arg(long, value_enum, default_value_t = Color::Auto)]
    pub color: Color,
}

/// How a result is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// Progress lines on a terminal, and a table.
    Pretty,
    /// One line for each step, and a table.
    Plain,
    /// The result as JSON.
    Json,
}

/// How a plan is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PlanFormat {
    /// For people.
    Pretty,
    /// As JSON.
    Json,
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Color {
    /// On a terminal, as `NO_COLOR`, `CLICOLOR_FORCE` and `TERM` allow.
    Auto,
    /// Always.
    Always,
    /// Never.
    Never,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    fn run(args: &[&str]) -> Result<RunArgs, String> {
        let all = ["runner", "run"].iter().chain(args);
        let parsed = Cli::try_parse_from(all).map_err(|error| error.to_string())?;
        if let Command::Run(args) = parsed.command { Ok(args) } else { Err("another command".into()) }
    }

    #[test]
    fn the_definition_is_sound() {
        Cli::command().debug_assert();
    }

    #[test]
    fn files_and_flags_are_told_apart() {
        let args = run(&["a.toml", "jobs", "-", "-j", "3", "--junit", "x.xml", "--events", "-", "-v"]).unwrap();
        assert_eq!(args.which.jobs, ["a.toml", "jobs", "-"]);
        assert_eq!((args.at_once, args.verbose, args.format), (Some(3), true, Format::Pretty));
        assert_eq!(args.events, Some(PathBuf::from("-")));
        assert_eq!(run(&["-p", "- fix it"]).unwrap().which.prompt.as_deref(), Some("- fix it"));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for bad in [
            &["-j", "0"][..],
            &["-j", "-1"],
            &["-p", "x", "a.toml"],
            &["-q", "-v"],
            &["--format", "xml"],
            &["--color", "maybe"],
            &["--nonsense"],
        ] {
            assert!(run(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_help_of_run() {
        let mut command = Cli::command().term_width(100);
        let help = command.find_subcommand_mut("run").unwrap().render_help().to_string();
        insta::assert_snapshot!(help, @"
        Run jobs

        Usage: run [OPTIONS] [JOBS]...

        Arguments:
          [JOBS]...  Job files, folders of them, or globs; `-` reads one from standard input [default:
                     jobs/*.toml]

        Options:
          -p, --prompt <TEXT>       Run this task, without a job file
              --model <NAME>        Use this model, whatever the job files say
              --retries <N>         Try each job again up to N times, whatever the job files say
              --filter <EXPR>       Which of the planned jobs: a name or a glob, `tag:`, `file:`, `verdict:`
                                    or `reason:` (of the last run), joined by `and`, `or`, `not` and
                                    parentheses. Of several, each adds its jobs. Jobs that a chosen one
                                    needs are run too
              --shard <I/N>         The I-th of N parts of the batch; jobs that need each other stay
                                    together. GitLab, `CircleCI`, Buildkite, Slurm arrays and indexed
                                    Kubernetes jobs say it by their variables; `1/1` is everything
              --shard-by <RUN>      Balance the parts by how long the jobs took in this run, instead of by a
                                    hash of their names
              --rerun-failed <RUN>  Only the jobs that did not pass in this run; a job that passed there
                                    counts as passed for those that need it
              --reason <REASONS>    Of those, only the ones that ended for one of these reasons
          -j, --jobs <N>            Run at most N jobs at once [default: 4 for each processor, but 8 to 32]
              --fail-fast           Once a job has not passed, start no further one and stop those that run
              --max-failures <N>    The same once N jobs have not passed
              --max-cost-usd <USD>  Spend at most so many dollars on the whole run
              --timeout <TIME>      End the whole run after this time, such as `8h` or `90m`; what was done
                                    by then is judged
              --junit <PATH>        Write the JUnit report here too; the run folder always has one
              --events <PATH>       Write the events of the run here too, one JSON object a line; `-` is
                                    standard output
              --format <FORMAT>     How the result is printed [default: pretty] [possible values: pretty,
                                    plain, json]
              --color <COLOR>       When to use colours [default: auto] [possible values: auto, always,
                                    never]
          -q, --quiet               Print the result only, no progress
          -v, --verbose             Print more about each step
              --dry-run             Print the plan and stop before anything is run
          -h, --help                Print help (see more with '--help')
        ");
    }
}
