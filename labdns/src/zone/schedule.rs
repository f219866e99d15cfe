//! The clock's commands: a scenario's steps come in, the commands that are due go out, in order of time and, at one
//! instant, of the file.

use std::time::Duration;

use rand::rngs::Xoshiro256PlusPlus;
use rand::{RngExt, SeedableRng};

use crate::command::Command;
use crate::schema::Step;
use crate::seed::seed_of;

#[derive(Debug)]
pub(super) struct Schedule {
    pending: Vec<Pending>,
    /// The earliest of all, so that a query compares one number.
    next: Duration,
}

#[derive(Debug)]
struct Pending {
    at: Duration,
    every: Option<Duration>,
    left: u32,
    command: Command,
}

impl Schedule {
    pub(super) fn new(steps: &[Step], seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed_of(seed, b"steps"));
        let pending = steps.iter().map(|step| {
            let (from, to) = (step.at.from.get(), step.at.to.get());
            let at = from + to.saturating_sub(from).mul_f64(rng.random_range(0.0..=1.0));
            let every = step.every.map(|every| every.get().max(Duration::from_millis(10)));
            let left = if every.is_some() { step.times.unwrap_or(u32::MAX) } else { 1 };
            Pending { at, every, left, command: step.r#do.clone() }
        });
        let mut schedule = Self { pending: pending.filter(|p| p.left > 0).collect(), next: Duration::MAX };
        schedule.look_ahead();
        schedule
    }

    /// The next command that is due by `now`.
    pub(super) fn due(&mut self, now: Duration) -> Option<Command> {
        if now < self.next {
            return None;
        }
        let place = self.pending.iter().position(|p| p.at == self.next)?;
        let due = &mut self.pending[place];
        due.left = due.left.saturating_sub(1);
        let command = match due.every {
            Some(every) if due.left > 0 => {
                due.at += every;
                due.command.clone()
            }
            _ => self.pending.remove(place).command,
        };
        self.look_ahead();
        Some(command)
    }

    fn look_ahead(&mut self) {
        self.next = self.pending.iter().map(|p| p.at).min().unwrap_or(Duration::MAX);
    }
}
