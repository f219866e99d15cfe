//! `manifests/`: every file parses; the ingress gateway's times are what `drain-sidecar plan` prints for its p99, its
//! variables are ones that the sidecar takes, its overlays change what they name, and its HAProxy files are accepted.

use std::path::{Path, PathBuf};
use std::process::Command;

use harness::binaries::workspace_binary;
use harness::find;
use serde_json::Value;

use crate::workspace;

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, extension));
        } else if path.extension().is_some_and(|found| found == extension) {
            found.push(path);
        }
    }
    found
}

fn read(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    serde_saphyr::from_multiple(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn ingress(file: &str) -> Value {
    read(&workspace().join("manifests/ingress").join(file)).remove(0)
}

fn sidecar(args: &[&str]) -> String {
    let output = workspace_binary("drain-sidecar").args(args).output().unwrap();
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The container of the sidecar, and where it stands among the init containers.
fn native(deployment: &Value) -> (usize, &Value) {
    let containers = deployment["spec"]["template"]["spec"]["initContainers"].as_array().unwrap();
    containers.iter().enumerate().find(|(_, container)| container["name"] == "drain-sidecar").unwrap()
}

fn variable<'a>(container: &'a Value, name: &str) -> &'a str {
    let variables = container["env"].as_array().unwrap();
    variables.iter().find(|variable| variable["name"] == name).unwrap()["value"].as_str().unwrap()
}

#[test]
fn every_manifest_parses_and_every_resource_is_there() {
    let manifests = files(&workspace().join("manifests"), "yaml");
    assert!(manifests.len() >= 6, "{manifests:?}");
    for path in manifests {
        for document in read(&path) {
            assert!(document["kind"].is_string() && document["apiVersion"].is_string(), "{}", path.display());
            for resource in document["resources"].as_array().into_iter().flatten() {
                let named = path.parent().unwrap().join(resource.as_str().unwrap());
                assert!(named.exists(), "{}: no {resource}", path.display());
            }
        }
    }
}

/// The p99 and the check of the file's own comment.
#[test]
fn the_times_are_those_of_the_plan() {
    let plan = sidecar(&["plan", "--p99", "60", "--inter", "2s", "--fall", "2"]);
    let deployment = ingress("base/deployment.yaml");
    let (_, container) = native(&deployment);
    let spec = &deployment["spec"]["template"]["spec"];
    let (drain, buffer) = (variable(container, "DRAIN_TIMEOUT"), variable(container, "LB_BUFFER"));
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    let config = annotations["proxy.istio.io/config"].as_str().unwrap();
    for (said, wanted) in [
        (&plan, format!("terminationGracePeriodSeconds: {} ", spec["terminationGracePeriodSeconds"])),
        (&plan, format!("DRAIN_TIMEOUT: \"{drain}\" ")),
        (&plan, format!("LB_BUFFER: \"{buffer}\" ")),
        (&plan, format!("--drain-time-s {drain} ")),
        (&config.to_owned(), format!("drainDuration: {drain}s\n")),
    ] {
        assert!(said.contains(&wanted), "{wanted:?} is not in\n{said}");
    }
}

/// A native sidecar without a hook of its own; the hook is the proxy's, and runs what the first container installed.
#[test]
fn the_hook_is_the_proxys_and_the_sidecar_has_none() {
    let deployment = ingress("base/deployment.yaml");
    let (at, container) = native(&deployment);
    let spec = &deployment["spec"]["template"]["spec"];
    assert_eq!(container["restartPolicy"], "Always");
    assert!(container["lifecycle"].is_null(), "a restart of the sidecar would drain a healthy proxy");
    let target = spec["initContainers"][0]["args"][1].as_str().unwrap();
    assert!(at == 1 && spec["initContainers"][0]["args"][0] == "install");
    let proxy = &spec["containers"][0];
    let hook = proxy["lifecycle"]["preStop"]["exec"]["command"].as_array().unwrap();
    assert_eq!((hook[0].as_str().unwrap(), &hook[1]), (target, &Value::from("prestop")));
    // Kubernetes drops a pod that needs a seat it cannot get: one node each, so an old pod leaves first.
    assert_eq!(deployment["spec"]["strategy"]["rollingUpdate"]["maxSurge"], 0);

    let service = ingress("base/service.yaml");
    assert_eq!(service["spec"]["externalTrafficPolicy"], "Local");
    let ports = service["spec"]["ports"].as_array().unwrap();
    let node_ports: Vec<_> = ports.iter().map(|port| port["nodePort"].as_u64().unwrap()).collect();
    assert_eq!(node_ports, [30080, 30180]);
    let health = format!(":{}", ports[1]["targetPort"]);
    assert_eq!(variable(container, "HC_ADDR"), health);
    assert!(
        variable(container, "HC_CONTROL_ADDR").starts_with("127.0.0.1:"),
        "nobody else may drain the pod"
    );
    assert_eq!(format!(":{}", proxy["readinessProbe"]["httpGet"]["port"]), health);
}

/// A variable that the sidecar does not know would be ignored without a word.
#[test]
fn every_variable_is_one_that_the_sidecar_takes() {
    let help = sidecar(&["serve", "--help"]);
    let deployment = ingress("base/deployment.yaml");
    for variable in native(&deployment).1["env"].as_array().unwrap() {
        let name = variable["name"].as_str().unwrap();
        assert!(help.contains(&format!("[env: {name}=")), "{name} is not in\n{help}");
    }
}

/// Each overlay labels by both keys, adds its order to the sidecar's own variables, and the sidecar takes that order.
#[test]
fn the_overlays_differ_in_labels_and_order_alone() {
    let deployment = ingress("base/deployment.yaml");
    let (at, _) = native(&deployment);
    for (overlay, mode) in
        [("fail-first", "current"), ("wait-then-fail", "improved"), ("no-new-work", "no-new-work")]
    {
        let order = overlay;
        let kustomization = ingress(&format!("{overlay}/kustomization.yaml"));
        let labels = &kustomization["labels"][0];
        assert_eq!((&labels["pairs"]["mode"], &labels["pairs"]["deploy-mode"]), (&mode.into(), &mode.into()));
        assert_eq!(labels["includeTemplates"], true, "scripts select pods by them");
        assert_eq!(kustomization["patches"].as_array().unwrap().len(), 1);
        let patch = &kustomization["patches"][0];
        assert_eq!(patch["target"]["name"], deployment["metadata"]["name"]);
        let operations: Value = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
        assert_eq!(operations[0]["path"], format!("/spec/template/spec/initContainers/{at}/env/-"));
        assert_eq!(operations[0]["value"], serde_json::json!({ "name": "DRAIN_ORDER", "value": order }));
        let help = sidecar(&["serve", "--help"]);
        assert!(help.contains(&format!("- {order}:")), "{order} is not in\n{help}");
    }
}

/// What `audit-kept` adds lies in places that the job has, and the audit takes the arguments that come out.
#[test]
fn the_kept_audit_writes_to_its_volume() {
    let folder = workspace().join("manifests");
    let mut job = read(&folder.join("audit/cronjob.yaml")).remove(0);
    let kustomization = read(&folder.join("audit-kept/kustomization.yaml")).remove(0);
    let patch = &kustomization["patches"][0];
    assert_eq!(patch["target"]["name"], job["metadata"]["name"]);
    let operations: Vec<Value> = serde_saphyr::from_str(patch["patch"].as_str().unwrap()).unwrap();
    for operation in operations {
        let (parent, key) = operation["path"].as_str().unwrap().rsplit_once('/').unwrap();
        match job.pointer_mut(parent).unwrap_or_else(|| panic!("{parent} is not there")) {
            Value::Array(items) => items.push(operation["value"].clone()),
            place => place[key] = operation["value"].clone(),
        }
    }
    let pod = &job["spec"]["jobTemplate"]["spec"]["template"]["spec"];
    let claim = read(&folder.join("audit-kept/claim.yaml")).remove(0);
    assert_eq!(pod["volumes"][0]["persistentVolumeClaim"]["claimName"], claim["metadata"]["name"]);
    let container = &pod["containers"][0];
    assert_eq!(container["volumeMounts"][0]["name"], pod["volumes"][0]["name"]);
    let mount = container["volumeMounts"][0]["mountPath"].as_str().unwrap();
    let args: Vec<_> =
        container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    assert!(args.iter().any(|arg| arg.starts_with(&format!("--output-file={mount}/"))), "{args:?}");
    let output = workspace_binary("egress-audit").args(&args).arg("--help").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// HAProxy itself reads its two files; they differ in the two lines of the third answer alone.
#[test]
fn haproxy_takes_its_configurations() {
    let haproxy = find("haproxy", "haproxy").unwrap();
    let folder = workspace().join("manifests/ingress/haproxy");
    let certificate = tempfile::tempdir().unwrap();
    let pem = certificate.path().join("igw.pem");
    let own = rcgen::generate_simple_self_signed(vec!["igw.example".to_owned()]).unwrap();
    std::fs::write(&pem, own.cert.pem() + &own.signing_key.serialize_pem()).unwrap();
    let mut lines = Vec::new();
    for name in ["two-answers.cfg", "no-new-work.cfg"] {
        let text = std::fs::read_to_string(folder.join(name)).unwrap();
        let own = certificate.path().join(name);
        std::fs::write(&own, text.replace("/etc/haproxy/igw.pem", &pem.display().to_string())).unwrap();
        let output = Command::new(&haproxy).arg("-c").arg("-f").arg(&own).output().unwrap();
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
        let code = |line: &&str| !line.trim_start().starts_with('#');
        lines.push(text.lines().filter(code).map(|line| line.trim().to_owned()).collect::<Vec<_>>());
    }
    let more: Vec<_> = lines[1].iter().filter(|line| !lines[0].contains(line)).collect();
    assert_eq!(more, ["http-check disable-on-404", "http-check send-state"]);
    assert_eq!(lines[0].len() + 2, lines[1].len());
}
