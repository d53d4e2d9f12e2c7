//! The mailbox alone: whom it names, and how much it holds.

use super::*;
use crate::group::frame::Operation;
use crate::group::tag::Tag;

const TAG: Tag = Tag { epoch: 1, round: 6, site: 0, kind: 0, shape: 0 };
const NEXT: Tag = Tag { round: 7, ..TAG };

fn deliver(mailbox: &Mailbox, rank: usize, tag: Tag) {
    let entry = Entry { operation: Operation::Gather, tag, payload: Vec::new() };
    mailbox.deliver(rank, entry, None).unwrap();
}

fn await_next(mailbox: &Mailbox) -> Result<(), GroupError> {
    let deadline = Duration::from_millis(10);
    mailbox.await_entries(Interest::Entry(Operation::Gather, NEXT), deadline, &mut vec![Vec::new(); 3])
}

#[test]
fn mailbox_keeps_the_later_of_what_it_saw_and_what_it_was_told() {
    for (seen, told) in [(TAG, NEXT), (NEXT, TAG)] {
        let mailbox = Mailbox::new(0, 3);
        deliver(&mailbox, 2, seen);
        mailbox.lock().heard.take_entries(&mut vec![Vec::new(); 3]);
        mailbox.end(1, End::Poison { culprit: 2, last: Some(told) });
        let last = Some(NEXT);
        assert_eq!(await_next(&mailbox), Err(GroupError::Relayed { rank: 2, last, by: 1 }));
    }
}

#[test]
fn mailbox_names_the_first_that_fell() {
    let mailbox = Mailbox::new(0, 3);
    deliver(&mailbox, 2, TAG);
    mailbox.lock().heard.take_entries(&mut vec![Vec::new(); 3]);
    mailbox.end(2, End::Closed);
    mailbox.end(1, End::Closed);
    assert_eq!(await_next(&mailbox), Err(GroupError::Gone { rank: 2, last: Some(TAG) }));
}

#[test]
fn mailbox_bounds_how_far_a_peer_is_ahead() {
    let mailbox = Mailbox::new(0, 2);
    deliver(&mailbox, 1, TAG);
    deliver(&mailbox, 1, TAG);
    let entry = Entry { operation: Operation::Gather, tag: TAG, payload: Vec::new() };
    let soon = Some(after(Duration::from_millis(5)));
    assert_eq!(mailbox.deliver(1, entry, soon), Err(Undelivered::Full));
}

#[test]
fn mailbox_believes_a_peer_that_it_misses_when_that_one_names_another() {
    let mailbox = Mailbox::new(0, 3);
    let error = std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(30));
            mailbox.end(1, End::Poison { culprit: 2, last: Some(TAG) });
        });
        await_next(&mailbox)
    });
    assert_eq!(error, Err(GroupError::Relayed { rank: 2, last: Some(TAG), by: 1 }));
}
