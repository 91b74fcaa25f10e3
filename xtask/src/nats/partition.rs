//! A worker in a network namespace of its own, which is cut off for a minute.

use super::scene::{Guarded, SLOTS, Scene, Server, Streams, log_of};
use super::security::{PASSWORD, certificates};
use anyhow::{Context as _, ensure};
use std::thread::sleep;
use std::time::Duration;
use xshell::{Shell, cmd};

const NAMESPACE: &str = "skillrl-check";
const HERE: &str = "10.213.77.1";
const THERE: &str = "10.213.77.2";
const CUT: Duration = Duration::from_secs(60);

/// The namespace, while it is there.
struct Namespace<'a>(&'a Shell);

impl<'a> Namespace<'a> {
    /// A namespace with one link to this one; `None` where that is not allowed.
    fn new(sh: &'a Shell) -> anyhow::Result<Option<Self>> {
        let is_allowed = cmd!(sh, "ip netns add {NAMESPACE}").quiet().ignore_stderr().run().is_ok();
        if !is_allowed {
            return Ok(None);
        }
        let namespace = Self(sh);
        cmd!(sh, "ip link add skrl0 type veth peer name skrl1 netns {NAMESPACE}").quiet().run()?;
        cmd!(sh, "ip address add {HERE}/24 dev skrl0").quiet().run()?;
        cmd!(sh, "ip link set skrl0 up").quiet().run()?;
        for words in [
            vec!["address", "add", &format!("{THERE}/24"), "dev", "skrl1"],
            vec!["link", "set", "skrl1", "up"],
        ] {
            cmd!(sh, "ip -n {NAMESPACE} {words...}").quiet().run()?;
        }
        Ok(Some(namespace))
    }

    fn set_link(&self, state: &str) -> anyhow::Result<()> {
        let sh = self.0;
        Ok(cmd!(sh, "ip link set skrl0 {state}").quiet().run()?)
    }
}

impl Drop for Namespace<'_> {
    fn drop(&mut self) {
        let sh = self.0;
        drop(cmd!(sh, "ip netns del {NAMESPACE}").quiet().ignore_stderr().run());
        drop(cmd!(sh, "ip link del skrl0").quiet().ignore_stderr().run());
    }
}

pub(super) fn run(sh: &Shell, scene: &Scene) -> anyhow::Result<()> {
    let Some(namespace) = Namespace::new(sh)? else {
        eprintln!("skipped: this user may make no network namespace, so nothing was cut off");
        return Ok(());
    };
    // Models, too, are on the other side of the link.
    let scene = scene.at("partition", HERE)?;
    let certificates = certificates(sh, &scene.dir.join("tls"), &format!("IP:{HERE}"))?;
    let password = "check-password-1234";
    let users = format!("authorization {{ users: [{{ user: trainer, password: \"{password}\" }}] }}");
    let server = Server::start(
        &scene.dir.join("server"),
        HERE,
        Streams::Unlimited,
        &format!("{}\n{users}", certificates.lines()),
    )?;
    scene.set_secret(Some((PASSWORD, password.to_owned())));
    let ca = certificates.ca.display().to_string();
    let ca_setting = format!("run.nats.ca_file={ca}");
    let settings =
        ["run.nats.user=trainer", "run.nats.password_env=NATS_CHECK_PASSWORD", ca_setting.as_str()];
    let options = ["--user", "trainer", "--password-env", PASSWORD, "--ca-file", &ca];
    let place = scene.place("run")?;
    let url = server.tls_url();
    let inside = ["ip", "netns", "exec", NAMESPACE];
    let _worker = Guarded(scene.worker(&place, &url, &options, &inside)?);
    let mut driver = Guarded(scene.train(&place, Some(&url), &settings)?);
    sleep(Duration::from_secs_f64(2.0 + scene.seconds * 0.2));
    ensure!(
        driver.0.try_wait()?.is_none(),
        "the run was over before it was cut off: {}",
        log_of(&place, "driver")
    );
    namespace.set_link("down")?;
    sleep(CUT);
    ensure!(driver.0.try_wait()?.is_none(), "the run has ended: {}", log_of(&place, "driver"));
    namespace.set_link("up")?;
    scene.end(&place, &mut driver.0)?;
    scene.compare(&place)?;
    let twice = scene.requests()?.checked_sub(scene.n_requests).context("the run has sent fewer requests")?;
    ensure!(twice <= SLOTS, "{twice} calls were sent twice");
    eprintln!(
        "the only worker was cut off for {} s: the same files, {twice} calls sent twice",
        CUT.as_secs()
    );
    Ok(())
}
