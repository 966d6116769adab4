// Keeps an open page as new as the server's. Without this script the page is the same, and as old
// as its last load.
//
// The server says that something moved (`/events`); then the page's own address is asked for again,
// and what differs is put in place. What is selected, focused, opened or scrolled stays so.
"use strict";

(() => {
  const REST = 1000; // at least so long between two loads
  const SILENCE = 15000; // the server says something every three seconds
  const FALLBACK = 10000; // between two loads when there is no event stream

  const live = document.getElementById("live");
  const news = document.getElementById("news");
  const form = document.getElementById("find");
  const search = document.getElementById("q");

  let source = null;
  let heard = 0;
  let loading = null; // the load under way
  let wanted = false; // whether to load again after it
  let loadedAt = 0;
  let timer = 0;
  let shown = location.href; // the address of what is shown

  document.documentElement.classList.add("scripted");

  // -- what is said about itself

  function say(state, text) {
    if (live.dataset.state !== state || live.textContent !== text) {
      live.dataset.state = state;
      live.textContent = text;
    }
  }

  function announce(before, after) {
    const [was, is] = [before, after].map(facts);
    if (is.exact !== was.exact) {
      news.textContent = is.exact === "true" ? "The list is complete." : "Pools may be missing.";
    } else if (is.pools !== was.pools) {
      news.textContent = `${is.pools} pools.`;
    }
  }

  function facts(root) {
    return {
      exact: root.querySelector("[data-exact]")?.dataset.exact,
      pools: root.querySelector("[data-pools]")?.dataset.pools,
    };
  }

  // -- putting in place what differs

  function settle(old, now) {
    if (old.isEqualNode(now)) return;
    if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || old.id !== now.id) {
      old.replaceWith(now);
      arrived(now);
      return;
    }
    if (old.nodeType !== Node.ELEMENT_NODE) {
      old.nodeValue = now.nodeValue;
      return;
    }
    const changed = old.dataset.changed !== now.dataset.changed;
    settleAttributes(old, now);
    settleChildren(old, now);
    if (changed) freshen(old);
  }

  function settleAttributes(old, now) {
    for (const { name } of [...old.attributes]) {
      if (!now.hasAttribute(name) && !own(old, name)) old.removeAttribute(name);
    }
    for (const { name, value } of now.attributes) {
      if (old.getAttribute(name) !== value && !own(old, name)) old.setAttribute(name, value);
    }
  }

  // Which parts of a page belong to its reader.
  function own(element, name) {
    return (
      (name === "open" && element.nodeName === "DETAILS") ||
      (name === "class" && element.nodeName === "TR" && element.id)
    );
  }

  function settleChildren(old, now) {
    const known = new Map();
    for (const child of old.children) if (child.id) known.set(child.id, child);
    let place = old.firstChild;
    for (const child of [...now.childNodes]) {
      const same = child.id ? known.get(child.id) : undefined;
      if (same) {
        if (same === place) place = place.nextSibling;
        else old.insertBefore(same, place);
        settle(same, child);
      } else if (child.id || !place || place.id) {
        old.insertBefore(child, place);
        arrived(child);
      } else {
        const next = place.nextSibling;
        settle(place, child);
        place = next;
      }
    }
    while (place) {
      const next = place.nextSibling;
      place.remove();
      place = next;
    }
  }

  function arrived(node) {
    if (node.nodeType !== Node.ELEMENT_NODE) return;
    if (node.matches("tr[data-changed]")) freshen(node);
    for (const row of node.querySelectorAll("tr[data-changed]")) freshen(row);
  }

  function freshen(row) {
    if (shown !== location.href) return; // it was searched for, and did not change
    row.classList.remove("fresh");
    void row.offsetWidth; // so that the animation begins anew
    row.classList.add("fresh");
  }

  function show(text) {
    const page = new DOMParser().parseFromString(text, "text/html");
    const parts = document.querySelectorAll("[data-live]");
    const missing = [...parts].some((part) => !page.getElementById(part.id));
    if (missing || page.querySelectorAll("[data-live]").length !== parts.length) {
      // It became another page, as a pool that is listed by now has more to show.
      document.getElementById("main").replaceWith(document.adoptNode(page.getElementById("main")));
    } else {
      announce(document, page);
      for (const part of parts) settle(part, document.adoptNode(page.getElementById(part.id)));
    }
    shown = location.href;
    document.title = page.title;
    const refresh = document.getElementById("refresh");
    refresh.href = page.getElementById("refresh").getAttribute("href");
  }

  // -- loading

  function load() {
    clearTimeout(timer);
    timer = 0;
    if (loading) {
      wanted = true;
      return;
    }
    const wait = loadedAt + REST - Date.now();
    if (wait > 0) {
      timer = setTimeout(load, wait);
      return;
    }
    fetchPage();
  }

  async function fetchPage() {
    wanted = false;
    loading = new AbortController();
    const asked = loading;
    const address = location.href;
    try {
      const answer = await fetch(address, { headers: { Accept: "text/html" }, signal: asked.signal });
      const text = await answer.text();
      const ours = answer.headers.get("Content-Type")?.startsWith("text/html");
      if (answer.ok && ours && loading === asked && location.href === address) {
        show(text);
        saw();
      } else if (answer.status === 401 || answer.status === 403) {
        lost("You may not read this any more");
      }
    } catch (error) {
      if (error.name !== "AbortError") lost("Connection lost, trying again");
    } finally {
      if (loading === asked) {
        loading = null;
        loadedAt = Date.now();
        if (wanted) load();
      }
    }
  }

  function saw() {
    if (source && source.readyState === EventSource.OPEN) say("live", "Live");
    else if (!source) say("still", `As of ${new Date().toLocaleTimeString()}`);
  }

  function lost(text) {
    say("lost", text);
  }

  // -- the event stream

  function follow() {
    if (source || document.hidden) return;
    source = new EventSource("/events");
    heard = Date.now();
    source.onopen = () => {
      heard = Date.now();
      load();
    };
    source.onerror = () => {
      lost("Connection lost, trying again");
      // What was refused is over for the browser; what broke it opens again itself.
      if (source.readyState === EventSource.CLOSED) leave();
    };
    for (const name of ["mark", "pools", "summary"]) {
      source.addEventListener(name, () => {
        heard = Date.now();
        load();
      });
    }
  }

  function leave() {
    source?.close();
    source = null;
  }

  // Also when there is no stream: too many may be open, or a proxy may hold them back.
  setInterval(() => {
    if (document.hidden) return;
    if (!source || Date.now() - heard > SILENCE) {
      leave();
      follow();
      load();
    }
  }, FALLBACK);

  // A hidden page holds no connection: browsers open six to one server, for all tabs together.
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) {
      leave();
      return;
    }
    follow();
    load();
  });
  window.addEventListener("pagehide", leave);
  window.addEventListener("pageshow", follow);

  // -- search without a new page

  function searchNow() {
    const asked = new URLSearchParams(new FormData(form));
    for (const [name, value] of [...asked]) {
      if (!value || (name === "group" && value === "model")) asked.delete(name, value);
    }
    const query = asked.toString();
    const address = query ? `/?${query}` : "/";
    if (address === location.pathname + location.search) return;
    history.replaceState(null, "", address);
    loading?.abort();
    loading = null;
    loadedAt = 0;
    load();
  }

  let typed = 0;
  search?.addEventListener("input", () => {
    clearTimeout(typed);
    typed = setTimeout(searchNow, 200);
  });
  document.getElementById("group")?.addEventListener("change", searchNow);
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    searchNow();
  });

  document.addEventListener("keydown", (event) => {
    const writing = event.target.closest?.("input, select, textarea");
    if (event.key === "/" && !writing && !event.ctrlKey && !event.metaKey && !event.altKey) {
      const field = search ?? document.getElementById("ask");
      if (field) {
        event.preventDefault();
        field.focus();
        field.select();
      }
    } else if (event.key === "Escape" && event.target === search && !search.value) {
      search.blur();
    }
  });

  document.getElementById("refresh").addEventListener("click", (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    follow();
    load();
  });

  follow();
})();
