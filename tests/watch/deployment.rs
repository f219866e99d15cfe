//! `manifests/watch`: the program takes what the Deployment says, and the pod passes the restricted pod security standard.

use harness::egress_audit;
use serde_json::Value;

use crate::workspace;

fn documents(file: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(workspace().join("manifests/watch").join(file)).unwrap();
    serde_saphyr::from_multiple(&text).unwrap()
}

#[test]
fn the_program_takes_what_the_deployment_says() {
    let documents = documents("deployment.yaml");
    let pod = &documents[0]["spec"]["template"]["spec"];
    let container = &pod["containers"][0];
    let args: Vec<_> =
        container["args"].as_array().unwrap().iter().map(|arg| arg.as_str().unwrap()).collect();
    let output = egress_audit().args(&args).arg("--help").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let wrong = egress_audit().args(&args).arg("--no-such-flag").output().unwrap();
    assert!(!wrong.status.success());

    // What it reads and writes lies in its volumes.
    let mounts: Vec<_> = container["volumeMounts"].as_array().unwrap().iter().collect();
    for flag in ["--file=", "--store="] {
        let path = args.iter().find_map(|arg| arg.strip_prefix(flag)).unwrap();
        assert!(mounts.iter().any(|mount| path.starts_with(mount["mountPath"].as_str().unwrap())), "{path}");
    }
    let port = args.iter().find_map(|arg| arg.strip_prefix("--listen=0.0.0.0:")).unwrap();
    assert_eq!(container["ports"][0]["containerPort"].to_string(), port);
    let claim = &pod["volumes"][1]["persistentVolumeClaim"]["claimName"];
    assert_eq!(&documents[1]["metadata"]["name"], claim);
    // The store belongs to one process.
    assert_eq!(
        (&documents[0]["spec"]["replicas"], &documents[0]["spec"]["strategy"]["type"]),
        (&1.into(), &"Recreate".into())
    );
}

#[test]
fn the_pod_is_restricted() {
    let pod = &documents("deployment.yaml")[0]["spec"]["template"]["spec"];
    assert_eq!(pod["securityContext"]["runAsNonRoot"], true);
    assert_eq!(pod["securityContext"]["seccompProfile"]["type"], "RuntimeDefault");
    let container = &pod["containers"][0]["securityContext"];
    assert_eq!(container["allowPrivilegeEscalation"], false);
    assert_eq!(container["readOnlyRootFilesystem"], true);
    assert_eq!(container["capabilities"]["drop"], serde_json::json!(["ALL"]));
    assert_eq!(pod["automountServiceAccountToken"], false);
    let namespace = &documents("namespace.yaml")[0]["metadata"]["labels"];
    assert_eq!(namespace["pod-security.kubernetes.io/enforce"], "restricted");
}
