//! Where a decode deployment attaches to a prefill deployment.

use std::net::SocketAddr;

use super::client::get_once;
use super::error::{BootstrapError, Failure};
use super::finder::GROUP;
use super::messages::PrefillServerInfo;

/// Asks the bootstrap server of a prefill deployment where its front end takes decode deployments.
///
/// # Errors
/// [`BootstrapError`] when nobody answers, when its ranks are not all there, or when it takes none.
pub async fn find_line(server: SocketAddr) -> Result<SocketAddr, BootstrapError> {
    let info: PrefillServerInfo = get_once(server, GROUP).await?;
    let missing = || Failure::Garbage("it is not that of a `lockstep prefill`: no line_port".into());
    let port = info.line_port.ok_or_else(missing).map_err(|why| BootstrapError { server, why })?;
    Ok(SocketAddr::new(server.ip(), port))
}
