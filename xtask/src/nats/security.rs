//! Logins and encryption against real servers, and servers that cannot be used.

use super::scene::{Guarded, Scene, Streams, log_of, wait};
use anyhow::{Context as _, ensure};
use std::path::{Path, PathBuf};
use std::time::Duration;
use xshell::{Shell, cmd};

/// The exit codes of a configuration that is wrong, and of a failure for now.
const USAGE: i32 = 2;
const PATIENCE: Duration = Duration::from_secs(60);
pub(super) const PASSWORD: &str = "NATS_CHECK_PASSWORD";
const SEED: &str = "NATS_CHECK_SEED";

/// How drivers and workers log in.
struct Login<'a> {
    settings: Vec<&'a str>,
    options: Vec<&'a str>,
}

pub(super) fn run(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    let (user, password) = ("trainer", "check-password-1234");
    let users = format!("authorization {{ users: [{{ user: {user}, password: \"{password}\" }}] }}");
    let by_password = || Login {
        settings: vec!["run.nats.user=trainer", "run.nats.password_env=NATS_CHECK_PASSWORD"],
        options: vec!["--user", user, "--password-env", PASSWORD],
    };
    let nobody = Login { settings: Vec::new(), options: Vec::new() };
    let server = scene.server("password", &users)?;
    scene.set_secret(Some((PASSWORD, password.to_owned())));
    trains(scene, "password", &server.url(), &by_password())?;
    refused(scene, "no-password", &server.url(), &nobody)?;
    scene.set_secret(Some((PASSWORD, "another-password".to_owned())));
    refused(scene, "wrong-password", &server.url(), &by_password())?;
    by_nkey(sh, scene)?;
    let certificates = certificates(sh, &scene.dir.join("tls"), "IP:127.0.0.1")?;
    let tls = format!("{}\n{users}", certificates.lines());
    let server = scene.server("tls", &tls)?;
    let ca = certificates.ca.display().to_string();
    let ca_setting = format!("run.nats.ca_file={ca}");
    scene.set_secret(Some((PASSWORD, password.to_owned())));
    let mut login = by_password();
    refused(scene, "unknown-authority", &server.tls_url(), &login)?;
    login.settings.push(&ca_setting);
    login.options.extend(["--ca-file", &ca]);
    trains(scene, "tls", &server.tls_url(), &login)?;
    // Nothing is listening there, and nothing is sent there.
    for url in ["nats://192.0.2.1:4222", "nats://broker.invalid:4222"] {
        refused(scene, "without-tls", url, &by_password())?;
    }
    refused(scene, "without-user", "tls://192.0.2.1:4222", &nobody)?;
    let server = scene.server_with("no-jetstream", Streams::Off, "")?;
    refused(scene, "no-jetstream", &server.url(), &nobody)?;
    scene.set_secret(None);
    eprintln!("password, nkey and TLS work; what has no right is refused");
    Ok(())
}

fn by_nkey(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    let measure = super::measure(sh, super::Profile::Dev)?;
    let key = cmd!(sh, "{measure} nkey").quiet().read()?;
    let (seed, public) = key.split_once(' ').context("no key was printed")?;
    let server = scene.server("nkey", &format!("authorization {{ users: [{{ nkey: {public} }}] }}"))?;
    let login =
        Login { settings: vec!["run.nats.nkey_env=NATS_CHECK_SEED"], options: vec!["--nkey-env", SEED] };
    scene.set_secret(Some((SEED, seed.to_owned())));
    trains(scene, "nkey", &server.url(), &login)?;
    let other = cmd!(sh, "{measure} nkey").quiet().read()?;
    scene.set_secret(Some((SEED, other.split_once(' ').context("no key was printed")?.0.to_owned())));
    refused(scene, "wrong-nkey", &server.url(), &login)
}

/// A run with one worker comes to the files of the run in one process.
fn trains(scene: &Scene, name: &str, url: &str, login: &Login<'_>) -> anyhow::Result<()> {
    let place = scene.place(&format!("login-{name}"))?;
    let _worker = Guarded(scene.worker(&place, url, &login.options, &[])?);
    let mut driver = Guarded(scene.train(&place, Some(url), &login.settings)?);
    scene.end(&place, &mut driver.0)?;
    scene.compare(&place)?;
    scene.requests()?;
    Ok(())
}

/// Driver and worker end with an error of the configuration, and no secret is in what they say.
fn refused(scene: &Scene, name: &str, url: &str, login: &Login<'_>) -> anyhow::Result<()> {
    let place = scene.place(&format!("login-{name}"))?;
    let mut driver = Guarded(scene.train(&place, Some(url), &login.settings)?);
    let code = wait(&mut driver.0, PATIENCE)?;
    let said = log_of(&place, "driver");
    ensure!(code == Some(USAGE), "{name}: the driver ended with {code:?}: {said}");
    let mut worker = Guarded(scene.worker(&place, url, &login.options, &[])?);
    let code = wait(&mut worker.0, PATIENCE)?;
    let said = said + &log_of(&place, "worker");
    ensure!(code == Some(USAGE), "{name}: the worker ended with {code:?}: {said}");
    let is_told = scene.secret().is_some_and(|secret| said.contains(&secret));
    ensure!(!is_told, "{name}: a secret was printed");
    Ok(())
}

/// The certificates of an authority and of a server.
pub(super) struct Certificates {
    pub(super) ca: PathBuf,
    certificate: PathBuf,
    key: PathBuf,
}

impl Certificates {
    /// The lines of a server that has them.
    pub(super) fn lines(&self) -> String {
        let (certificate, key) = (self.certificate.display(), self.key.display());
        format!("tls {{ cert_file: '{certificate}', key_file: '{key}', timeout: 5 }}")
    }
}

/// Makes an authority, and a certificate for a server with these names.
pub(super) fn certificates(sh: &Shell, dir: &Path, names: &str) -> anyhow::Result<Certificates> {
    sh.create_dir(dir)?;
    let [ca, ca_key, key, request, certificate, extensions] =
        ["ca.pem", "ca-key.pem", "key.pem", "request.pem", "cert.pem", "extensions"]
            .map(|name| dir.join(name));
    let new = ["req", "-nodes", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"];
    let quiet = || cmd!(sh, "openssl version").quiet().ignore_stdout().run();
    quiet().context("this check needs `openssl`")?;
    cmd!(sh, "openssl {new...} -x509 -days 2 -subj /CN=check-ca -keyout {ca_key} -out {ca}")
        .quiet()
        .ignore_stderr()
        .run()?;
    cmd!(sh, "openssl {new...} -subj /CN=check-server -keyout {key} -out {request}")
        .quiet()
        .ignore_stderr()
        .run()?;
    sh.write_file(&extensions, format!("subjectAltName={names}\n"))?;
    let signed = ["x509", "-req", "-days", "2", "-CAcreateserial"];
    cmd!(
        sh,
        "openssl {signed...} -in {request} -CA {ca} -CAkey {ca_key} -extfile {extensions} -out {certificate}"
    )
    .quiet()
    .ignore_stderr()
    .run()?;
    Ok(Certificates { ca, certificate, key })
}
