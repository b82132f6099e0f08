//! Arguments in, exit code out.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut args = std::env::args_os();
    if args.nth(1).is_some_and(|first| first == runner::process::SUBCOMMAND) {
        return runner::process::guard_main(args);
    }
    ExitCode::from(runner::run(std::env::args_os()).code())
}
