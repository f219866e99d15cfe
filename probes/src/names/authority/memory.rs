//! What was found once is not searched for again, even when a thousand names ask at the same moment. A name is
//! the key; used by `authority` for cuts and zones.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;

use crate::names::budget::Spent;
use crate::names::wire::WireName;

type Cell<T> = Arc<OnceCell<Arc<T>>>;

pub(super) struct Memory<T>(Mutex<HashMap<WireName, Cell<T>>>);

impl<T> Default for Memory<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T> Memory<T> {
    /// What is known about `name`, or what `search` finds. Others who ask meanwhile wait for the same search. One that
    /// was given up for want of queries is not remembered: the next name searches with its own.
    pub(super) async fn recall(
        &self,
        name: &WireName,
        search: impl Future<Output = Result<T, Spent>>,
    ) -> Result<Arc<T>, Spent> {
        let cell = {
            let mut cells = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(cells.entry(name.clone()).or_default())
        };
        cell.get_or_try_init(|| async { search.await.map(Arc::new) }).await.cloned()
    }

    /// Replaces what is known.
    pub(super) fn correct(&self, name: &WireName, value: T) {
        let cell = Arc::new(OnceCell::new_with(Some(Arc::new(value))));
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), cell);
    }
}
