//! How much is said in the file: [`reduce`] takes comments out of manifests. `cli generate` calls it.

use super::Manifest;

/// How much is said above a resource.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Comments {
    /// Class and reasons.
    #[default]
    Full,
    /// One line.
    Short,
    /// Nothing.
    None,
}

/// Leaves as much of the comments as is wanted.
pub fn reduce(manifests: &mut [Manifest], comments: Comments) {
    for manifest in manifests {
        match comments {
            Comments::Full => {}
            Comments::Short => manifest.comment.truncate(1),
            Comments::None => manifest.comment.clear(),
        }
    }
}
