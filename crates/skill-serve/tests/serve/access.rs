//! Who may ask, and for what.

use crate::client::send;
use crate::runs::finished;
use crate::site::Site;
use skill_serve::{AccessError, ServeError, ServeOptions, Server, Token};

const TOKEN: &str = "0123456789abcdef-._~";

/// What the pages are, and what changes something.
const GET: &str = "GET /";
const POST: &str = "POST /continue/a";

#[test]
fn on_loopback_only_names_of_loopback_are_answered_and_only_own_pages_change_anything() {
    let site = Site::new(|runs| finished(&runs.join("a")));
    let port = site.address.port();
    #[track_caller]
    fn check(site: &Site, line: &str, headers: &[(&str, &str)], expect: u16) {
        let answer = send(site.address, line, headers);
        assert_eq!(answer.status, expect, "{line} {headers:?}: {}", answer.body);
    }
    let here = format!("127.0.0.1:{port}");
    for host in [here.as_str(), "localhost", "LOCALHOST:1", "[::1]:8080", "127.0.0.2"] {
        check(&site, GET, &[("Host", host)], 200);
    }
    // A name that somebody made to point here, however it is written.
    for host in [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example:80",
        "10.0.0.1",
        "",
        "localhost@evil",
    ] {
        check(&site, GET, &[("Host", host)], 403);
    }
    check(&site, GET, &[], 403);
    check(&site, "GET http://evil.example/", &[("Host", &here)], 403);

    check(&site, POST, &[("Host", &here)], 403);
    for origin in ["http://evil.example", "null", "http://localhost", "file://", "http://127.0.0.1:1", ""] {
        check(&site, POST, &[("Host", &here), ("Origin", origin)], 403);
    }
    let own = format!("http://{here}");
    check(&site, POST, &[("Host", &here), ("Origin", &own)], 303);
    check(&site, POST, &[("Host", "localhost:9"), ("Origin", "http://localhost:9")], 303);
    check(&site, "GET /continue/a", &[("Host", &here)], 405);
    check(&site, "DELETE /run/a", &[("Host", &here), ("Origin", &own)], 405);
    check(&site, "HEAD /", &[("Host", &here)], 200);
    site.end();
}

#[test]
fn where_there_is_a_token_nothing_is_said_without_it() {
    let site = Site::with_token(Some(TOKEN), |runs| finished(&runs.join("a")));
    let host = site.address.to_string();
    let ask = |line: &str, headers: &[(&str, &str)]| {
        let all: Vec<(&str, &str)> =
            [("Host", host.as_str())].into_iter().chain(headers.iter().copied()).collect();
        send(site.address, line, &all)
    };
    for path in ["/", "/run/a", "/report/a", "/news", "/news/a", "/metrics", "/assets/run.js", "/nothing"] {
        let answer = ask(&format!("GET {path}"), &[]);
        assert_eq!(answer.status, 401, "{path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer");
        assert!(!answer.body.contains("/run/a"), "{path}");
    }
    let (wrong, right) = (format!("{TOKEN}x"), format!("Bearer {TOKEN}"));
    assert_eq!(ask(&format!("GET /?token={wrong}"), &[]).status, 401);
    assert_eq!(ask(GET, &[("Authorization", &format!("Bearer {wrong}"))]).status, 401);
    assert_eq!(ask(GET, &[("Authorization", &right)]).status, 200);
    assert_eq!(ask("GET /metrics", &[("Authorization", &right)]).status, 200);
    assert_eq!(ask("POST /continue/a", &[("Authorization", &right)]).status, 403, "the origin is missing");

    // Health checks have no token, and the answer says nothing about runs.
    let health = ask("GET /healthz", &[]);
    assert_eq!((health.status, health.body.as_str()), (200, "ok\n"));
    // A browser is given the token as a cookie, and the URL that it shows does not hold it any more.
    let entered = ask(&format!("GET /run/a?x=1&token={TOKEN}"), &[]);
    assert_eq!((entered.status, entered.header("location")), (303, "/run/a?x=1"));
    let cookie = entered.header("set-cookie").to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; HttpOnly; SameSite=Lax");
    assert_eq!(ask("GET /run/a", &[("Cookie", pair)]).status, 200);
    assert_eq!(ask("GET /run/a", &[("Cookie", &format!("other=1; {pair}"))]).status, 200);
    assert_eq!(ask("GET /run/a", &[("Cookie", &format!("{pair}x"))]).status, 401);
    assert_eq!(ask(&format!("GET //evil.example/?token={TOKEN}"), &[]).header("location"), "/evil.example/");
    site.end();
}

#[test]
fn other_machines_are_served_with_a_token_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let bind = |listen: &str, token: Option<Token>| {
        let listen = listen.parse().unwrap();
        runtime.block_on(Server::bind(ServeOptions {
            listen,
            token,
            ..ServeOptions::on_loopback(dir.path())
        }))
    };
    for listen in ["0.0.0.0:0", "[::]:0"] {
        assert!(matches!(bind(listen, None), Err(ServeError::TokenNeeded { .. })), "{listen}");
    }
    let token = Token::random().unwrap();
    assert_ne!(token, Token::random().unwrap());
    let server = bind("0.0.0.0:0", Some(token.clone())).unwrap();
    assert!(server.url().ends_with(&format!("/?token={}", token.as_str())), "{}", server.url());
    assert_eq!(format!("{token:?}"), "Token(..)");
    for text in
        ["", "short", "0123456789abcde", "0123456789abcdef 1", "0123456789abcdef&x=1", "0123456789äöüß"]
    {
        assert!(matches!(Token::new(text), Err(AccessError::BadToken { .. })), "{text}");
    }
}

#[test]
fn every_answer_says_that_nothing_else_may_be_loaded() {
    let site = Site::new(|runs| finished(&runs.join("a")));
    for path in ["/", "/run/a", "/report/a", "/metrics", "/assets/run.js", "/nothing"] {
        let answer = site.get(path);
        let policy = answer.header("content-security-policy");
        assert!(
            policy.starts_with("default-src 'none'; script-src 'self'; style-src 'self';"),
            "{path}: {policy}"
        );
        assert!(!policy.contains("unsafe"), "{path}: {policy}");
        let others = ["x-content-type-options", "x-frame-options", "referrer-policy", "cache-control"];
        assert_eq!(
            others.map(|name| answer.header(name)),
            ["nosniff", "DENY", "same-origin", "no-store"],
            "{path}"
        );
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
        // Nothing in a page would need more.
        for inside in ["<style", "<script>", " style=", " onclick=", "javascript:"] {
            assert!(!answer.body.contains(inside), "{path}: {inside}");
        }
    }
    site.end();
}

#[test]
fn a_directory_or_a_port_that_cannot_be_had_is_said() {
    let dir = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let free =
        ServeOptions { listen: "127.0.0.1:0".parse().unwrap(), ..ServeOptions::on_loopback(dir.path()) };
    let server = runtime.block_on(Server::bind(free.clone())).unwrap();
    let taken = runtime.block_on(Server::bind(ServeOptions { listen: server.address(), ..free.clone() }));
    assert!(matches!(taken, Err(ServeError::Listen { .. })));
    let missing = runtime.block_on(Server::bind(ServeOptions { dir: dir.path().join("missing"), ..free }));
    assert!(matches!(missing, Err(ServeError::Directory { .. })));
}
