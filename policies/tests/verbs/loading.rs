//! Files as people and attackers write them: what can be read is read, the rest is named with its line.

use policies::manifest::{Kind, Loaded, MAX_FILE_BYTES};
use proptest::prelude::*;

fn load(bytes: &[u8]) -> Loaded {
    let mut loaded = Loaded::default();
    loaded.add("m.yaml", bytes);
    loaded
}

const ENTRY: &str = "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata: {name: api, namespace: egress}\n\
                     spec:\n  hosts: [api.partner.example]\n";

fn names(loaded: &Loaded) -> Vec<&str> {
    loaded.resources.iter().map(|resource| &*resource.name).collect()
}

#[test]
fn documents_lists_and_versions_are_read_and_others_counted() {
    let text = format!(
        "{ENTRY}---\n# nothing here\n---\nkind: ConfigMap\napiVersion: v1\n---\n{{\"apiVersion\": \
         \"networking.istio.io/v1beta1\", \"kind\": \"Gateway\", \"metadata\": {{\"name\": \"json\"}}}}\n---\n\
         apiVersion: v1\nkind: List\nitems:\n- apiVersion: networking.istio.io/v1alpha3\n  kind: DestinationRule\n  \
         metadata: {{name: listed}}\n- kind: Pod\n  apiVersion: v1\n---\napiVersion: gateway.networking.k8s.io/v1\n\
         kind: Gateway\nmetadata: {{name: other}}\n"
    );
    let loaded = load(text.as_bytes());
    assert_eq!(names(&loaded), ["api", "json", "listed"]);
    assert_eq!(loaded.resources[2].kind, Kind::DestinationRule);
    assert_eq!(loaded.resources[2].root.at.line, 17, "places are the file's");
    assert_eq!(loaded.passed_over.values().sum::<usize>(), 3);
    assert_eq!((loaded.documents, loaded.problems.len()), (5, 0));
}

#[test]
fn a_broken_document_is_named_and_its_neighbours_are_read() {
    let text = format!(
        "{ENTRY}---\nspec:\n  hosts: [a, b\n  resolution: DNS\n---\n{}",
        ENTRY.replace("name: api", "name: two")
    );
    let loaded = load(text.as_bytes());
    assert_eq!(names(&loaded), ["api", "two"]);
    let [problem] = &loaded.problems[..] else { panic!("{:?}", loaded.problems) };
    assert!((7..=9).contains(&problem.line), "{problem:?}");
    assert!(!problem.snippet.is_empty() && !problem.hint.is_empty(), "{problem:?}");
}

#[test]
fn marks_line_ends_and_markers_in_text_do_not_matter() {
    let windows = format!("\u{feff}{}", ENTRY.replace('\n', "\r\n"));
    let loaded = load(windows.as_bytes());
    assert_eq!((names(&loaded), loaded.problems.len()), (vec!["api"], 0));
    let host = &loaded.resources[0].root.list("spec.hosts")[0];
    let (start, end) = host.at.bytes.unwrap();
    assert_eq!(&windows[start as usize..end as usize], "api.partner.example");
    let block =
        format!("kind: ConfigMap\napiVersion: v1\ndata:\n  text: |\n    ---\n    kind: x\n---\n{ENTRY}");
    assert_eq!(load(block.as_bytes()).documents, 2);
}

#[test]
fn templates_are_named_with_the_remedy() {
    for text in [
        "apiVersion: networking.istio.io/v1\nkind: ServiceEntry\nmetadata:\n  name: {{ .Release.Name }}\n",
        "{{- if .Values.on }}\nkind: ServiceEntry\n{{- end }}\n",
        &ENTRY.replace("api.partner.example", "\"{{ .Values.host }}\""),
    ] {
        let loaded = load(text.as_bytes());
        assert!(loaded.resources.is_empty(), "{text}");
        assert!(loaded.problems[0].message.contains("template"), "{:?}", loaded.problems);
        assert!(loaded.problems[0].hint.contains("helm template"));
    }
    let dashboard = ENTRY.replace("namespace: egress}", "annotations: {legend: '{{host}}'}}");
    assert_eq!(load(dashboard.as_bytes()).problems, [], "annotations are for others");
}

#[test]
fn variables_of_envsubst_are_templates() {
    for value in ["\"${HOST}\"", "\"api.${DOMAIN}\"", "$HOST", "\"${HOST:-api.partner.example}\""] {
        let loaded = load(ENTRY.replace("api.partner.example", value).as_bytes());
        assert!(loaded.resources.is_empty(), "{value}");
        let problem = &loaded.problems[0];
        assert!(problem.message.contains("template") && problem.hint.contains("envsubst"), "{problem:?}");
    }
    for value in ["api.partner.example", "'cost-$'", "'$1'", "'a${}b'"] {
        assert_eq!(load(ENTRY.replace("api.partner.example", value).as_bytes()).problems, [], "{value}");
    }
    let annotated = ENTRY.replace("namespace: egress}", "annotations: {note: '${HOST}'}}");
    assert_eq!(load(annotated.as_bytes()).problems, [], "annotations are for others");
}

#[test]
fn bombs_and_giants_are_refused_quickly() {
    let mut bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n".to_owned();
    for (one, two) in ('a'..='h').zip('b'..='i') {
        let nine = vec![format!("*{one}"); 9].join(",");
        bomb.push_str(&[&two.to_string(), ": &", &two.to_string(), " [", &nine, "]\n"].concat());
    }
    let deep = "[".repeat(100_000);
    let deep_block = "- ".repeat(5000);
    for text in [&bomb, &deep, &deep_block] {
        let loaded = load(text.as_bytes());
        assert_eq!(loaded.problems.len(), 1, "{text:.40}");
    }
    assert!(load(b"\xff\xfe\x00").problems[0].message.contains("UTF-8"));
    assert!(load(&vec![b' '; MAX_FILE_BYTES + 1]).problems[0].message.contains("MiB"));
    let twice = format!("{ENTRY}  hosts: []\n");
    assert_eq!(load(twice.as_bytes()).problems.len(), 1, "a key that stands twice");
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_named(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        load(&bytes);
    }

    #[test]
    fn any_text_is_read_or_named(text in "(\\PC|\n|---\n|  |: |- |\\{|\\[|&a |\\*a ){0,60}") {
        let loaded = load(text.as_bytes());
        for problem in &loaded.problems {
            let text = [problem.message.as_str(), &problem.snippet].concat();
            prop_assert!(!text.chars().any(char::is_control));
        }
    }
}
