//! What starts workers in a cluster is well-formed.

use std::path::{Path, PathBuf};
use std::process::Command;

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/cluster")
}

fn read(name: &str) -> String {
    std::fs::read_to_string(folder().join(name)).unwrap()
}

#[test]
fn the_manifest_for_kubernetes_is_a_deployment_whose_container_is_a_worker() {
    let manifest: serde_json::Value = serde_saphyr::from_str(&read("workers.yaml")).unwrap();
    let at = |pointer: &str| manifest.pointer(pointer).cloned().unwrap_or_default();
    assert_eq!((at("/apiVersion"), at("/kind")), ("apps/v1".into(), "Deployment".into()));
    assert_eq!(at("/spec/selector/matchLabels"), at("/spec/template/metadata/labels"));
    let container = at("/spec/template/spec/containers/0");
    assert_eq!(container["command"], serde_json::json!(["skillrl", "worker"]));
    let names = |of: &serde_json::Value| -> Vec<String> {
        of.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&container["volumeMounts"]), names(&at("/spec/template/spec/volumes")));
    // A password is a secret of the cluster, and in no manifest.
    assert!(!read("workers.yaml").contains("kind: Secret"));
}

#[test]
fn every_option_that_is_used_is_one_of_the_worker() {
    let known = [
        "--nats",
        "--user",
        "--password-env",
        "--ca-file",
        "--workers",
        "--cache",
        "--quiet",
        "--base",
        "--idle",
    ];
    for name in ["workers.yaml", "workers.sbatch", "skillrl-worker@.service"] {
        let text = read(name);
        let words = text
            .lines()
            .filter(|line| !line.trim_start().starts_with('#'))
            .flat_map(|line| line.split(|letter: char| !(letter.is_ascii_alphanumeric() || letter == '-')));
        let unknown: Vec<&str> =
            words.filter(|word| word.starts_with("--") && word.len() > 2 && !known.contains(word)).collect();
        assert_eq!(unknown, [] as [&str; 0], "{name}");
    }
}

#[cfg(unix)]
#[test]
fn the_script_for_slurm_is_one_that_bash_reads() {
    let checked = Command::new("bash").arg("-n").arg(folder().join("workers.sbatch")).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let text = read("workers.sbatch");
    // Directives count above the first command alone.
    let above = text.split_once("set -euo").unwrap().0;
    assert_eq!(text.matches("#SBATCH").count(), above.matches("#SBATCH").count());
}

#[test]
fn the_units_of_systemd_are_sound() {
    for name in ["skillrl-broker.service", "skillrl-worker@.service"] {
        let text = read(name);
        for section in ["[Unit]", "[Service]", "[Install]"] {
            assert_eq!(text.matches(section).count(), 1, "{name}: {section}");
        }
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with(['#', '['])) {
            assert!(line.split_once('=').is_some_and(|(key, _)| !key.contains(' ')), "{name}: {line}");
        }
    }
    systemd_analyze();
}

/// Findings of systemd-analyze, where it is installed; programs that this machine lacks are ignored.
fn systemd_analyze() {
    for name in ["skillrl-broker.service", "skillrl-worker@16.service"] {
        let dir = tempfile::tempdir().unwrap();
        let unit = dir.path().join(name);
        std::fs::write(&unit, read(&name.replace("@16", "@"))).unwrap();
        let Ok(said) = Command::new("systemd-analyze").arg("verify").arg(&unit).output() else { return };
        let said = String::from_utf8_lossy(&said.stderr).into_owned();
        let faults: Vec<&str> = said
            .lines()
            .filter(|line| line.contains(dir.path().to_str().unwrap()) || line.contains("Unknown"))
            .filter(|line| !line.contains("is not executable"))
            .collect();
        assert_eq!(faults, [] as [&str; 0]);
    }
}
