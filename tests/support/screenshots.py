"""Makes the pictures of docs/images, in Chromium, of services that run for that.

`make screenshots`, or `PYTHONPATH=tests python -m support.screenshots [folder]`.
"""

import asyncio
import sys
from pathlib import Path

from playwright.async_api import Browser

from global_discovery.view.filters import PoolFilter
from support.browser import a_browser
from support.page_world import PageWorld, a_call, a_page_world

IMAGES = Path(__file__).parents[2] / "docs" / "images"
WIDE, PHONE = (1280, 900), (390, 844)


class Camera:
    def __init__(self, browser: Browser, folder: Path) -> None:
        self._browser = browser
        self._folder = folder

    async def take(
        self,
        world: PageWorld,
        name: str,
        path: str = "/",
        *,
        size: tuple[int, int] = WIDE,
        dark: bool = False,
    ) -> None:
        width, height = size
        page = await self._browser.new_page(
            viewport={"width": width, "height": height},
            color_scheme="dark" if dark else "light",
        )
        await page.goto(world.url + path)
        await page.wait_for_selector("#live[data-state=live]")
        await page.screenshot(path=self._folder / f"{name}.png")
        await page.close()


async def troubled(world: PageWorld) -> None:
    """Two sides that agree on most pools."""
    assert world.watching is not None
    calls = [a_call(number) for number in range(64)]
    await world.register(*calls[:-2])
    for number, call in enumerate(calls[2:]):
        port = "grpc" if number == 5 else "http"
        world.show(call, frontends=0 if number == 40 else 2, port=port)
    world.watching.slices.in_sync()
    await world.pass_time(50)
    await world.register(a_call(7, relay_id="relay-1", name=calls[7].registration.key.dgd_name))
    await world.register(
        a_call(8, relay_id="relay-1", name=calls[8].registration.key.dgd_name, frontends=3),
        a_call(9, relay_id="relay-1", name=calls[9].registration.key.dgd_name, model="other"),
    )
    world.silence(calls[12])
    await world.pass_time(11)
    world.watch(peer="10.1.0.7")
    world.watch(peer="10.2.0.7")
    world.watch(PoolFilter(regions=frozenset({"eu-central"})), peer="10.3.0.21")


async def take_all(folder: Path) -> None:
    async with a_browser() as browser:
        camera = Camera(browser, folder)
        async with a_page_world(slices=True) as world:
            await troubled(world)
            await asyncio.sleep(0.5)
            await camera.take(world, "status-light")
            await camera.take(world, "status-dark", dark=True)
            await camera.take(world, "status-phone", size=PHONE)
            key = a_call(1).registration.key
            await camera.take(world, "why", f"/why?pool={key}")
        async with a_page_world() as world:
            await camera.take(world, "status-starting")


if __name__ == "__main__":
    chosen = Path(sys.argv[1]) if len(sys.argv) > 1 else IMAGES
    chosen.mkdir(exist_ok=True)
    asyncio.run(take_all(chosen))
