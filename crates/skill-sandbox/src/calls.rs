//! A seccomp filter that refuses system calls for memory outside of processes, for sandboxes without a cgroup.

use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
use std::collections::BTreeMap;

/// "Function not implemented": what a kernel without the call says.
const ENOSYS: u32 = 38;
/// `memfd_secret` has this number on every processor.
const MEMFD_SECRET: i64 = 447;
/// Anonymous files, System V segments and message queues: none of them has to be mapped by a process.
const REFUSED: [i64; 4] = [libc::SYS_memfd_create, MEMFD_SECRET, libc::SYS_shmget, libc::SYS_msgget];
/// The bit that marks system calls of the x32 interface, which would pass a filter of the usual numbers.
const X32: i64 = 0x4000_0000;

/// The filter as `bwrap --seccomp` reads it.
///
/// # Errors
///
/// A processor that the filter cannot be made for, in words.
pub(crate) fn filter() -> Result<Vec<u8>, String> {
    let architecture = std::env::consts::ARCH;
    let unknown = |error: &dyn std::fmt::Display| {
        format!("memory outside of processes cannot be limited on {architecture}: {error}")
    };
    let target = architecture.try_into().map_err(|error: seccompiler::BackendError| unknown(&error))?;
    let rules: BTreeMap<i64, _> =
        REFUSED.into_iter().flat_map(|call| [call, call | X32]).map(|call| (call, Vec::new())).collect();
    let made = SeccompFilter::new(rules, SeccompAction::Allow, SeccompAction::Errno(ENOSYS), target);
    let program: BpfProgram =
        made.and_then(TryInto::try_into).map_err(|error: seccompiler::BackendError| unknown(&error))?;
    let bytes = |instruction: &seccompiler::sock_filter| {
        let [code, k] = [instruction.code.to_ne_bytes().to_vec(), instruction.k.to_ne_bytes().to_vec()];
        [code, vec![instruction.jt, instruction.jf], k].concat()
    };
    Ok(program.iter().flat_map(bytes).collect())
}
