//! Answers what planning asks of the machine.

use super::read::{LIMIT, read_text};
use super::snapshot::Snapshot;
use crate::plan::World;
use std::path::Path;

/// The machine as it is, with the environment of a snapshot.
#[derive(Clone, Copy, Debug)]
pub struct Machine<'a>(pub &'a Snapshot);

impl World for Machine<'_> {
    fn text(&self, path: &Path) -> Result<String, String> {
        match read_text(path) {
            Ok(Ok(text)) => Ok(text),
            Ok(Err(bytes)) => {
                let good = String::from_utf8_lossy(&bytes).find('\u{fffd}').unwrap_or(0);
                Err(format!("it is not UTF-8 text, from byte {good} on"))
            }
            Err(error) if error.kind() == std::io::ErrorKind::FileTooLarge => {
                Err(format!("it is larger than {} MiB", LIMIT / 1024 / 1024))
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Err("there is no such file".into()),
            Err(error) => Err(error.to_string()),
        }
    }

    fn is_file(&self, path: &Path) -> bool {
        path.is_file()
    }

    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }

    fn has_program(&self, name: &str) -> bool {
        if name.contains('/') {
            return is_program(Path::new(name));
        }
        let folders = self.0.variable("PATH").unwrap_or("/usr/bin:/bin");
        std::env::split_paths(folders).any(|folder| is_program(&self.0.cwd.join(folder).join(name)))
    }

    fn has_variable(&self, name: &str) -> bool {
        self.0.variable(name).is_some()
    }
}

#[cfg(unix)]
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

#[cfg(not(unix))]
fn is_program(path: &Path) -> bool {
    path.is_file() || path.with_extension("exe").is_file()
}
