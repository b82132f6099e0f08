//! Setup commands: they make a worktree ready before the agent starts.

use super::call::{hint, last_of, meaning, start};
use crate::plan::CommandLine;
use crate::process::{End, Environment};
use crate::units::show_duration;
use std::path::Path;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// What went wrong with a setup command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SetupProblem {
    /// The end of a sentence: `failed with exit code 1`.
    pub how: String,
    /// The end of its output, cleaned.
    pub tail: String,
}

/// Runs a setup command. Its whole output goes to `log`, up to 64 MiB.
///
/// # Errors
/// When it did not end by itself with exit code 0.
pub async fn run_setup(
    command: &CommandLine,
    cwd: &Path,
    env: &Environment,
    limit: Duration,
    log: &Path,
    cancel: &CancellationToken,
) -> Result<(), SetupProblem> {
    let finished = start(command, cwd, env, limit, log, cancel).await;
    let how = match &finished.end {
        End::Exited(0) => return Ok(()),
        End::Exited(code) => format!("failed with exit code {code}{}", meaning(*code)),
        End::Signaled(signal) => format!("was killed by signal {signal}{}", hint(*signal)),
        End::TimedOut => format!("did not end within {}", show_duration(limit)),
        End::Cancelled => "was cancelled".to_owned(),
        End::NotStarted { message, .. } => format!("could not be run: {message}"),
    };
    Err(SetupProblem { how, tail: last_of(&finished) })
}

#[cfg(test)]
mod tests {
    use super::super::scene::{ENOUGH, Scene};
    use super::*;
    use std::fs;

    impl Scene {
        async fn setup(&self, line: &str, limit: Duration) -> Result<(), SetupProblem> {
            let command = CommandLine::Shell(line.to_owned());
            run_setup(&command, self.folder.path(), &self.env, limit, &self.log(), &self.cancel).await
        }
    }

    #[tokio::test]
    async fn setup_says_how_it_failed() {
        let scene = Scene::new();
        assert_eq!(scene.setup("echo fine", ENOUGH).await, Ok(()));
        assert_eq!(fs::read_to_string(scene.log()).unwrap(), "fine\n");
        for (line, how) in [
            ("echo said; exit 7", "failed with exit code 7"),
            ("echo said; absent-program 2>/dev/null", "failed with exit code 127: a program was not found"),
            ("echo said; kill -TERM $$", "was killed by signal 15"),
        ] {
            let problem = scene.setup(line, ENOUGH).await.unwrap_err();
            assert_eq!((problem.how.as_str(), problem.tail.as_str()), (how, "said\n"));
        }
        let problem = scene.setup("sleep 1000", Duration::from_millis(300)).await.unwrap_err();
        assert_eq!(problem.how, "did not end within 0.3s");
    }
}
