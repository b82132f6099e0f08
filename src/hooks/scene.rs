//! Where the tests of this module run their commands.

use super::wire::HookSession;
use crate::process::Environment;
use std::path::PathBuf;
use std::time::Duration;
use tempfile::TempDir;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes.
pub(super) const ENOUGH: Duration = Duration::from_mins(1);

pub(super) struct Scene {
    pub(super) folder: TempDir,
    pub(super) env: Environment,
    pub(super) cancel: CancellationToken,
}

impl Scene {
    pub(super) fn new() -> Self {
        let mut env = Environment::default();
        #[expect(clippy::disallowed_methods, reason = "tests start programs from where the person has them")]
        env.set("PATH", std::env::var("PATH").unwrap());
        Self { folder: tempfile::tempdir().unwrap(), env, cancel: CancellationToken::new() }
    }

    pub(super) fn log(&self) -> PathBuf {
        self.folder.path().join("logs/gate-1.log")
    }
}

pub(super) fn session() -> HookSession {
    HookSession { session_id: "s1".into(), transcript_path: "/run/transcript.jsonl".into(), agent: None }
}
