//! Proxies that the environment names: which variable a request goes by, and that this machine is never asked through one.

use ::reqwest::Url;
use std::net::IpAddr;

/// True for an address of this machine.
pub(super) fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost")
        || host.to_lowercase().ends_with(".localhost")
        || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// The variable of the environment whose proxy gets requests to an address; `None` where they go there directly. A proxy can
/// read what is sent to an address with `http`.
pub fn proxy_variable(address: &str) -> Option<&'static str> {
    let is_set = |name: &str| std::env::var(name).is_ok_and(|value| !value.trim().is_empty());
    let spared = ["NO_PROXY", "no_proxy"].into_iter().find_map(|name| std::env::var(name).ok());
    variable_of(address, &is_set, spared.as_deref().unwrap_or_default())
}

fn variable_of(address: &str, is_set: &dyn Fn(&str) -> bool, spared: &str) -> Option<&'static str> {
    let url = Url::parse(address).ok().filter(|url| !is_loopback(url))?;
    let host = url.host_str()?.to_lowercase();
    let is_spared = |entry: &str| {
        let entry = entry.trim().trim_start_matches('.').to_lowercase();
        entry == "*" || !entry.is_empty() && (host == entry || host.ends_with(&format!(".{entry}")))
    };
    if spared.split(',').any(is_spared) {
        return None;
    }
    let names = match url.scheme() {
        "https" => ["HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy"],
        _ => ["HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"],
    };
    names.into_iter().find(|name| is_set(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(address: &str, set: &[&str], spared: &str, expect: Option<&str>) {
        assert_eq!(variable_of(address, &|name| set.contains(&name), spared), expect, "{address} {set:?}");
    }

    #[test]
    fn a_request_goes_by_the_proxy_of_its_scheme_and_never_to_this_machine_by_one() {
        let both = ["HTTP_PROXY", "https_proxy"];
        check("https://api.example/v1", &both, "", Some("https_proxy"));
        check("http://api.example/v1", &both, "", Some("HTTP_PROXY"));
        check("http://api.example/v1", &["ALL_PROXY"], "", Some("ALL_PROXY"));
        check("http://api.example/v1", &["https_proxy"], "", None);
        check("https://eu.api.example/v1", &both, "other, .example", None);
        check("https://myexample/v1", &both, "example", Some("https_proxy"));
        for local in
            ["http://127.0.0.1:8000/v1", "http://localhost/v1", "http://[::1]:8000/v1", "http://127.8.9.1/"]
        {
            check(local, &both, "", None);
        }
    }
}
