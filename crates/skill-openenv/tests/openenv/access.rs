//! Who may ask.

use crate::site::{Site, household};
use skill_openenv::{EnvOptions, EnvServer, OpenEnvError, Token};

const TOKEN: &str = "0123456789abcdef-._~";
const UPGRADE: &str =
    "Upgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

#[tokio::test]
async fn on_loopback_names_of_loopback_are_answered_and_no_page_of_another_origin() {
    let site = Site::household().await;
    let own = format!("http://{}", site.address);
    for line in ["GET /health", "POST /mcp"] {
        for (headers, expect) in [
            ("Host: localhost:1\r\n".to_owned(), 200),
            ("Host: [::1]\r\n".to_owned(), 200),
            ("Host: evil.example\r\n".to_owned(), 403),
            ("Host: 127.0.0.1.evil.example\r\n".to_owned(), 403),
            (format!("Host: {}\r\nOrigin: {own}\r\n", site.address), 200),
            (format!("Host: {}\r\nOrigin: {}\r\n", site.address, own.replace("http", "https")), 200),
            (format!("Host: {}\r\nOrigin: {}\r\n", site.address, own.replace("http", "ftp")), 403),
            (format!("Host: {}\r\nOrigin: http://evil.example\r\n", site.address), 403),
            (format!("Host: {}\r\nOrigin: null\r\n", site.address), 403),
        ] {
            let (status, _) = site.ask(line, &headers, "").await;
            assert_eq!(status, expect, "{line} {headers}");
        }
    }
    // A page of another origin could open a WebSocket, if nobody looked.
    let (status, _) = site.ask("GET /ws", &format!("Origin: http://evil.example\r\n{UPGRADE}"), "").await;
    assert_eq!(status, 403);
    site.end().await;
}

#[tokio::test]
async fn where_there_is_a_token_nothing_is_said_without_it() {
    let token = Some(Token::new(TOKEN).unwrap());
    let site = Site::with(EnvOptions { token, ..EnvOptions::on_loopback(household()) }).await;
    let bearer = format!("Authorization: Bearer {TOKEN}\r\n");
    for path in ["/health", "/schema", "/nowhere", "/ws"] {
        for headers in ["", "Authorization: Bearer wrong\r\n"] {
            let headers = format!("{headers}{}", if path == "/ws" { UPGRADE } else { "" });
            let (status, _) = site.ask(&format!("GET {path}"), &headers, "").await;
            assert_eq!(status, 401, "{path}");
        }
    }
    assert_eq!(site.ask("GET /health", &bearer, "").await.0, 200);
    assert_eq!(site.ask(&format!("GET /health?token={TOKEN}"), "", "").await.0, 200);
    site.end().await;
}

#[tokio::test]
async fn elsewhere_than_on_loopback_a_token_is_needed() {
    let listen = "0.0.0.0:0".parse().unwrap();
    let refused = EnvServer::bind(EnvOptions { listen, ..EnvOptions::on_loopback(household()) }).await;
    assert!(matches!(refused, Err(OpenEnvError::TokenNeeded { .. })));
    let site = Site::household().await;
    let taken =
        EnvServer::bind(EnvOptions { listen: site.address, ..EnvOptions::on_loopback(household()) }).await;
    assert!(matches!(taken, Err(OpenEnvError::Listen { .. })));
    site.end().await;
}
