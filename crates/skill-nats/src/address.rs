//! Where a broker is, and who may be sent there: nothing leaves this machine unencrypted or to a server without users.
//!
//! # Invariants
//!
//! - Nothing leaves this machine without TLS and credentials. Held by
//!   `nothing_leaves_this_machine_without_tls_and_credentials`.

use crate::broker::BrokerError;
use skill_llm::ApiKey;
use std::net::IpAddr;
use std::path::PathBuf;
use url::{Host, Url};

/// The port of a server of NATS.
const PORT: u16 = 4222;

/// Whom a connection is for.
#[derive(Debug, Clone, Default)]
pub enum Credentials {
    /// Anybody: a server on this machine without users.
    #[default]
    None,
    /// A user with a password.
    User {
        /// The user.
        name: String,
        /// The password.
        password: ApiKey,
    },
    /// The seed of an nkey, which signs and is never sent.
    Nkey {
        /// The seed.
        seed: ApiKey,
    },
}

/// A broker, and how it is reached.
#[derive(Debug, Clone)]
pub struct BrokerAddress {
    /// `nats://host:port`, or `tls://host:port`.
    pub url: String,
    /// Whom the connection is for.
    pub credentials: Credentials,
    /// A file with the certificates of authorities to trust besides those of the system.
    pub ca_file: Option<PathBuf>,
    /// Files with the certificate of this client and its key, for servers that verify clients.
    pub client_certificate: Option<(PathBuf, PathBuf)>,
}

impl BrokerAddress {
    /// An address without credentials.
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), credentials: Credentials::None, ca_file: None, client_certificate: None }
    }

    /// Refuses an address that cannot be one, that holds a password, or that leaves this machine without TLS and
    /// credentials.
    ///
    /// # Errors
    ///
    /// [`BrokerError::Configuration`] with what to do; it never quotes a password.
    pub fn check(&self) -> Result<(), BrokerError> {
        let refuse = |message: String| Err(BrokerError::Configuration { message });
        let url = match Url::parse(&self.url) {
            Ok(url) => url,
            Err(error) => return refuse(format!("the address of the broker is not a URL: {error}")),
        };
        if !url.username().is_empty() || url.password().is_some() {
            return refuse(
                "the address of the broker holds a user: name the user and the variable with the password instead"
                    .to_owned(),
            );
        }
        let has_tls = match url.scheme() {
            "nats" => false,
            "tls" => true,
            scheme => {
                return refuse(format!(
                    "the address of the broker begins with {scheme}://, and not with nats:// or tls://"
                ));
            }
        };
        let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
            return refuse("the address of the broker names no host".to_owned());
        };
        if is_loopback(&url) {
            return Ok(());
        }
        if !has_tls {
            return refuse(format!(
                "the broker at {host} is on another machine and the connection has no TLS: write tls:// in the address"
            ));
        }
        if matches!(self.credentials, Credentials::None) {
            return refuse(format!(
                "the broker at {host} is on another machine and the connection has no credentials: name a user with a password, or the seed of an nkey"
            ));
        }
        Ok(())
    }

    /// The host and port, for messages.
    pub fn shown(&self) -> String {
        match Url::parse(&self.url) {
            Ok(url) => format!("{}:{}", url.host_str().unwrap_or_default(), url.port().unwrap_or(PORT)),
            Err(_) => "an address that is not a URL".to_owned(),
        }
    }
}

/// True for an address of this machine. The URL's scheme is not a special one, so a host is a name until it is parsed.
fn is_loopback(url: &Url) -> bool {
    let of_ip = |ip: IpAddr| ip.is_loopback();
    match url.host() {
        Some(Host::Ipv4(ip)) => of_ip(ip.into()),
        Some(Host::Ipv6(ip)) => of_ip(ip.into()),
        Some(Host::Domain(name)) => {
            name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok_and(of_ip)
        }
        None => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(url: &str, has_credentials: bool, is_accepted: bool) {
        let credentials = if has_credentials {
            Credentials::User { name: "team".to_owned(), password: ApiKey::new("secret").unwrap() }
        } else {
            Credentials::None
        };
        let checked = BrokerAddress { credentials, ..BrokerAddress::new(url) }.check();
        assert_eq!(checked.is_ok(), is_accepted, "{url}: {checked:?}");
        assert!(!format!("{checked:?}").contains("hunter2"), "{checked:?}");
    }

    #[test]
    fn nothing_leaves_this_machine_without_tls_and_credentials() {
        for url in [
            "nats://127.0.0.1:4222",
            "nats://127.9.9.9",
            "nats://[::1]:4222",
            "nats://localhost",
            "nats://LOCALHOST:1",
        ] {
            check(url, false, true);
            check(url, true, true);
        }
        for url in [
            "nats://10.0.0.1",
            "nats://broker",
            "nats://127.0.0.1.example.org",
            "nats://[2001:db8::1]:4222",
            "nats://0.0.0.0",
        ] {
            check(url, false, false);
            check(url, true, false);
        }
        for url in ["tls://10.0.0.1", "tls://broker.example.org:4222"] {
            check(url, false, false);
            check(url, true, true);
        }
        for url in
            ["", "broker", "127.0.0.1:4222", "http://127.0.0.1", "nats://", "nats://team:hunter2@127.0.0.1"]
        {
            check(url, true, false);
        }
    }
}
