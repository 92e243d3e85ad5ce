// Focus that survives what is drawn anew, arrow keys among tabs, and Back and Forward. The pages do the rest.
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
})();
