//! `skillrl config`: what is configured, and where each value comes from.

use crate::args::{Start, StartArgs};

pub(crate) fn show(args: &StartArgs) -> crate::Result {
    // Files that it names need not be there: this shows settings alone.
    let loaded = crate::start::read(&Start { is_training: true, ..args.start() })?;
    crate::start::say_mapping(&loaded);
    super::print(&loaded.display_with_origins())
}
