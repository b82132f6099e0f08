//! Money that several queries share: the whole run's, and below it each job's over all its tries. Exact, since a call is held against every
//! purse above it before it is sent, and the hold ends only after what it really cost is booked.

use crate::units::Usd;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Notify;

/// A purse, and the one that it is filled from.
#[derive(Debug)]
pub(super) struct Purse {
    cap: Option<Usd>,
    above: Option<Arc<Self>>,
    state: Mutex<State>,
    /// Told when a hold ends.
    freed: Notify,
}

#[derive(Debug, Default)]
struct State {
    spent: Usd,
    held: Usd,
    /// A call was refused: what is left is too little.
    dry: bool,
}

/// A call's worst case, set aside in a purse and in those above it, until it is dropped.
#[derive(Debug)]
pub(super) struct Hold {
    purse: Arc<Purse>,
    amount: Usd,
}

/// A purse has too little left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Dry;

impl Purse {
    /// One with a cap (`None`: none) and so much spent already.
    pub(super) fn new(cap: Option<Usd>, spent: Usd, above: Option<Arc<Self>>) -> Arc<Self> {
        let state = Mutex::new(State { spent, ..State::default() });
        Arc::new(Self { cap, above, state, freed: Notify::new() })
    }

    /// Sets an amount aside; waits while others hold what it needs.
    pub(super) async fn hold(self: &Arc<Self>, amount: Usd) -> Result<Hold, Dry> {
        loop {
            // Asked for before the try, so that nothing freed in between is missed.
            let freed: Vec<_> = self.chain().map(|purse| purse.freed.notified()).collect();
            let mut freed: Vec<_> = freed.into_iter().map(Box::pin).collect();
            for one in &mut freed {
                one.as_mut().enable();
            }
            match self.try_hold(amount) {
                Ok(()) => return Ok(Hold { purse: Arc::clone(self), amount }),
                Err(Short::Now) => {
                    drop(futures_util::future::select_all(freed).await);
                }
                Err(Short::ForGood) => return Err(Dry),
            }
        }
    }

    /// Books what was spent.
    pub(super) fn spend(&self, amount: Usd) {
        for purse in self.chain() {
            purse.lock().spent += amount;
        }
    }

    /// Whether it has refused a call.
    pub(super) fn is_dry(&self) -> bool {
        self.lock().dry
    }

    /// All purses at once, from the lowest up, so that nobody sees a hold that is taken back.
    fn try_hold(&self, amount: Usd) -> Result<(), Short> {
        let mut states: Vec<_> = self.chain().map(|purse| (purse.cap, purse.lock())).collect();
        let mut waits = false;
        for (cap, state) in &mut states {
            let Some(left) = cap.map(|cap| cap.minus(state.spent)) else { continue };
            if left < amount {
                state.dry = true;
                return Err(Short::ForGood);
            }
            if left.minus(state.held) < amount {
                waits = true;
            }
        }
        if waits {
            return Err(Short::Now);
        }
        for (_, state) in &mut states {
            state.held += amount;
        }
        Ok(())
    }

    fn put_back(&self, amount: Usd) {
        let mut state = self.lock();
        state.held = state.held.minus(amount);
        drop(state);
        self.freed.notify_waiters();
    }

    fn chain(&self) -> impl Iterator<Item = &Self> {
        std::iter::successors(Some(self), |purse| purse.above.as_deref())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Why an amount cannot be held.
enum Short {
    /// Others hold it, and may need less in the end.
    Now,
    /// It is not there.
    ForGood,
}

impl Hold {
    /// Nothing set aside.
    pub(super) fn nothing(purse: &Arc<Purse>) -> Self {
        Self { purse: Arc::clone(purse), amount: Usd::ZERO }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        for purse in self.purse.chain() {
            purse.put_back(self.amount);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(dollars: f64) -> Usd {
        Usd::from_dollars(dollars)
    }

    #[tokio::test]
    async fn what_one_call_holds_another_waits_for_until_it_is_known_what_it_cost() {
        let run = Purse::new(Some(usd(1.0)), Usd::ZERO, None);
        let (one, two) =
            (Purse::new(None, Usd::ZERO, Some(Arc::clone(&run))), Purse::new(None, Usd::ZERO, Some(run.clone())));
        let first = one.hold(usd(0.7)).await.unwrap();
        let mut waiting = tokio::task::JoinSet::new();
        waiting.spawn(async move { two.hold(usd(0.6)).await.map(drop) });
        tokio::task::yield_now().await;
        assert!(waiting.try_join_next().is_none());
        one.spend(usd(0.3));
        drop(first);
        assert_eq!(waiting.join_next().await.unwrap().unwrap(), Ok(()));
        assert_eq!(one.hold(usd(0.71)).await.map(drop), Err(Dry));
        assert!(run.is_dry() && !one.is_dry());
    }

    #[tokio::test]
    async fn a_refusal_further_up_holds_nothing_further_down() {
        let run = Purse::new(Some(usd(0.5)), usd(0.2), None);
        let job = Purse::new(Some(usd(9.0)), Usd::ZERO, Some(run));
        assert_eq!(job.hold(usd(0.4)).await.map(drop), Err(Dry));
        assert_eq!(job.lock().held, Usd::ZERO);
        assert!(job.hold(usd(0.3)).await.is_ok());
        assert_eq!(job.lock().held, Usd::ZERO);
    }
}
