//! `skillrl config`: what is configured, and where each value comes from.

use crate::args::ConfigArgs;

pub(crate) fn show(args: &ConfigArgs) -> anyhow::Result<()> {
    super::print(&super::load(args)?.display_with_origins())
}
