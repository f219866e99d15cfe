//! The 99th percentile of request times out of an access log: Envoy's default format, Istio's, either as JSON, and
//! HAProxy's `httplog`. Lines in, milliseconds out. Called by `plan`.

use std::io::BufRead;

use serde_json::Value;

/// What was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Times {
    /// Of each request, ms.
    sorted: Vec<u32>,
    /// Lines without one.
    pub(crate) unread: u64,
}

impl Times {
    /// Reads all lines.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn read(log: impl BufRead) -> std::io::Result<Self> {
        let (mut sorted, mut unread) = (Vec::new(), 0);
        for line in log.split(b'\n') {
            let line = line?;
            let line = String::from_utf8_lossy(&line);
            match millis(line.trim()) {
                Some(time) => sorted.push(time),
                None => unread += u64::from(!line.trim().is_empty()),
            }
        }
        sorted.sort_unstable();
        Ok(Self { sorted, unread })
    }

    /// How many requests have a time.
    pub(crate) fn len(&self) -> usize {
        self.sorted.len()
    }

    /// The time that 99 of 100 requests stay within (nearest rank).
    pub(crate) fn p99(&self) -> Option<u32> {
        let rank = (self.sorted.len() * 99).div_ceil(100);
        self.sorted.get(rank.checked_sub(1)?).copied()
    }
}

/// The time of one line.
fn millis(line: &str) -> Option<u32> {
    if let Some(start) = line.find('{')
        && let Ok(Value::Object(fields)) = serde_json::from_str(&line[start..])
    {
        return fields.get("duration").or_else(|| fields.get("duration_ms")).and_then(number);
    }
    if line.starts_with('[') { envoy(line) } else { haproxy(line) }
}

fn number(value: &Value) -> Option<u32> {
    match value {
        Value::Number(number) => u32::try_from(number.as_u64()?).ok(),
        Value::String(text) => text.parse().ok(),
        _ => None,
    }
}

/// `[start] "GET / HTTP/1.1" 200 - 0 1024 37 ...`, in Istio `... 200 - via_upstream - "-" 0 1024 37 ...`: the third number
/// after the flags.
fn envoy(line: &str) -> Option<u32> {
    let words = words(line.split_once(']')?.1);
    let [_request, status, _flags, rest @ ..] = &words[..] else { return None };
    status.parse::<u16>().ok()?;
    let numbers = match rest.first()?.parse::<u64>() {
        Ok(_) => rest,
        Err(_) => rest.get(3..)?,
    };
    let [received, sent, duration, ..] = numbers else { return None };
    (received.parse::<u64>().is_ok() && sent.parse::<u64>().is_ok()).then(|| duration.parse().ok())?
}

/// Blanks separate, except between quotes.
fn words(text: &str) -> Vec<&str> {
    let (mut words, mut start, mut quoted) = (Vec::new(), None, false);
    for (at, c) in text.char_indices() {
        match (c, start) {
            (' ', Some(begun)) if !quoted => {
                words.push(&text[begun..at]);
                start = None;
            }
            (' ', None) => {}
            (c, begun) => {
                quoted ^= c == '"';
                start = begun.or(Some(at));
            }
        }
    }
    words.extend(start.map(|begun| &text[begun..]));
    words
}

/// `... igw/pod-a 0/0/1/1480/1481 200 ...`: `TR/Tw/Tc/Tr/Ta`, the last with a `+` under `option logasap`. A request that
/// has not run to its end has a -1.
fn haproxy(line: &str) -> Option<u32> {
    line.split(' ').find_map(|word| {
        let times: Vec<Option<u32>> =
            word.split('/').map(|time| time.trim_start_matches('+').parse().ok()).collect();
        match times[..] {
            [Some(_), Some(_), Some(_), Some(_), Some(all)] => Some(all),
            _ => None,
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A line each as Envoy 1.40, Istio 1.31 and HAProxy 2.6 write it by default.
    #[test]
    fn every_default_format_is_read() {
        for (line, time) in [
            (
                r#"[2026-05-01T10:00:00.000Z] "GET /a b HTTP/1.1" 200 - 0 6 1500 1499 "-" "curl/8" "id" "lab" "127.0.0.1:80""#,
                1_500,
            ),
            (
                r#"[2026-05-01T10:00:00.000Z] "GET / HTTP/2" 200 - via_upstream - "-" 0 6 42 41 "-" "curl/8" "id" "lab" "10.0.0.1:80" outbound|80||x - 10.0.0.2:8080 10.0.0.3:5000 - default"#,
                42,
            ),
            (r#"{"duration":77,"method":"GET","response_code":200}"#, 77),
            (r#"2026-05-01T10:00:00Z stdout F {"duration":"78"}"#, 78),
            (
                "May  1 10:00:00 lb haproxy[1]: 10.0.0.9:5000 [01/May/2026:10:00:00.000] igw igw/pod-a 0/0/1/1480/1481 200 200 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"",
                1_481,
            ),
            (
                "10.0.0.9:5000 [01/May/2026:10:00:00.000] igw igw/a 0/0/1/2/+3 200 200 - - ---- 1/1/0/0/0 0/0 \"GET / HTTP/1.1\"",
                3,
            ),
        ] {
            assert_eq!(millis(line), Some(time), "{line}");
        }
        for odd in [
            "",
            "[",
            "hello",
            "igw/a 0/-1/-1/-1/12 503",
            "{\"duration\":-1}",
            "[x] \"GET",
            "[x] \"GET /\" 200 - a b c",
        ] {
            assert_eq!(millis(odd), None, "{odd}");
        }
    }

    #[test]
    fn the_percentile_is_a_time_that_was_seen() {
        let log = (1..=200).fold(String::new(), |log, n| log + &format!("{{\"duration\":{n}}}\n"));
        let times = Times::read(format!("{log}no time\n\n").as_bytes()).unwrap();
        assert_eq!((times.p99(), times.len(), times.unread), (Some(198), 200, 1));
        assert_eq!(Times::read(&b"{\"duration\":5}"[..]).unwrap().p99(), Some(5));
        assert_eq!(Times::read(&b"no time"[..]).unwrap().p99(), None);
    }

    proptest::proptest! {
        #[test]
        fn any_line_is_answered(line in ".{0,200}") {
            let _ = millis(&line);
        }
    }
}
