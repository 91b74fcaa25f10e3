//! HTTP on reqwest, with rustls on ring.

use super::proxy::is_loopback;
use super::{HttpMethod, HttpRequest, HttpResponse, Transport, TransportError};
use ::reqwest::header::{HeaderMap, HeaderName, HeaderValue};
use ::reqwest::{Body, Client, ClientBuilder, Method, Request, Response, Url, redirect, retry};
use async_trait::async_trait;
use bytes::Bytes;
use http_body_util::Full;
use parking_lot::Mutex;
use std::error::Error as _;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// How long making a connection may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// How many addresses are kept as they were read; a run asks one or two.
const MAX_ADDRESSES: usize = 16;
/// Variables that name a proxy.
const PROXIES: [&str; 6] =
    ["HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY", "https_proxy", "http_proxy", "all_proxy"];
const USER_AGENT: &str = concat!("skillrl/", env!("CARGO_PKG_VERSION"));

/// A pool of connections; proxies are taken from the environment (`HTTPS_PROXY`, `NO_PROXY` and so on), but not for
/// addresses of this machine.
pub struct ReqwestTransport {
    client: Client,
    /// For addresses of this machine.
    direct: Client,
    /// Why `https` cannot work here, such as a machine without certificates; `http` works all the same.
    no_https: Option<String>,
    addresses: Addresses,
}

impl ReqwestTransport {
    /// A transport with an empty pool.
    ///
    /// # Errors
    ///
    /// [`TransportError::Unusable`] if the machine lets no client be made at all. A machine without certificates is
    /// no such error: only requests to `https` fail there.
    pub fn new() -> Result<Self, TransportError> {
        let transport = Self::from_builder(client_builder)?;
        // Without a proxy both are the same, and share their pool.
        if PROXIES.iter().all(|name| std::env::var_os(name).is_none()) {
            return Ok(transport);
        }
        Ok(Self { direct: Self::direct()?.client, ..transport })
    }

    /// A transport like that of [`ReqwestTransport::new`] that passes by every proxy.
    ///
    /// # Errors
    ///
    /// As [`ReqwestTransport::new`].
    pub fn direct() -> Result<Self, TransportError> {
        Self::from_builder(|| client_builder().no_proxy())
    }

    fn from_builder(builder: impl Fn() -> ClientBuilder) -> Result<Self, TransportError> {
        install_tls_provider();
        let first_error = match builder().build() {
            Ok(client) => return Ok(Self::of(client, None)),
            Err(error) => words(error),
        };
        // The usual reason is a machine without certificates: no certificate at all is better than no client.
        let client = builder().tls_certs_only([]).build();
        let client = client.map_err(|error| TransportError::Unusable { message: words(error) })?;
        Ok(Self::of(client, Some(first_error)))
    }

    fn of(client: Client, no_https: Option<String>) -> Self {
        Self { direct: client.clone(), client, no_https, addresses: Addresses::default() }
    }

    async fn exchange(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        let (timeout, limit) = (request.timeout, request.max_response_bytes);
        let request = self.request(request)?;
        let client = if is_loopback(request.url()) { &self.direct } else { &self.client };
        let response = client.execute(request).await.map_err(|error| transport_error(error, timeout))?;
        read(response, limit, timeout).await
    }

    fn request(&self, request: HttpRequest) -> Result<Request, TransportError> {
        let unusable = |message: String| TransportError::Unusable { message };
        let url = self.addresses.read(&request.url);
        let url = url.map_err(|error| unusable(format!("the address: {error}")))?;
        if let (Some(reason), "https") = (&self.no_https, url.scheme()) {
            return Err(TransportError::Connect { message: reason.clone() });
        }
        let method = match request.method {
            HttpMethod::Get => Method::GET,
            HttpMethod::Post => Method::POST,
        };
        let mut built = Request::new(method, url);
        let mut headers = HeaderMap::new();
        for (name, text) in &request.headers {
            let key = HeaderName::from_bytes(name.as_bytes())
                .map_err(|_| unusable(format!("`{}` cannot be the name of a header", name.escape_debug())))?;
            let mut value = HeaderValue::from_bytes(text.expose().as_bytes())
                .map_err(|_| unusable(format!("the value of the header `{name}` cannot be sent")))?;
            value.set_sensitive(matches!(text, super::HeaderText::Secret(_)));
            headers.append(key, value);
        }
        *built.headers_mut() = headers;
        *built.timeout_mut() = request.timeout;
        if !request.body.is_empty() {
            // A body of reqwest's own is kept until the response has come, for redirects that are never followed.
            *built.body_mut() = Some(Body::wrap(Full::<Bytes>::from(request.body)));
        }
        Ok(built)
    }
}

#[async_trait]
impl Transport for ReqwestTransport {
    async fn send(&self, request: HttpRequest) -> Result<HttpResponse, TransportError> {
        self.exchange(request).await
    }
}

impl fmt::Debug for ReqwestTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The client's own text may hold the credentials of a proxy.
        f.debug_struct("ReqwestTransport").field("no_https", &self.no_https).finish_non_exhaustive()
    }
}

/// Addresses that were asked before: all requests of a run go to a few, and each would parse its own.
#[derive(Default)]
struct Addresses(Mutex<Vec<(String, Url)>>);

impl Addresses {
    fn read(&self, address: &str) -> Result<Url, <Url as FromStr>::Err> {
        let mut known = self.0.lock();
        if let Some((_, url)) = known.iter().find(|(text, _)| text == address) {
            return Ok(url.clone());
        }
        let url = Url::parse(address)?;
        if known.len() < MAX_ADDRESSES {
            known.push((address.to_owned(), url.clone()));
        }
        Ok(url)
    }
}

/// Chooses ring for the whole process; reqwest panics when it makes a client and nothing is chosen.
fn install_tls_provider() {
    // An error means that the program has already chosen one, and its choice stands.
    drop(rustls::crypto::ring::default_provider().install_default());
}

fn client_builder() -> ClientBuilder {
    Client::builder()
        .user_agent(USER_AGENT)
        .connect_timeout(CONNECT_TIMEOUT)
        .redirect(redirect::Policy::none())
        .retry(retry::never())
}

async fn read(
    mut response: Response,
    limit: usize,
    timeout: Option<Duration>,
) -> Result<HttpResponse, TransportError> {
    let too_large = || TransportError::TooLarge { limit };
    let announced = response.content_length().unwrap_or(0);
    if usize::try_from(announced).map_or(true, |announced| announced > limit) {
        return Err(too_large());
    }
    let status = response.status().as_u16();
    let headers = response
        .headers()
        .iter()
        .filter_map(|(name, value)| Some((name.as_str().to_owned(), value.to_str().ok()?.to_owned())))
        .collect();
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(|error| body_error(error, timeout))? {
        if body.len().saturating_add(chunk.len()) > limit {
            return Err(too_large());
        }
        body.extend_from_slice(&chunk);
    }
    Ok(HttpResponse { status, headers, body })
}

fn transport_error(error: ::reqwest::Error, timeout: Option<Duration>) -> TransportError {
    // A connection that is not made in time is looked for first: its limit is not the request's.
    if error.is_connect() {
        return TransportError::Connect { message: words(error) };
    }
    match timeout {
        Some(after) if error.is_timeout() => TransportError::Timeout { after },
        _ if error.is_builder() => TransportError::Unusable { message: words(error) },
        _ => TransportError::Broken { message: words(error) },
    }
}

/// An error after the head of the response has come.
fn body_error(error: ::reqwest::Error, timeout: Option<Duration>) -> TransportError {
    match transport_error(error, timeout) {
        TransportError::Broken { message } => TransportError::Truncated { message },
        error => error,
    }
}

/// The causes of an error, outermost first, without the address, whose query may hold a key.
fn words(error: ::reqwest::Error) -> String {
    let error = error.without_url();
    let mut message = String::new();
    let mut source = error.source();
    while let Some(cause) = source {
        let text = cause.to_string();
        if !message.contains(&text) {
            if !message.is_empty() {
                message.push_str(": ");
            }
            message.push_str(&text);
        }
        source = cause.source();
    }
    if message.is_empty() { error.to_string() } else { message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transport::{HeaderText, MAX_RESPONSE_BYTES};

    fn request(url: &str) -> HttpRequest {
        HttpRequest {
            method: HttpMethod::Post,
            url: url.to_owned(),
            headers: vec![("x-key".to_owned(), HeaderText::Secret("sk-secret".into()))],
            body: b"{}".to_vec(),
            timeout: Some(Duration::from_secs(5)),
            max_response_bytes: MAX_RESPONSE_BYTES,
        }
    }

    #[test]
    fn making_a_transport_installs_ring() {
        let transport = ReqwestTransport::new().unwrap();
        assert!(rustls::crypto::CryptoProvider::get_default().is_some());
        let https = transport.request(request("https://api.example/v1/chat/completions")).unwrap();
        assert_eq!(https.url().scheme(), "https");
        // The second client finds the provider installed.
        ReqwestTransport::new().unwrap();
    }

    #[test]
    fn an_address_is_read_once_and_few_are_kept() {
        let addresses = Addresses::default();
        for turn in 0..2 {
            for n in 0..40 {
                let url = addresses.read(&format!("http://host-{n}/v1?turn")).unwrap();
                assert_eq!(url.as_str(), format!("http://host-{n}/v1?turn"));
            }
            assert_eq!(addresses.0.lock().len(), MAX_ADDRESSES, "turn {turn}");
        }
        assert!(addresses.read("no address").is_err() && addresses.read("no address").is_err());
    }

    #[tokio::test]
    async fn without_certificates_only_https_fails() {
        let attempts = std::cell::Cell::new(0);
        let transport = ReqwestTransport::from_builder(|| {
            attempts.set(attempts.get() + 1);
            // The first attempt fails, as it does where there are no certificates.
            if attempts.get() == 1 { client_builder().user_agent("\n") } else { client_builder().no_proxy() }
        });
        let transport = transport.unwrap();
        transport.request(request("http://127.0.0.1:1/v1")).unwrap();
        let error = transport.send(request("https://127.0.0.1:1/v1")).await.unwrap_err();
        assert!(matches!(error, TransportError::Connect { .. }), "{error:?}");
    }

    #[track_caller]
    fn check_unusable(request: HttpRequest, expect: &str) {
        let error = ReqwestTransport::new().unwrap().request(request).unwrap_err();
        assert_eq!(error, TransportError::Unusable { message: expect.to_owned() });
    }

    #[test]
    fn a_request_that_cannot_be_sent_is_refused_without_showing_secrets() {
        check_unusable(request("no address"), "the address: relative URL without a base");
        let mut bad_name = request("http://a");
        bad_name.headers.push(("a b".to_owned(), HeaderText::Plain("x".to_owned())));
        check_unusable(bad_name, "`a b` cannot be the name of a header");
        let mut bad_value = request("http://a");
        bad_value.headers.push(("x".to_owned(), HeaderText::Secret("a\nb".into())));
        check_unusable(bad_value, "the value of the header `x` cannot be sent");
    }

    #[test]
    fn debug_shows_no_secret() {
        let shown = format!("{:?}", request("http://host/v1?key=sk-secret"));
        assert!(shown.contains("http://host/v1") && !shown.contains("secret"), "{shown}");
        let sent = ReqwestTransport::new().unwrap().request(request("http://host/v1")).unwrap();
        assert!(!format!("{sent:?}").contains("secret"));
    }
}
