//! The example of the documentation does what it says.

#[expect(dead_code, reason = "the example's own `main`")]
#[path = "../examples/own_world.rs"]
mod own_world;

#[tokio::test]
async fn a_world_of_ones_own_is_trained_on() {
    let dir = tempfile::tempdir().unwrap();
    let scores = own_world::train(dir.path()).await.unwrap();
    assert_eq!(scores, (Some(0.0), Some(1.0)));
}
