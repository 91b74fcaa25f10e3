//! Files in memory, for tests and runs that flush thousands of small ones.

use xshell::{Shell, cmd};

/// A directory whose files are in memory.
pub(crate) const SHARED_MEMORY: &str = "/dev/shm";

/// True if memory has room for the files of many runs.
pub(crate) fn has_room_in_memory(sh: &Shell) -> bool {
    const ROOM_KIB: u64 = 4 << 20;
    let room = cmd!(sh, "df --output=avail -k {SHARED_MEMORY}").quiet().ignore_stderr().read();
    let room = room.ok().and_then(|text| text.lines().last()?.trim().parse::<u64>().ok());
    room.is_some_and(|room| room >= ROOM_KIB)
}
