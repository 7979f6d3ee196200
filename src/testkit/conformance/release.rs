//! Release says that provably nothing happened; Park says that nobody can tell.

use super::{EffectClass, Scene, StateName, Terms, name_of, outcome};
use crate::testkit::scene::{LEASE, terms};

pub async fn a_release_is_repeated_until_somebody_else_reserves(scene: Scene) {
    let held = scene.granted("k").await;
    for _ in 0..3 {
        let released = scene.release(&held).await;
        assert_eq!(
            (released.released, released.state),
            (true, Some(StateName::Released))
        );
    }
    scene.granted("k").await;
    let late = scene.release(&held).await;
    assert_eq!(
        (late.released, late.state),
        (false, Some(StateName::Running))
    );
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
}

pub async fn a_release_after_the_lease_counts_if_nobody_took_over(scene: Scene) {
    let held = scene.granted("k").await;
    scene.lease_out();
    assert!(scene.release(&held).await.released);
    assert_eq!(scene.says("k").await, "GRANTED");
}

pub async fn a_recovery_that_is_released_is_unowned_and_repeats(scene: Scene) {
    let (_, second) = scene.taken_over("k").await;
    for _ in 0..2 {
        let released = scene.release(&second).await;
        assert_eq!(
            (released.released, released.state),
            (true, Some(StateName::Recovering))
        );
    }
    assert_eq!(scene.record("k").await.hold(), None);
    assert_eq!(scene.says("k").await, "RECOVER");
    assert!(!scene.release(&second).await.released);
}

pub async fn a_tainted_run_that_is_released_is_never_granted_as_new(scene: Scene) {
    let scene = scene.of_class(EffectClass::Repeatable);
    let (_, second) = scene.running_again("k").await;
    let released = scene.release(&second).await;
    assert_eq!(
        (released.released, released.state),
        (true, Some(StateName::Recovering))
    );
    assert_eq!(scene.says("k").await, "RECOVER");
}

pub async fn released_recoveries_are_not_counted(scene: Scene) {
    let scene = scene.under(Terms {
        max_recoveries: 2,
        ..terms()
    });
    scene.granted("k").await;
    scene.lease_out();
    for _ in 0..10 {
        let held = scene.hold(&scene.ask("k")).await;
        assert!(scene.release(&held).await.released);
        assert_eq!(scene.record("k").await.recoveries, 0);
    }
}

pub async fn a_stale_holder_releases_nothing(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    let before = scene.record("k").await;
    let released = scene.release(&first).await;
    assert_eq!(
        (released.released, released.state),
        (false, Some(StateName::Recovering))
    );
    assert_eq!(scene.record("k").await, before);
    assert_eq!(scene.says("k").await, "IN_PROGRESS");
    assert!(scene.renew(&second, LEASE).await.held);

    let completed = scene.completed("completed").await;
    let released = scene.release(&completed).await;
    assert_eq!(
        (released.released, released.state),
        (false, Some(StateName::Completed))
    );
    let parked = scene.parked("parked").await;
    let released = scene.release(&parked).await;
    assert_eq!(
        (released.released, released.state),
        (false, Some(StateName::Parked))
    );
}

pub async fn a_running_and_a_recovering_record_are_parked_by_their_holder(scene: Scene) {
    let held = scene.granted("running").await;
    let (_, second) = scene.taken_over("recovering").await;
    for (key, held) in [("running", held), ("recovering", second)] {
        for _ in 0..2 {
            let parked = scene.park(&held).await;
            assert_eq!(
                (parked.parked, parked.state),
                (true, Some(StateName::Parked))
            );
        }
        assert_eq!(scene.says(key).await, "PARKED");
        assert_eq!(name_of(&scene.reserve(&held.request).await), "PARKED");
    }
}

pub async fn a_parked_record_stays_parked_for_as_long_as_it_takes(scene: Scene) {
    scene.parked("k").await;
    scene.later(crate::testkit::scene::secs(400 * 86_400));
    scene.sweep().await;
    assert_eq!(scene.says("k").await, "PARKED");
}

pub async fn a_stale_holder_parks_nothing(scene: Scene) {
    let (first, second) = scene.taken_over("k").await;
    let before = scene.record("k").await;
    let parked = scene.park(&first).await;
    assert_eq!(
        (parked.parked, parked.state),
        (false, Some(StateName::Recovering))
    );
    assert_eq!(scene.record("k").await, before);

    scene.release(&second).await;
    assert!(!scene.park(&second).await.parked);
    let third = scene.hold(&scene.ask("k")).await;
    scene.park(&third).await;
    let parked = scene.park(&second).await;
    assert_eq!(
        (parked.parked, parked.state),
        (false, Some(StateName::Parked))
    );

    let released = scene.granted("released").await;
    scene.release(&released).await;
    let parked = scene.park(&released).await;
    assert_eq!(
        (parked.parked, parked.state),
        (false, Some(StateName::Released))
    );
    let completed = scene.completed("completed").await;
    assert!(!scene.park(&completed).await.parked);
}

pub async fn an_unused_release_does_not_touch_a_completed_outcome(scene: Scene) {
    let held = scene.granted("k").await;
    scene.release(&held).await;
    scene.complete(&held, outcome("late")).await;
    scene.release(&held).await;
    assert_eq!(scene.says("k").await, "REPLAY");
}

pub async fn who_reports_after_its_release_has_released_nothing(scene: Scene) {
    let held = scene.granted("k").await;
    assert!(scene.release(&held).await.released);
    assert!(scene.release(&held).await.released);
    scene.complete(&held, outcome("done")).await;
    let again = scene.release(&held).await;
    assert_eq!(
        (again.released, again.state),
        (false, Some(StateName::Completed))
    );
}
