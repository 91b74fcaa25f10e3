//! `skillrl mcp`: runs for agents, over the Model Context Protocol.

use crate::args::McpArgs;

#[cfg(feature = "mcp")]
pub(crate) fn run(args: &McpArgs) -> crate::Result {
    use super::CommandError;
    use crate::error::OfFile as _;
    use skill_mcp::{McpError, McpOptions, McpServer};
    use skillrl::pipeline::StopSignal;

    let of_mcp = |error: McpError| CommandError::of(&error).with_hint(error.hint());
    let program = std::env::current_exe().trying_to("find this program, which is what trains")?;
    let options = McpOptions {
        max_calls: args.max_calls,
        max_money: args.max_money,
        is_read_only: args.read_only,
        ..McpOptions::new(crate::served::directory(args.runs.as_deref()), &args.configs, program)
    };
    let server = McpServer::open(options).map_err(of_mcp)?;
    let stop = StopSignal::default();
    let until = stop.soon.clone();
    let runtime = super::runtime()?;
    let serving = server.serve_stdio(until);
    let outcome = runtime.block_on(super::heeding_signals(stop, "stopping; runs continue", serving));
    // A thread may still wait for what the client says next.
    runtime.shutdown_background();
    Ok(outcome.map_err(of_mcp)?)
}

#[cfg(not(feature = "mcp"))]
pub(crate) fn run(_: &McpArgs) -> crate::Result {
    Err(super::not_built_in("the MCP server"))
}
