//! Episodes on all threads: between two waves each of them reads a reply, acts and writes a prompt.

use std::collections::BTreeMap;
use std::future::Future;
use tokio::task::JoinSet;
use tracing::Instrument as _;

/// What these futures return, in their order. They end with the future that waits for them.
pub(crate) async fn side_by_side<F>(futures: impl Iterator<Item = F>) -> Vec<F::Output>
where
    F: Future<Output: Send> + Send + 'static,
{
    let mut running = JoinSet::new();
    for (place, future) in futures.enumerate() {
        running.spawn(async move { (place, future.await) }.in_current_span());
    }
    let mut done = BTreeMap::new();
    while let Some(joined) = running.join_next().await {
        match joined {
            Ok((place, output)) => {
                done.insert(place, output);
            }
            Err(error) => match error.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                // The runtime is shutting down, and polls this future for the last time.
                Err(_) => std::future::pending().await,
            },
        }
    }
    done.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::side_by_side;
    use std::sync::Arc;
    use tokio::sync::Barrier;

    #[tokio::test]
    async fn outputs_are_in_order_and_futures_wait_for_each_other() {
        let barrier = Arc::new(Barrier::new(3));
        let futures = (0..3).map(|place| {
            let barrier = Arc::clone(&barrier);
            async move {
                barrier.wait().await;
                place
            }
        });
        assert_eq!(side_by_side(futures).await, [0, 1, 2]);
    }

    #[tokio::test]
    async fn nothing_goes_on_after_the_caller_has_gone() {
        let kept = Arc::new(());
        let of_future = Arc::clone(&kept);
        let waiting = side_by_side(std::iter::once(async move {
            std::future::pending::<()>().await;
            drop(of_future);
        }));
        let result = tokio::time::timeout(std::time::Duration::ZERO, waiting).await;
        assert!(result.is_err());
        while Arc::strong_count(&kept) > 1 {
            tokio::task::yield_now().await;
        }
    }
}
