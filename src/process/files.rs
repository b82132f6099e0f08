//! How many files the process may have open.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Raises the number of files that may be open at once to what the system allows without asking anybody: a thousand jobs need
/// several each.
pub fn open_many_files() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current < limit.maximum || limit.maximum.is_none() {
        // Where it is refused, jobs that cannot open a file say so.
        let _refused = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}
