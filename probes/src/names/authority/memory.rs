//! What was found once is not searched for again, even when a thousand names ask at the same moment. A name in wire
//! format is the key; used by `authority` for cuts and zones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

type EgressCell<T> = Arc<OnceCell<Arc<T>>>;

pub(super) struct Memory<T>(Mutex<HashMap<Vec<u8>, EgressCell<T>>>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Memory<T> {
    /// What is known about `name`, or what `search` finds. Others who ask meanwhile wait for the same search.
    pub(super) async fn recall(&self, name: &[u8], search: impl Future<Output = T>) -> Arc<T> {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(name.to_vec()).or_default())
        };
        Arc::clone(cell.get_or_init(|| async { Arc::new(search.await) }).await)
    }

    /// Replaces what is known.
    pub(super) fn correct(&self, name: &[u8], value: T) {
        let cell = Arc::new(OnceCell::new_with(Some(Arc::new(value))));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.to_vec(), cell);
    }
}
