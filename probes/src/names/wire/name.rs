//! Names inside a message: skipped, expanded from their compression and printed in presentation format. Bytes and an
//! offset come in; called by `wire` for every record, so nothing is allocated until a name is printed.

use std::fmt::{self, Write as _};

use policies::Host;

/// Labels and the root's empty one (RFC 1035, section 3.1).
const LONGEST: usize = 255;

/// A host in wire format.
pub(crate) fn of_host(host: &Host) -> Vec<u8> {
    let mut out = Vec::with_capacity(host.as_str().len() + 2);
    for label in host.as_str().split('.') {
        // A host's labels have at most 63 bytes.
        out.push(u8::try_from(label.len()).unwrap_or(0));
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    out
}

/// A whole name in wire format, for people.
pub(crate) fn display(name: &[u8]) -> String {
    let mut buffer = NameBuf::default();
    buffer.read(name, 0).map(|_| buffer.to_string()).unwrap_or_default()
}

/// The name and those above it, the root excluded.
pub(crate) fn up_to_root(name: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::successors(Some(name), |name| name.get(1 + usize::from(*name.first()?)..))
        .take_while(|name| name.len() > 1)
}

/// Whether `name` is `zone` or below it; both in wire format and lower case.
pub(crate) fn is_within(name: &[u8], zone: &[u8]) -> bool {
    up_to_root(name).any(|above| above == zone)
}

/// The offset behind the name at `at`.
pub(crate) fn skip(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            0xc0.. => return (at + 2 <= message.len()).then_some(at + 2),
            _ => return None,
        }
    }
}

/// One expanded name, lower case, in wire format.
#[derive(Clone)]
pub(crate) struct NameBuf {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Default for NameBuf {
    fn default() -> Self {
        Self { bytes: [0; LONGEST], length: 1 }
    }
}

impl NameBuf {
    /// Expands the name at `at` and returns the offset behind it. Pointers must lead backwards, so every name ends.
    pub(crate) fn read(&mut self, message: &[u8], at: usize) -> Option<usize> {
        let end = skip(message, at)?;
        let (mut at, mut length) = (at, 0);
        loop {
            let size = usize::from(*message.get(at)?);
            if size >= 0xc0 {
                let target = (size & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                (target < at).then_some(())?;
                at = target;
                continue;
            }
            let label = message.get(at..=at + size)?;
            let room = self.bytes.get_mut(length..length + label.len())?;
            room.copy_from_slice(label);
            // Lengths are below 64 and so untouched by lowering, which ends at `Z`.
            (size < 64).then_some(())?;
            room.make_ascii_lowercase();
            length += label.len();
            at += label.len();
            if size == 0 {
                self.length = length;
                return Some(end);
            }
        }
    }

    /// Whether the name at `at` is this one; nothing where it is no name. As [`NameBuf::read`], without the copy.
    pub(crate) fn is_at(&self, message: &[u8], start: usize) -> Option<bool> {
        let (mut at, mut rest) = (start, self.as_bytes());
        loop {
            let size = usize::from(*message.get(at)?);
            if size >= 0xc0 {
                let target = (size & 0x3f) << 8 | usize::from(*message.get(at + 1)?);
                (target < at).then_some(())?;
                at = target;
                continue;
            }
            let label = message.get(at..=at + size)?;
            match rest.split_at_checked(label.len()) {
                Some((own, below)) if own.eq_ignore_ascii_case(label) => rest = below,
                // Another name, if it is one.
                _ => return Self::default().read(message, start).map(|_| false),
            }
            (size < 64).then_some(())?;
            if size == 0 {
                return Some(true);
            }
            at += label.len();
        }
    }

    /// The wire format.
    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

/// Presentation format without the final dot (RFC 1035, section 5.1; RFC 4343, section 2.1): what a reader or a
/// terminal could misread is escaped, so that the text can be printed as it is.
impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_bytes();
        if rest.len() == 1 {
            return f.write_char('.');
        }
        while let Some((&size, tail)) = rest.split_first().filter(|(size, _)| **size > 0) {
            if rest.len() < self.length {
                f.write_char('.')?;
            }
            let (label, tail) = tail.split_at(usize::from(size));
            for &byte in label {
                match byte {
                    b'.' | b'\\' | b'"' | b'(' | b')' | b';' | b'@' | b'$' => {
                        write!(f, "\\{}", char::from(byte))?;
                    }
                    b'!'..=b'~' => f.write_char(char::from(byte))?,
                    _ => write!(f, "\\{byte:03}")?,
                }
            }
            rest = tail;
        }
        Ok(())
    }
}
