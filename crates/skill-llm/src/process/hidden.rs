//! The environment of this process, hidden from the programs that it starts.

use std::io;

/// Hides the environment and the memory of this process from other processes of the same user, where the system
/// supports it, and tells whether it does.
///
/// A key in a variable would otherwise be readable for every program that this process starts
/// (`/proc/PID/environ`). The process is made non-dumpable: no debugger can attach, no core file is written, and the
/// files in `/proc/PID` belong to root, who can still read them. Programs that are started are as dumpable as ever.
///
/// It concerns the whole process, so no library function calls it; the program `skillrl` does, first of all. Anyone who
/// uses this library with keys in the environment should do the same.
///
/// # Errors
///
/// The system refuses.
#[cfg(target_os = "linux")]
pub fn hide_this_process() -> io::Result<bool> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    Ok(true)
}

/// Tells that there is no such thing here.
///
/// # Errors
///
/// None.
#[cfg(not(target_os = "linux"))]
pub fn hide_this_process() -> io::Result<bool> {
    Ok(false)
}
