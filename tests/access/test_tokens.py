"""How often an API server is asked about a token, and what holds while it is not there."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from global_discovery.domain.errors import AuthenticationUnavailable, TooManyBadTokens
from global_discovery.domain.events import Event
from global_discovery.serving.access import reviews, tokens
from global_discovery.serving.access.bearer import BadToken
from global_discovery.serving.access.reviews import Reviews, TokenCluster
from global_discovery.serving.access.tokens import Tokens
from support.access import AUDIENCE, ISSUER, HandReviewer, a_token
from support.clock import EPOCH, FakeClock
from support.grpc_calls import eventually

HERE = "10.0.0.1"
IDENTITY = "sa:east/dynamo/relay"


class World:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.east, self.west = HandReviewer(), HandReviewer()
        self.events: list[tuple[Event, dict[str, Any]]] = []
        self.reviews = Reviews(
            [
                TokenCluster("east", ISSUER, self.east),
                TokenCluster("west", "https://oidc.example/west", self.west),
            ],
            clock=self.clock,
            report=lambda event, **fields: self.events.append((event, fields)),
        )
        self.tokens = Tokens(self.reviews, audience=AUDIENCE, clock=self.clock)

    async def ask(self, token: str, address: str = HERE) -> str:
        return await self.tokens.identity([f"Bearer {token}"], address)

    async def settled(self) -> None:
        """No review runs."""
        await eventually(lambda: not self.tokens._asking)


@pytest.fixture
async def world() -> AsyncIterator[World]:
    made = World()
    yield made
    await made.tokens.close()
    assert made.east.closed


async def test_a_good_token_is_reviewed_once(world: World) -> None:
    token = world.east.accept(a_token())
    assert [await world.ask(token) for _ in range(3)] == [IDENTITY] * 3
    assert world.east.asked == [token]


async def test_callers_with_one_token_wait_for_one_review(world: World) -> None:
    token = world.east.accept(a_token())
    world.east.answering.clear()
    waiting = [asyncio.ensure_future(world.ask(token)) for _ in range(5)]
    await eventually(lambda: bool(world.east.asked))
    waiting[0].cancel()
    world.east.answering.set()
    answers = await asyncio.gather(*waiting, return_exceptions=True)
    assert answers[1:] == [IDENTITY] * 4
    assert world.east.asked == [token]


async def test_a_token_is_shown_to_its_own_cluster_only(world: World) -> None:
    token = world.west.accept(a_token(iss="https://oidc.example/west"))
    assert await world.ask(token) == "sa:west/dynamo/relay"
    with pytest.raises(BadToken, match="issuer"):
        await world.ask(a_token(iss="https://oidc.example/north"))
    assert (world.east.asked, world.west.asked) == ([], [token])


async def test_a_good_token_is_reviewed_again_in_the_background(world: World) -> None:
    token = world.east.accept(a_token())
    await world.ask(token)
    world.clock.advance(tokens.AGAIN_SECONDS)
    world.east.answering.clear()
    assert await world.ask(token) == IDENTITY  # without waiting for anybody
    world.east.answering.set()
    await world.settled()
    assert world.east.asked == [token, token]
    assert await world.ask(token) == IDENTITY
    assert len(world.east.asked) == 2


async def test_a_revoked_token_is_refused_once_its_review_has_said_so(world: World) -> None:
    token = world.east.accept(a_token())
    await world.ask(token)
    world.east.good.clear()
    world.clock.advance(tokens.AGAIN_SECONDS)
    assert await world.ask(token) == IDENTITY
    await world.settled()
    with pytest.raises(BadToken, match="refused"):
        await world.ask(token)


async def test_after_two_minutes_a_token_is_good_only_if_it_is_reviewed_first(
    world: World,
) -> None:
    token = world.east.accept(a_token())
    await world.ask(token)
    world.east.good.clear()
    world.clock.advance(tokens.FRESH_SECONDS)
    with pytest.raises(BadToken, match="refused"):
        await world.ask(token)


async def test_while_the_api_server_is_away_a_token_known_good_stays_good_for_a_while(
    world: World,
) -> None:
    token = world.east.accept(a_token())
    await world.ask(token)
    world.east.away = True
    world.clock.advance(tokens.KEPT_SECONDS - 1)
    assert await world.ask(token) == IDENTITY
    world.clock.advance(1)
    with pytest.raises(AuthenticationUnavailable):
        await world.ask(token)


async def test_no_token_is_good_beyond_its_own_end(world: World) -> None:
    token = world.east.accept(a_token(exp=EPOCH + 200))
    await world.ask(token)
    world.east.away = True
    world.clock.advance(199)
    assert await world.ask(token) == IDENTITY
    world.clock.advance(1)
    with pytest.raises(AuthenticationUnavailable):
        await world.ask(token)
    assert world.tokens.known == 0


async def test_a_token_that_ends_is_not_good_for_the_rest_of_two_minutes(world: World) -> None:
    token = world.east.accept(a_token(exp=EPOCH + 30))
    await world.ask(token)
    world.east.good.clear()
    world.clock.advance(30)
    with pytest.raises(BadToken, match="expired"):
        await world.ask(token)
    assert len(world.east.asked) == 2


@pytest.mark.parametrize("step", [-86_400, 86_400])
async def test_a_wall_clock_that_is_stepped_refuses_nobody(world: World, step: int) -> None:
    """Relays' tokens are good for an hour: a step of a day would have ended all of them."""
    held, new = world.east.accept(a_token()), world.east.accept(a_token(jti="next"))
    await world.ask(held)
    world.clock.step_wall(step)
    assert await world.ask(held) == IDENTITY
    assert world.east.asked == [held]
    assert await world.ask(new) == IDENTITY
    world.clock.advance(tokens.AGAIN_SECONDS - 1)
    assert [await world.ask(held), await world.ask(new)] == [IDENTITY] * 2
    assert world.east.asked == [held, new]


async def test_what_seems_expired_is_reviewed_again_in_time_too(world: World) -> None:
    world.clock.step_wall(86_400)
    token = world.east.accept(a_token())
    await world.ask(token)
    world.east.good.clear()
    world.clock.advance(tokens.FRESH_SECONDS)
    with pytest.raises(BadToken, match="expired"):
        await world.ask(token)


async def test_an_expired_token_that_was_refused_is_not_reviewed_for_long(world: World) -> None:
    token = a_token(exp=EPOCH - 1)
    for _ in range(2):
        with pytest.raises(BadToken, match="expired"):
            await world.ask(token)
        world.clock.advance(tokens.EXPIRED_SECONDS - 1)
    assert len(world.east.asked) == 1
    with pytest.raises(BadToken, match="expired"):
        await world.ask(token)
    assert len(world.east.asked) == 2


async def test_a_bad_token_is_not_reviewed_again_for_a_moment(world: World) -> None:
    for _ in range(3):
        with pytest.raises(BadToken, match="refused"):
            await world.ask(a_token())
    assert len(world.east.asked) == 1
    world.clock.advance(tokens.REFUSED_SECONDS)
    world.east.accept(a_token())
    assert await world.ask(a_token()) == IDENTITY


async def test_a_user_that_is_no_service_account_is_refused(world: World) -> None:
    with pytest.raises(BadToken, match="refused"):
        await world.ask(world.east.accept(a_token(), "system:admin"))


async def test_an_api_server_that_failed_is_left_alone_for_a_moment_and_told_once(
    world: World,
) -> None:
    world.east.away = True
    for number in range(3):
        with pytest.raises(AuthenticationUnavailable) as failed:
            await world.ask(a_token(f"relay-{number}"))
        assert failed.value.retry_after
    assert len(world.east.asked) == 1
    world.clock.advance(reviews.AWAY_SECONDS)
    world.east.away = False
    await world.ask(world.east.accept(a_token()))
    assert [event for event, _ in world.events] == [
        Event.REVIEWS_FAILING,
        Event.REVIEWS_WORK_AGAIN,
    ]


async def test_one_api_server_that_hangs_holds_up_no_other_cluster(world: World) -> None:
    world.east.answering.clear()
    hanging = [
        asyncio.ensure_future(world.ask(a_token(f"r{number}")))
        for number in range(2 * reviews.AT_ONCE)
    ]
    await eventually(lambda: len(world.east.asked) == reviews.AT_ONCE)
    token = world.west.accept(a_token(iss="https://oidc.example/west"))
    assert await world.ask(token) == "sa:west/dynamo/relay"
    world.east.answering.set()
    await asyncio.gather(*hanging, return_exceptions=True)
    assert world.east.most_at_once == reviews.AT_ONCE


async def test_random_tokens_of_one_address_soon_reach_nobody(world: World) -> None:
    refusals = await asyncio.gather(
        *(world.ask(a_token(signature=f"s{number}")) for number in range(300)),
        return_exceptions=True,
    )
    assert {type(refusal) for refusal in refusals} == {BadToken, TooManyBadTokens}
    assert len(world.east.asked) <= reviews.BAD_TOKENS + reviews.AT_ONCE
    good = world.east.accept(a_token())
    with pytest.raises(TooManyBadTokens) as waits:
        await world.ask(good)
    assert await world.ask(good, "10.9.9.9") == IDENTITY, "others notice nothing"
    assert waits.value.retry_after
    world.clock.advance(waits.value.retry_after)
    assert await world.ask(world.east.accept(a_token("other"))) == "sa:east/dynamo/relay"


async def test_random_tokens_of_many_addresses_are_bounded_in_all(world: World) -> None:
    good = world.east.accept(a_token())
    await world.ask(good)
    for number in range(2 * reviews.BAD_TOKENS_IN_ALL):
        with pytest.raises((BadToken, TooManyBadTokens)):
            await world.ask(a_token(signature=f"s{number}"), f"10.1.{number // 250}.{number % 250}")
    assert len(world.east.asked) <= reviews.BAD_TOKENS_IN_ALL + 2
    world.clock.advance(tokens.FRESH_SECONDS)
    assert await world.ask(good) == IDENTITY


def of_a_pod(uid: str = "0b1d", **claims: Any) -> str:
    return a_token(**{"kubernetes.io": {"pod": {"uid": uid}}, **claims})


async def test_a_replaced_token_is_reviewed_whatever_else_comes_from_its_address(
    world: World,
) -> None:
    await world.ask(world.east.accept(of_a_pod(jti="1")))
    for number in range(2 * reviews.BAD_TOKENS_IN_ALL):
        address = HERE if number < reviews.BAD_TOKENS else f"10.1.{number // 250}.{number % 250}"
        with pytest.raises((BadToken, TooManyBadTokens)):
            await world.ask(a_token(signature=f"s{number}"), address)
    assert await world.ask(world.east.accept(of_a_pod(jti="2"))) == IDENTITY
    with pytest.raises(TooManyBadTokens):
        await world.ask(world.east.accept(of_a_pod("another")))


async def test_whose_token_was_good_once_is_not_asked_for_without_end(world: World) -> None:
    await world.ask(world.east.accept(of_a_pod()))
    for number in range(3 * reviews.BAD_TOKENS):
        with pytest.raises((BadToken, TooManyBadTokens)):
            await world.ask(of_a_pod(signature=f"s{number}"), f"10.0.0.{number}")
    assert len(world.east.asked) == 1 + reviews.BAD_TOKENS
    assert await world.ask(world.east.accept(of_a_pod("another"))) == IDENTITY


async def test_so_many_holders_of_good_tokens_are_remembered(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_GOOD", 3)
    for number in range(5):
        await world.ask(world.east.accept(of_a_pod(str(number))))
    assert len(world.tokens._holders) == 3


async def test_an_ipv6_network_counts_as_one_address(world: World) -> None:
    for number in range(reviews.BAD_TOKENS):
        with pytest.raises(BadToken):
            await world.ask(a_token(signature=f"s{number}"), f"fd00::{number}")
    with pytest.raises(TooManyBadTokens):
        await world.ask(a_token(signature="one-more"), "fd00::ffff")


async def test_what_is_remembered_is_bounded_and_holds_no_token(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tokens, "MAX_GOOD", 10)
    for number in range(20):
        await world.ask(world.east.accept(a_token(f"relay-{number}")))
    assert world.tokens.known == 10
    assert a_token("relay-19").split(".")[1] not in repr(vars(world.tokens))
