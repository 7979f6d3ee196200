//! ONE suite over the store's trait. Every store passes all of it, without exemptions; each case is
//! a test of its own, named after the rule that it holds.

#![expect(
    missing_docs,
    reason = "each case is named after the rule that it holds"
)]

pub mod calls;
pub mod complete;
pub mod expire;
pub mod grants;
pub mod identity;
pub mod late;
pub mod leases;
pub mod mismatch;
pub mod reading;
pub mod recovery;
pub mod release;
pub mod resolve;
pub mod retention;

use std::any::Any;
use std::sync::Arc;

pub use crate::domain::command::{
    Answer, Command, CompleteVerdict, Grant, InProgress, MismatchField, ReexecuteVerdict, Refusal,
    Reserve, ReserveVerdict, Resolution,
};
pub use crate::domain::policy::{EffectClass, Terms};
pub use crate::domain::record::StateName;
use crate::domain::record::{Etag, Fence, Generation, Version};
use crate::domain::token::Token;
use crate::port::store::Store;
use crate::testkit::scene::{Held, key_of};
pub use crate::testkit::scene::{Scene, effect, name_of, outcome, secs};

/// A fresh, empty store and what must live as long as it: a folder, a database, a server.
#[derive(Debug)]
pub struct Fixture {
    /// The store.
    pub store: Arc<dyn Store>,
    /// Dropped after the store.
    pub keep: Box<dyn Keep>,
}

/// What a store needs to live.
pub trait Keep: Any + std::fmt::Debug + Send {}

impl<T: Any + std::fmt::Debug + Send> Keep for T {}

/// The reservation behind a grant, for a case that looked at the verdict itself.
fn holder_of(key: &str, scene: &Scene, grant: &Grant) -> Held {
    let token = Token {
        generation: grant.generation,
        fence: grant.fence,
    };
    Held {
        key: key_of(key),
        token,
        request: scene.ask(key),
        grant: grant.clone(),
    }
}

/// An etag that no record has.
fn an_etag() -> Etag {
    Etag {
        generation: Generation::new(1),
        fence: Fence::new(1),
        version: Version::new(1),
    }
}

/// Stamps the suite for one store, as a module of tests.
///
/// `conformance_suite!(on_memory, memory)` takes an `async fn(ManualClock) -> Fixture` that makes
/// a fresh, empty store which takes its time from that clock.
#[macro_export]
macro_rules! conformance_suite {
    ($module:ident, $factory:path) => {
        mod $module {
            use super::*;
            $crate::conformance_cases! { $factory;
                grants:
                    one_of_many_racers_is_granted,
                    racers_with_other_fingerprints_are_one_grant_and_mismatches,
                    one_of_many_takers_recovers_a_stranded_record,
                    a_completion_that_meets_a_takeover_is_never_undone,
                    a_first_grant_has_attempt_one_and_the_whole_lease,
                    a_second_caller_is_told_who_is_at_work,
                    a_waiting_caller_changes_nothing,
                    a_repeated_call_gets_its_own_reservation_back,
                    a_repeated_call_gets_it_back_after_the_lease_if_nobody_took_over,
                    a_repeated_taker_gets_its_recovery_back,
                    a_used_request_id_no_longer_gets_its_reservation_back,
                    the_request_id_of_a_completed_reservation_gets_the_outcome,
                    the_request_id_of_a_released_reservation_is_never_granted,
                    a_released_key_is_granted_again_with_a_higher_fence,
                    one_of_many_racers_is_granted_a_released_key,
                    what_decides_about_a_record_is_kept_from_its_grant;
                leases:
                    a_lease_ends_exactly_at_its_deadline,
                    a_takeover_recovers_and_taints,
                    a_running_record_is_never_granted_by_time_alone,
                    a_caller_that_cannot_recover_leaves_a_stranded_record_alone,
                    a_holder_that_nobody_took_over_from_still_completes,
                    a_renewal_extends_the_lease_from_now,
                    a_renewal_never_shortens_a_lease,
                    a_lapsed_lease_is_held_again_if_nobody_took_over,
                    a_lease_is_renewed_up_to_its_cap_and_stays_held_there,
                    a_first_lease_over_the_cap_is_cut_to_it,
                    the_cap_counts_anew_from_a_takeover_and_from_another_run,
                    a_superseded_holder_is_told_at_its_next_renewal,
                    a_renewal_without_a_live_claim_is_not_held,
                    an_unowned_record_is_taken_by_the_next_that_can_recover,
                    the_takeover_after_max_recoveries_parks,
                    fences_and_attempts_rise_with_every_grant_and_takeover,
                    the_first_and_the_newest_nineteen_attempts_are_kept,
                    sixteen_effect_ids_are_kept;
                complete:
                    the_current_holders_outcome_is_recorded_and_replayed,
                    a_failure_for_good_is_replayed_like_a_success,
                    an_equal_outcome_repeated_is_already_recorded,
                    an_equal_outcome_by_a_superseded_holder_is_already_recorded,
                    another_outcome_by_the_current_holder_is_divergent_and_the_first_stays,
                    another_outcome_by_a_superseded_holder_is_superseded_and_kept,
                    a_completed_outcome_never_changes_in_its_generation,
                    of_two_outcomes_sent_at_once_one_is_recorded,
                    any_bytes_come_back_as_they_were,
                    metadata_comes_back_in_its_order_with_repeated_names,
                    a_payload_up_to_the_limit_is_kept_and_a_longer_one_left_out,
                    two_payloads_over_the_limit_are_still_told_apart,
                    metadata_and_effect_id_over_their_limits_are_left_out_and_named,
                    a_record_of_digests_keeps_no_payload,
                    the_outcome_found_by_a_recovery_is_replayed_with_its_attempt,
                    a_completion_without_a_record_is_superseded;
                late:
                    a_late_outcome_is_used_while_somebody_else_finds_out,
                    a_late_outcome_is_used_when_nobody_finds_out,
                    a_late_outcome_of_a_released_reservation_is_used,
                    a_late_outcome_of_a_parked_record_is_used,
                    a_late_outcome_does_not_stop_another_run,
                    a_kept_outcome_becomes_the_outcome_at_the_takeover,
                    a_kept_outcome_becomes_the_outcome_at_the_release,
                    a_kept_outcome_becomes_the_outcome_at_the_parking,
                    a_kept_outcome_of_a_released_reservation_survives_the_next_release,
                    a_kept_outcome_waits_for_a_caller_that_can_recover,
                    another_effect_id_rings_the_alarm,
                    an_outcome_that_differs_from_a_kept_one_rings_the_alarm,
                    two_different_late_outcomes_ring_the_alarm_and_the_first_is_kept,
                    an_outcome_of_another_generation_is_never_used,
                    a_tombstone_still_knows_its_outcome,
                    evidence_over_its_limit_is_kept_without_its_payload,
                    an_earlier_generations_own_outcome_is_no_news,
                    another_outcome_of_an_earlier_generation_is_kept_and_rings_once,
                    a_generation_of_which_nothing_is_left_still_leaves_its_evidence,
                    an_outcome_that_meets_a_persons_decision_is_never_lost,
                    an_outcome_after_a_person_said_nothing_happened_is_used;
                recovery:
                    receipt_repeatable_and_fenced_run_again_at_once,
                    opaque_parks_and_says_so_again,
                    a_keyed_effect_runs_again_only_while_it_surely_arrives_inside_the_window,
                    a_keyed_window_counts_from_the_first_attempt_on_a_clean_slate,
                    a_queryable_effect_settles_only_after_the_old_lease_and_the_settle_time,
                    a_look_up_begun_before_the_answer_that_said_settled_does_not_count,
                    a_crashed_second_run_must_settle_too,
                    a_recovery_that_crashes_does_not_settle_anew,
                    another_run_has_its_own_lease_and_can_be_taken_over,
                    the_same_call_gets_its_run_back_until_the_token_is_used,
                    a_first_grant_is_never_run_again_by_its_own_holder,
                    a_stale_token_is_never_run_again,
                    a_recovery_whose_token_asked_to_run_again_is_used,
                    a_person_approves_one_run_in_every_class,
                    an_approval_is_used_up_by_one_run,
                    an_approval_waits_for_the_one_that_uses_it,
                    every_run_granted_again_is_in_the_audit_trail;
                release:
                    a_release_is_repeated_until_somebody_else_reserves,
                    a_release_after_the_lease_counts_if_nobody_took_over,
                    a_recovery_that_is_released_is_unowned_and_repeats,
                    a_tainted_run_that_is_released_is_never_granted_as_new,
                    released_recoveries_are_not_counted,
                    a_stale_holder_releases_nothing,
                    who_reports_after_its_release_has_released_nothing,
                    a_running_and_a_recovering_record_are_parked_by_their_holder,
                    a_parked_record_stays_parked_for_as_long_as_it_takes,
                    a_stale_holder_parks_nothing,
                    an_unused_release_does_not_touch_a_completed_outcome;
                mismatch:
                    a_running_record_refuses_another_request,
                    a_recovering_record_refuses_another_request,
                    a_completed_record_refuses_another_request_and_still_replays,
                    a_parked_record_refuses_another_request,
                    a_record_settled_by_a_person_refuses_another_request,
                    a_tombstone_refuses_another_request_swept_or_not,
                    a_running_again_record_refuses_another_request,
                    mismatch_comes_before_a_request_id_and_before_recovery,
                    under_a_released_key_the_new_grant_stores_its_own,
                    under_a_reopened_key_the_new_grant_stores_its_own,
                    a_released_recovery_still_refuses_another_request,
                    what_cannot_be_compared_is_said_and_the_state_decides,
                    an_operation_is_compared_where_fingerprints_cannot_be;
                retention:
                    an_outcome_is_replayed_until_its_retention_ends_and_then_expired,
                    a_tombstone_answers_until_its_end_and_then_the_key_is_new,
                    without_a_tombstone_a_key_is_new_only_after_the_cache_bound,
                    retention_counts_from_completion_and_is_not_extended_by_reads,
                    a_completion_may_ask_for_its_own_retention,
                    the_sweeper_takes_the_payload_and_leaves_a_tombstone,
                    the_sweeper_takes_released_records_after_their_retention,
                    the_sweeper_never_touches_what_is_not_decided,
                    a_sweep_touches_no_more_than_its_batch,
                    several_sweepers_at_once_touch_each_record_once,
                    a_sweep_and_a_reserve_at_once_agree,
                    fences_rise_over_sweep_and_reuse,
                    tokens_are_checked_with_the_same_secrets_for_ever;
                expire:
                    an_expired_record_keeps_a_tombstone_and_is_never_run_again,
                    an_expire_is_repeated_with_the_same_answer_and_one_audit_line,
                    the_reopening_time_is_set_by_the_next_reserve_and_counts_from_it,
                    the_reopening_time_is_set_by_a_repeated_expire_once,
                    a_key_that_reopens_is_never_told_expired,
                    an_expired_record_may_be_allowed_another_run_later,
                    an_allowed_run_outlives_the_tombstone,
                    every_allowed_run_has_its_own_downstream_key,
                    what_is_not_completed_cannot_be_expired,
                    an_expire_of_what_is_not_there_is_not_found,
                    an_expire_of_another_generation_changes_nothing;
                resolve:
                    a_resolve_of_what_is_not_there_is_not_found,
                    a_person_who_knows_that_it_happened_completes_a_parked_record,
                    a_person_who_knows_that_nothing_happened_leaves_it_to_the_next,
                    a_resolved_first_grant_is_recovered_never_granted_as_new,
                    a_resolve_is_repeated_with_the_same_answer_and_one_audit_line,
                    a_second_person_who_found_something_else_is_refused,
                    a_resolve_under_an_earlier_etag_changes_nothing,
                    what_is_not_parked_cannot_be_resolved,
                    an_etag_never_takes_an_earlier_value_again,
                    the_audit_trail_is_read_in_pages_in_its_order;
                calls:
                    a_dropped_reserve_loses_nothing,
                    a_dropped_complete_loses_nothing,
                    callers_over_the_same_keys_in_any_order_all_get_an_answer,
                    a_key_is_granted_once_across_midnight_and_months,
                    every_command_repeated_gets_its_answer_again;
                identity:
                    no_separator_makes_two_identities_one,
                    tenants_are_independent,
                    a_token_of_one_tenant_is_nothing_to_another,
                    keys_are_compared_byte_for_byte,
                    the_longest_identity_works_like_any_other,
                    what_reads_like_an_internal_mark_is_a_key_like_any_other,
                    a_lost_race_leaves_every_other_key_alone;
                reading:
                    records_are_answered_in_the_order_of_the_keys,
                    a_reading_carries_the_databases_clock,
                    a_reading_changes_nothing,
                    a_record_comes_back_whole,
                    what_is_acknowledged_is_read_at_once,
                    a_namespace_is_stored_and_found_again,
                    a_namespace_is_written_only_over_the_version_that_was_seen,
                    of_two_writers_of_a_namespace_one_wins,
                    namespaces_are_listed_by_name_in_pages,
                    a_ready_store_says_what_it_is;
            }
        }
    };
}

/// Makes one test of each case. What is not listed does not run: a test compares this list with the
/// cases' files.
#[doc(hidden)]
#[macro_export]
macro_rules! conformance_cases {
    ($factory:path; $($concern:ident: $($case:ident),+;)+) => {
        $(mod $concern {
            use super::*;
            $(
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn $case() {
                    use $crate::port::clock::ManualClock;
                    use $crate::testkit::{conformance, scene};
                    let clock = ManualClock::new(scene::start());
                    let fixture: conformance::Fixture = $factory(clock.clone()).await;
                    let store = std::sync::Arc::clone(&fixture.store);
                    let scene = scene::Scene::new(store, clock);
                    Box::pin(conformance::$concern::$case(scene)).await;
                    drop(fixture);
                }
            )+
        })+
    };
}
