//! Mutations of valid documents, the same ones for the same seed: fields dropped, misspelled and doubled, values of another
//! type, at and past their bounds, and fields that others of the kind have at the same place.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

/// Fields and values that were seen under a path.
type Pool = BTreeMap<String, Vec<(String, Value)>>;

pub(super) fn mutations(valid: &[&Value], count: usize, seed: u64) -> Vec<Value> {
    let mut pool = Pool::new();
    for document in valid {
        gather(
            &document["spec"],
            &format!("{}.spec", document["kind"].as_str().unwrap_or_default()),
            &mut pool,
        );
    }
    let mut by_kind: BTreeMap<&str, Vec<&Value>> = BTreeMap::new();
    for document in valid {
        by_kind.entry(document["kind"].as_str().unwrap_or_default()).or_default().push(document);
    }
    let mut dice = Dice(seed);
    let kinds: Vec<&Vec<&Value>> = by_kind.values().collect();
    let mut all = Vec::new();
    while all.len() < count {
        let documents = kinds[all.len() % kinds.len()];
        let original = documents[dice.below(documents.len())];
        let mut mutated = original.clone();
        for _ in 0..=dice.below(2) {
            mutate(&mut mutated, &pool, &mut dice);
        }
        if mutated != *original {
            all.push(mutated);
        }
    }
    all
}

/// A generator of its own: the same figures on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % limit.max(1)
    }

    fn of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        (!all.is_empty()).then(|| all[self.below(all.len())].clone())
    }
}

fn gather(value: &Value, path: &str, pool: &mut Pool) {
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let known = pool.entry(path.to_owned()).or_default();
                let seen = (key.clone(), inner.clone());
                if !known.contains(&seen) {
                    known.push(seen);
                }
                gather(inner, &format!("{path}.{key}"), pool);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| gather(item, &format!("{path}[]"), pool)),
        _ => {}
    }
}

fn mutate(document: &mut Value, pool: &Pool, dice: &mut Dice) {
    let kind = document["kind"].as_str().unwrap_or_default().to_owned();
    if dice.below(40) == 0 {
        metadata(document, dice);
        return;
    }
    let mut places = Vec::new();
    let mut path = Vec::new();
    list(&document["spec"], &mut path, &mut places);
    let Some(steps) = dice.of(&places) else { return };
    let name: String = steps.iter().fold(format!("{kind}.spec"), |name, step| match step {
        Step::Key(key) => format!("{name}.{key}"),
        Step::Index(_) => format!("{name}[]"),
    });
    let mut value = &mut document["spec"];
    for step in &steps {
        value = match step {
            Step::Key(key) => &mut value[key.as_str()],
            Step::Index(index) => &mut value[*index],
        };
    }
    change(value, &name, pool, dice);
}

#[derive(Clone)]
enum Step {
    Key(String),
    Index(usize),
}

/// Every place of a tree, the values of an EnvoyFilter's patch left out.
fn list(value: &Value, path: &mut Vec<Step>, places: &mut Vec<Vec<Step>>) {
    places.push(path.clone());
    match value {
        Value::Object(fields) => {
            for (key, inner) in fields {
                let in_patch =
                    matches!(path.last(), Some(Step::Key(last)) if last == "patch") && key == "value";
                if !in_patch {
                    path.push(Step::Key(key.clone()));
                    list(inner, path, places);
                    path.pop();
                }
            }
        }
        Value::Array(items) => {
            for (index, inner) in items.iter().enumerate() {
                path.push(Step::Index(index));
                list(inner, path, places);
                path.pop();
            }
        }
        _ => {}
    }
}

fn change(value: &mut Value, name: &str, pool: &Pool, dice: &mut Dice) {
    if dice.below(8) == 0 {
        *value = dice.of(&other_types()).unwrap_or(Value::Null);
        return;
    }
    match value {
        Value::Object(fields) => fields_of(fields, name, pool, dice),
        Value::Array(items) => match dice.below(4) {
            0 => items.clear(),
            1 => {
                if let Some(item) = dice.of(items) {
                    items.push(item);
                }
            }
            2 if !items.is_empty() => {
                let index = dice.below(items.len());
                items.remove(index);
            }
            _ => {
                let others: Vec<Value> = pool
                    .values()
                    .flatten()
                    .filter(|(key, _)| name.ends_with(&format!(".{key}")))
                    .filter_map(|(_, value)| value.as_array()?.first().cloned())
                    .collect();
                items.extend(dice.of(&others));
            }
        },
        Value::String(text) => *text = string(text, dice),
        Value::Number(_) => *value = dice.of(&numbers()).unwrap_or(Value::Null),
        Value::Bool(truth) => *truth = !*truth,
        Value::Null => *value = json!({}),
    }
}

fn fields_of(fields: &mut Map<String, Value>, name: &str, pool: &Pool, dice: &mut Dice) {
    let keys: Vec<String> = fields.keys().cloned().collect();
    match (dice.below(6), dice.of(&keys)) {
        (0 | 1, Some(key)) => {
            fields.remove(&key);
        }
        (2, Some(key)) => {
            if let Some(value) = fields.remove(&key) {
                fields.insert(misspelled(&key, dice), value);
            }
        }
        _ => {
            if let Some((key, value)) = pool.get(name).and_then(|known| dice.of(known)) {
                fields.insert(key, value);
            }
        }
    }
}

fn misspelled(key: &str, dice: &mut Dice) -> String {
    let snake = || {
        key.chars().flat_map(|c| if c.is_uppercase() { vec!['_', c.to_ascii_lowercase()] } else { vec![c] })
    };
    match dice.below(5) {
        0 => snake().collect(),
        1 => key.to_lowercase(),
        2 => key.chars().skip(1).collect(),
        3 => format!("{key}s"),
        _ => format!("x{key}"),
    }
}

fn other_types() -> Vec<Value> {
    vec![
        Value::Null,
        json!("text"),
        json!(""),
        json!(7),
        json!(true),
        json!([]),
        json!({}),
        json!(["a"]),
        json!({"a": "b"}),
        json!("80"),
        json!(1.5),
    ]
}

fn numbers() -> Vec<Value> {
    let whole = [
        -1_i64,
        0,
        1,
        80,
        99,
        100,
        101,
        199,
        200,
        308,
        443,
        600,
        601,
        6553,
        6554,
        65535,
        65536,
        2_147_483_647,
        2_147_483_648,
        4_294_967_295,
        4_294_967_296,
    ];
    whole
        .into_iter()
        .map(Value::from)
        .chain([json!(0.5), json!(0.00001), json!(100.5), json!(-0.5)])
        .collect()
}

fn string(text: &str, dice: &mut Dice) -> String {
    let fixed = [
        "",
        "*",
        ".",
        "~",
        "a b",
        "a_b",
        "-a",
        "a-",
        "*.example.com",
        "a.*.example.com",
        "*a.example.com",
        "short",
        "a.example.com.",
        "192.0.2.1",
        "192.0.2.0/24",
        "192.0.2.0/33",
        "2001:db8::1",
        "010.0.0.1",
        "unix:///var/run/a.sock",
        "unix://a",
        "unix://@a",
        "unix:///var/",
        "0s",
        "1ms",
        "1us",
        "1500us",
        "1.5s",
        "5",
        "-1s",
        "1h",
        "1d",
        "100000h",
        "ns/host.example.com",
        "ns/*",
        "*/*",
        "./*",
        "~/*",
        "/a",
        "a/",
        "TCP",
        "TLS",
        "HTTP",
        "HTTPS",
        "HTTP2",
        "UDP",
        "http",
        "MONGO",
        "Nonsense",
        "SIMPLE",
        "MUTUAL",
        "ISTIO_MUTUAL",
        "PASSTHROUGH",
        "DISABLE",
        "NONE",
        "STATIC",
        "DNS",
        "DNS_ROUND_ROBIN",
        "DYNAMIC_DNS",
        "mesh",
        "ns/gateway",
        "gateway.ns.svc",
        "a(",
        "[a-z]+",
        "a{1001}",
        "(?i)a",
        "%",
        "%A%",
        "host",
        ":authority",
        "x-header",
        "outbound_.80_._.a.example.com",
        "443",
        "1.2.3",
        "127.0.0.1:80",
        ":80",
        "[::1]:80",
        "10.0.0.1:80",
        "region/zone/sub",
        "region/*",
        "region",
        "*/zone",
        "cancelled",
        "5xx,reset",
        "503",
        "999",
        "NOT_FOUND",
        "CONNECT",
        "UPGRADE",
        "é",
    ];
    match dice.below(6) {
        0 => text.repeat(12),
        1 => format!("{text}."),
        2 => text.to_uppercase(),
        _ => dice.of(&fixed).unwrap_or_default().to_owned(),
    }
}

fn metadata(document: &mut Value, dice: &mut Dice) {
    let changes = [
        ("name", json!("Upper")),
        ("name", json!("a.b")),
        ("name", json!("a_b")),
        ("name", json!("")),
        ("name", json!(7)),
        ("labels", json!({"a": "b c"})),
        ("labels", json!({"a": 1})),
        ("labels", json!({"a b": "c"})),
        ("labels", json!({"x.example/y": "z"})),
        ("annotations", json!({"a": true})),
        ("annotations", json!({"a": "any text"})),
        ("annotations", json!({"istio.io/dry-run": "true"})),
        ("annotations", json!({"internal.istio.io/parents": "a"})),
        ("labels", json!({"istio.io/use-waypoint": "waypoint"})),
        ("extra", json!(1)),
    ];
    if let Some((key, value)) = dice.of(&changes)
        && let Some(metadata) = document["metadata"].as_object_mut()
    {
        metadata.insert(key.to_owned(), value);
    }
    if dice.below(6) == 0 {
        document["apiVersion"] = json!("networking.istio.io/v2");
    }
}
