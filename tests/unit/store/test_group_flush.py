"""Group commit: who waits for which offset."""

from cometmq.store.group_flush import GroupFlush


class Told(dict):
    """Waiters by name; what they were told."""

    def waiter(self, name: str):
        def on_done(is_on_disk: bool) -> None:
            assert name not in self, f"{name} was told twice"
            self[name] = is_on_disk

        return on_done


def test_one_flush_serves_all_that_it_covers_and_no_other():
    group, told = GroupFlush(), Told()
    for end in (100, 200, 300):
        group.add(end, deadline=5.0, on_done=told.waiter(str(end)))
    group.advance(200)
    assert told == {"100": True, "200": True}
    group.advance(299)
    assert "300" not in told
    group.advance(300)
    assert told["300"]
    assert len(group) == 0


def test_who_waits_too_long_is_told_so_once():
    group, told = GroupFlush(), Told()
    group.add(100, deadline=5.0, on_done=told.waiter("first"))
    group.add(200, deadline=6.0, on_done=told.waiter("second"))
    group.expire(4.9)
    assert told == {}
    group.expire(5.0)
    assert told == {"first": False}
    group.advance(200)
    assert told == {"first": False, "second": True}


def test_a_failure_is_told_to_all_and_to_whoever_comes_later():
    group, told = GroupFlush(), Told()
    group.add(100, deadline=5.0, on_done=told.waiter("before"))
    group.fail()
    group.add(200, deadline=5.0, on_done=told.waiter("after"))
    assert told == {"before": False, "after": False}


def test_a_waiter_added_late_waits_with_the_one_before_it():
    group, told = GroupFlush(), Told()
    group.add(200, deadline=5.0, on_done=told.waiter("early"))
    group.add(100, deadline=6.0, on_done=told.waiter("late"))
    group.advance(150)
    assert told == {}
    group.advance(200)
    assert told == {"early": True, "late": True}


def test_a_waiter_that_adds_another_while_it_is_told_is_safe():
    group, told = GroupFlush(), Told()
    group.add(
        100,
        deadline=5.0,
        on_done=lambda _: group.add(90, deadline=6.0, on_done=told.waiter("next")),
    )
    group.advance(100)
    assert told == {"next": True}
