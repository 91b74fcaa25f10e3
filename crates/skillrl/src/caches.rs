//! Where results are kept for later runs of this user.

use std::path::PathBuf;

/// The directory of this name among the user's caches: in `XDG_CACHE_HOME`, else in `~/.cache`; `None` where neither is
/// known.
pub fn cache_dir(name: &str) -> Option<PathBuf> {
    let of_variable =
        |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let caches = of_variable("XDG_CACHE_HOME").or_else(|| Some(of_variable("HOME")?.join(".cache")))?;
    Some(caches.join("skillrl").join(name))
}
