//! `skillrl config`: what is configured, and where each value comes from.

use crate::args::StartArgs;

pub(crate) fn show(args: &StartArgs) -> anyhow::Result<()> {
    super::print(&super::start::load_start(&args.start(), true)?.display_with_origins())
}
