//! The ports that `serve` would listen on. Each is bound and given back.

use std::io;
use std::net::TcpListener;

use super::finding::Finding;
use crate::launch::cli::{RankSource, ServeFlags};
use crate::launch::error::LaunchError;

pub(super) fn examine(serve: &ServeFlags) -> Vec<Finding> {
    let mut findings = vec![port(&serve.front.host, serve.front.port, "--port")];
    match serve.ranks {
        RankSource::Local => {}
        RankSource::External => {
            let called = serve.front.group.check_called();
            findings.push(Finding::judged("flags", called.map(|()| "suit ranks of launchers")));
            findings.push(port(&serve.control.ip().to_string(), serve.control.port(), "--control"));
        }
    }
    let bootstrap = serve.front.group.own_bootstrap_port().filter(|&port| port != 0);
    let host = match serve.ranks {
        RankSource::Local => "127.0.0.1".to_owned(),
        RankSource::External => serve.control.ip().to_string(),
    };
    findings.extend(bootstrap.map(|number| port(&host, number, "--bootstrap-port")));
    findings
}

fn port(host: &str, port: u16, flag: &'static str) -> Finding {
    let bound = TcpListener::bind((host, port)).map_err(|source| refused(host, port, flag, source));
    Finding::judged("port", bound.map(|_| format!("{port} on {host} is free ({flag})")))
}

fn refused(host: &str, port: u16, flag: &'static str, source: io::Error) -> LaunchError {
    let host = host.to_owned();
    match source.kind() == io::ErrorKind::AddrInUse {
        true => LaunchError::PortTaken { host, port, flag },
        false => LaunchError::Listen { host, port, source },
    }
}
