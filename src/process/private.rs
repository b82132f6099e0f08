//! Keeps what this process holds from other processes of the same user.

/// Makes this process's memory and environment unreadable for other processes of the same user (on Linux): a command of an agent
/// must not find keys and tokens in `/proc`. Root reads them all the same. Children are as readable as ever; they are given
/// no secrets. Does nothing on other systems.
pub fn keep_private() {
    #[cfg(target_os = "linux")]
    {
        use rustix::process::{DumpableBehavior, set_dumpable_behavior};
        // Where it is refused nothing is lost but this.
        let _refused = set_dumpable_behavior(DumpableBehavior::NotDumpable);
    }
}
