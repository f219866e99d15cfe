//! An error with its causes as one line. Errors' own messages leave their source out; whoever shows one to a person calls
//! this.

use std::error::Error;

/// `message: cause: cause of that`; a cause that the text has already is left out, since some libraries repeat it.
#[must_use]
pub fn chain(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let said = cause.to_string();
        if !text.contains(&said) {
            text = format!("{text}: {said}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        source: Option<Box<Layer>>,
    }

    fn layer(text: &'static str, source: Option<Layer>) -> Layer {
        Layer { text, source: source.map(Box::new) }
    }

    #[test]
    fn every_cause_is_told_once() {
        let inner = layer("refused", Some(layer("errno 111", None)));
        assert_eq!(chain(&layer("cannot connect", Some(inner))), "cannot connect: refused: errno 111");
        let repeated = layer("no socket: refused", Some(layer("refused", None)));
        assert_eq!(chain(&repeated), "no socket: refused");
    }
}
