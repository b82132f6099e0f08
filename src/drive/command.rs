//! The entry: parses arguments, calls the command, prints its error in one place.

use super::apply::apply;
use super::check::check;
use super::matrix::matrix;
use super::publish::publish;
use super::resume::resume;
use super::run::run;
use super::say;
use super::{look, merged};
use crate::cli::{Cli, Command};
use crate::exit::ExitStatus;
use crate::load;
use clap::Parser;
use std::ffi::OsString;

/// Runs a command line.
pub fn command(args: impl Iterator<Item = OsString>) -> ExitStatus {
    let args: Vec<OsString> = args.collect();
    // For `resume`: an argument that is no text is shown so.
    let line = args.iter().skip(1).map(|arg| arg.to_string_lossy().into_owned()).collect();
    let cli = match Cli::try_parse_from(args) {
        Ok(cli) => cli,
        Err(error) => {
            // `--help` and `--version` come this way too, and are no error.
            let status = if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Passed };
            drop(error.print());
            return status;
        }
    };
    let snapshot = match load::snapshot() {
        Ok(snapshot) => snapshot,
        Err(error) => {
            say::error(&error.report());
            return error.exit();
        }
    };
    let result = match &cli.command {
        Command::Run(args) => run(args, &snapshot, line),
        Command::Runs(args) => Ok(look::runs(args, &snapshot)),
        Command::Show(args) => look::show(args, &snapshot),
        Command::Report(args) => merged::report(args, &snapshot),
        Command::Compare(args) => look::compare(args, &snapshot),
        Command::Explain(args) => look::explain(args),
        Command::Matrix(args) => matrix(args, &snapshot),
        Command::Resume(args) => resume(args, &snapshot),
        Command::Check(args) => check(args, &snapshot),
        Command::Publish(args) => publish(args, &snapshot),
        Command::Apply(args) => apply(args, &snapshot),
    };
    result.unwrap_or_else(|error| {
        say::error(&error.report());
        error.exit()
    })
}
