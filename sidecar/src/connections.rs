//! Which connections of a listener are open, and which one makes room for the next. The port is open to the node's
//! network: whoever opens many and says nothing must not keep a probe out. A connection that is being answered is never
//! chosen. Used by `serve`.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use tokio::sync::Notify;

/// Open connections of one listener.
#[derive(Debug, Default)]
pub(crate) struct Connections {
    table: RefCell<Table>,
}

#[derive(Debug, Default)]
struct Table {
    next: u64,
    /// Have not asked for anything yet, by age.
    fresh: BTreeMap<u64, Rc<Notify>>,
    /// Have been answered and are idle, by the time of their last answer.
    served: BTreeMap<u64, Rc<Notify>>,
}

/// One of them, for as long as it is held.
#[derive(Debug)]
pub(crate) struct Ticket {
    connections: Rc<Connections>,
    key: std::cell::Cell<Option<u64>>,
    end: Rc<Notify>,
}

impl Connections {
    /// Takes one in. Beyond `most`, another one is told to end: of those that have asked for nothing the oldest, unless
    /// most of the idle ones have been answered before.
    pub(crate) fn admit(self: &Rc<Self>, most: usize) -> Ticket {
        let full = {
            let table = self.table.borrow();
            table.fresh.len() + table.served.len() >= most
        };
        if full {
            self.evict();
        }
        let end = Rc::new(Notify::new());
        let key = self.table.borrow_mut().add(&end, true);
        Ticket { connections: Rc::clone(self), key: std::cell::Cell::new(Some(key)), end }
    }

    /// Ends one that is not being answered, if there is one.
    pub(crate) fn evict(&self) {
        let mut table = self.table.borrow_mut();
        let oldest =
            if table.fresh.len() > table.served.len() { &mut table.fresh } else { &mut table.served };
        if let Some((_, end)) = oldest.pop_first() {
            end.notify_one();
        }
    }
}

impl Table {
    fn add(&mut self, end: &Rc<Notify>, fresh: bool) -> u64 {
        self.next += 1;
        let of = if fresh { &mut self.fresh } else { &mut self.served };
        of.insert(self.next, Rc::clone(end));
        self.next
    }
}

impl Ticket {
    /// Returns when the connection has to make room.
    pub(crate) async fn ended(&self) {
        self.end.notified().await;
    }

    /// A request of it is being answered.
    pub(crate) fn busy(&self) {
        if let Some(key) = self.key.take() {
            let mut table = self.connections.table.borrow_mut();
            table.fresh.remove(&key);
            table.served.remove(&key);
        }
    }

    /// The answer is there.
    pub(crate) fn answered(&self) {
        self.busy();
        let key = self.connections.table.borrow_mut().add(&self.end, false);
        self.key.set(Some(key));
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.busy();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(connections: &Rc<Connections>) -> (usize, usize) {
        let table = connections.table.borrow();
        (table.fresh.len(), table.served.len())
    }

    #[tokio::test]
    async fn the_oldest_that_has_asked_for_nothing_makes_room() {
        let connections = Rc::new(Connections::default());
        let (probe, idle, hook) = (connections.admit(4), connections.admit(4), connections.admit(4));
        probe.answered();
        hook.busy();
        assert_eq!(open(&connections), (1, 1));
        let later: Vec<_> = (0..100).map(|_| connections.admit(4)).collect();
        idle.ended().await;
        assert_eq!(open(&connections), (3, 1), "the probe's kept connection and the hook are left");
        drop(later);
        assert_eq!(open(&connections), (0, 1));
        drop((probe, hook, idle));
        assert_eq!(open(&connections), (0, 0));
    }

    #[test]
    fn a_crowd_that_has_been_answered_once_makes_room_for_a_new_probe() {
        let connections = Rc::new(Connections::default());
        let crowd: Vec<_> = (0..8).map(|_| connections.admit(8)).collect();
        crowd.iter().for_each(Ticket::answered);
        let _probe = connections.admit(8);
        assert_eq!(open(&connections), (1, 7));
    }
}
