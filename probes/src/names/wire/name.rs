//! Names: [`WireName`] is one in wire format, so that it is not mistaken for text; inside a message they are skipped,
//! compared and expanded from their compression. Bytes and an offset come in. Called by `wire` for every record, so
//! nothing is allocated until a name is kept or printed, and no name costs more than its 255 bytes and 128 pointers.

use std::fmt::{self, Write as _};
use std::hash::{BuildHasher, Hasher};
use std::sync::LazyLock;

use foldhash::fast::RandomState;
use policies::Host;

/// Labels and the root's empty one (RFC 1035, section 3.1).
const LONGEST: usize = 255;
/// A name has 127 labels at most, and a pointer before each of them and the root says all.
const MOST_POINTERS: usize = 128;

/// Of names that are compared many times; keyed, or a zone could choose names that meet.
static KEYS: LazyLock<RandomState> = LazyLock::new(RandomState::default);

/// A name in wire format, uncompressed and in lower case.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct WireName(Box<[u8]>);

impl WireName {
    pub(crate) fn of_host(host: &Host) -> Self {
        let mut out = Vec::with_capacity(host.as_str().len() + 2);
        for label in host.as_str().split('.') {
            // A host's labels have at most 63 bytes.
            out.push(u8::try_from(label.len()).unwrap_or(0));
            out.extend_from_slice(label.as_bytes());
        }
        out.push(0);
        Self(out.into())
    }

    /// The name at `at` of a message.
    pub(crate) fn at(message: &[u8], at: usize) -> Option<Self> {
        let mut buffer = NameBuf::default();
        buffer.read(message, at)?;
        Some(Self(buffer.as_bytes().into()))
    }

    pub(crate) fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn is_root(&self) -> bool {
        self.0.len() <= 1
    }

    /// The name and those above it, the root excluded.
    pub(crate) fn up_to_root(&self) -> impl Iterator<Item = Self> {
        self.suffixes().map(|name| Self(name.into()))
    }

    /// Whether this is `zone` or below it.
    pub(crate) fn is_within(&self, zone: &Self) -> bool {
        self.suffixes().any(|above| *above == *zone.0)
    }

    fn suffixes(&self) -> impl Iterator<Item = &[u8]> {
        std::iter::successors(Some(&*self.0), |name| name.get(1 + usize::from(*name.first()?)..))
            .take_while(|name| name.len() > 1)
    }
}

impl fmt::Display for WireName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(&self.0, f)
    }
}

/// The offset behind the name at `at`.
pub(super) fn skip(message: &[u8], mut at: usize) -> Option<usize> {
    loop {
        match *message.get(at)? {
            0 => return Some(at + 1),
            length @ 1..=63 => at += 1 + usize::from(length),
            0xc0.. => return (at + 2 <= message.len()).then_some(at + 2),
            _ => return None,
        }
    }
}

/// Where the first label of the name at `at` stands: most names are one pointer.
pub(super) fn start(message: &[u8], at: usize) -> usize {
    match (message.get(at), message.get(at + 1)) {
        (Some(high @ 0xc0..), Some(low)) => usize::from(high & 0x3f) << 8 | usize::from(*low),
        _ => at,
    }
}

/// Whether the names at two offsets are equal but for case. What is not a name equals none.
pub(super) fn same(message: &[u8], one: usize, other: usize) -> bool {
    let (mut one, mut other) = (Labels::new(message, one), Labels::new(message, other));
    loop {
        match (one.next(), other.next()) {
            (Some([0]), Some([0])) => return true,
            (Some(one), Some(other)) if one.eq_ignore_ascii_case(other) => {}
            _ => return false,
        }
    }
}

/// Equal for equal names; nothing where there is no name.
pub(super) fn key(message: &[u8], at: usize) -> Option<u64> {
    let mut hasher = KEYS.build_hasher();
    let mut labels = Labels::new(message, at);
    loop {
        let label = labels.next()?;
        if label == [0] {
            return Some(hasher.finish());
        }
        let mut lower = [0; 64];
        let lower = &mut lower[..label.len()];
        lower.copy_from_slice(label);
        lower.make_ascii_lowercase();
        hasher.write(lower);
    }
}

/// The labels of one name, each with its length before it, through its pointers. They must lead backwards.
struct Labels<'m> {
    message: &'m [u8],
    at: usize,
    pointers: usize,
    length: usize,
}

impl<'m> Labels<'m> {
    fn new(message: &'m [u8], at: usize) -> Self {
        Self { message, at, pointers: 0, length: 0 }
    }

    /// The next label; the root's is the last. Nothing where the name is malformed or too long.
    fn next(&mut self) -> Option<&'m [u8]> {
        loop {
            let size = usize::from(*self.message.get(self.at)?);
            if size < 64 {
                let label = self.message.get(self.at..=self.at + size)?;
                self.at += label.len();
                self.length += label.len();
                return (self.length <= LONGEST).then_some(label);
            }
            let target = (size & 0x3f) << 8 | usize::from(*self.message.get(self.at + 1)?);
            self.pointers += 1;
            if size < 0xc0 || target >= self.at || self.pointers > MOST_POINTERS {
                return None;
            }
            self.at = target;
        }
    }
}

/// One expanded name, lower case, in wire format.
pub(super) struct NameBuf {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Default for NameBuf {
    fn default() -> Self {
        Self { bytes: [0; LONGEST], length: 1 }
    }
}

impl NameBuf {
    /// Expands the name at `at` and returns the offset behind it.
    pub(super) fn read(&mut self, message: &[u8], at: usize) -> Option<usize> {
        let end = skip(message, at)?;
        let mut labels = Labels::new(message, at);
        let mut length = 0;
        loop {
            let label = labels.next()?;
            let room = self.bytes.get_mut(length..length + label.len())?;
            room.copy_from_slice(label);
            // Lengths are below 64 and so untouched by lowering, which begins at `A`.
            room.make_ascii_lowercase();
            length += label.len();
            if label == [0] {
                self.length = length;
                return Some(end);
            }
        }
    }

    /// The wire format.
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }
}

impl fmt::Display for NameBuf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        display(self.as_bytes(), f)
    }
}

/// Presentation format without the final dot (RFC 1035, section 5.1; RFC 4343, section 2.1): what a reader or a
/// terminal could misread is escaped, so that the text can be printed as it is.
fn display(name: &[u8], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if name.len() <= 1 {
        return f.write_char('.');
    }
    let mut rest = name;
    while let Some((&size, tail)) = rest.split_first().filter(|(size, _)| **size > 0) {
        if rest.len() < name.len() {
            f.write_char('.')?;
        }
        let Some((label, tail)) = tail.split_at_checked(usize::from(size)) else { break };
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
