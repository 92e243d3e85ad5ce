// An edit that survives its server, focus that survives what is drawn anew, arrow keys among tabs, and Back and Forward. The pages do the rest.
(() => {
  const keyOf = element => {
    if (!element || element === document.body || !element.closest) return "";
    if (element.dataset && element.dataset.key) return `[data-key="${element.dataset.key}"]`;
    const label = element.getAttribute("aria-label");
    return label ? `${element.tagName.toLowerCase()}[aria-label="${CSS.escape(label)}"]` : "";
  };
  let last = null, key = "";
  document.addEventListener("focusin", event => { last = event.target; key = keyOf(event.target); });
  document.addEventListener("pointerdown", event => { if (!event.target.closest("button, a, input, textarea, [tabindex]")) key = ""; });
  const restore = () => {
    if (!key || document.activeElement !== document.body || (last && document.contains(last))) return;
    const found = document.querySelector(key);
    if (found) found.focus({ preventScroll: true });
  };
  new MutationObserver(restore).observe(document.documentElement, { childList: true, subtree: true });

  document.addEventListener("keydown", event => {
    const tab = event.target.closest && event.target.closest("[role=tab]");
    const step = { ArrowRight: 1, ArrowLeft: -1, Home: -1e6, End: 1e6 }[event.key];
    if (!tab || !step || event.altKey || event.ctrlKey || event.metaKey) return;
    const tabs = [...tab.closest("[role=tablist]").querySelectorAll("[role=tab]")];
    const place = Math.abs(step) > 1 ? (step > 0 ? tabs.length - 1 : 0) : (tabs.indexOf(tab) + step + tabs.length) % tabs.length;
    event.preventDefault();
    tabs[place].focus();
    tabs[place].click();
  });

  window.addEventListener("popstate", () => {
    if (typeof emitEvent === "function") emitEvent("rightfit_moved", location.search);
  });

  // What is typed while the server is away goes into the address, which is what the page comes back with.
  const edits = new Map();
  const isAway = () => !(window.socket && window.socket.connected);
  const keep = () => {
    if (!edits.size) return;
    const query = new URLSearchParams(location.search);
    for (const [name, value] of edits) {
      if (name === "ask") for (const other of [...query.keys()]) if (other !== "lang" && other !== "tab") query.delete(other);
      if (value.trim()) query.set(name, value.trim()); else query.delete(name);
    }
    for (const name of ["option", "compare"]) query.delete(name);
    history.replaceState(history.state, "", `${location.pathname}?${query}`);
  };
  document.addEventListener("change", event => {
    const name = event.target.dataset && event.target.dataset.option;
    if (!name) return;
    edits.delete(name);
    edits.set(name, event.target.value);
    if (isAway()) keep();
  }, true);
  for (const name of ["pushState", "replaceState"]) {
    const plain = history[name];
    history[name] = function (...given) { // an address from the server: what it says was heard
      plain.apply(history, given);
      const query = new URLSearchParams(location.search);
      if (!isAway()) for (const [option, value] of edits) if ((query.get(option) ?? "") === value.trim()) edits.delete(option);
    };
  }
  window.addEventListener("popstate", () => edits.clear());
  const watch = () => {
    if (!window.socket) return void setTimeout(watch, 200);
    window.socket.on("disconnect", keep);
  };
  watch();
})();
