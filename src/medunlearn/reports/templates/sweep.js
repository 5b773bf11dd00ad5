"use strict";
(() => {
  // Without this script, and in print, every scope's figures stand one below the other.
  for (const form of document.querySelectorAll("form.scopes")) {
    const select = form.querySelector("select");
    const parts = [...form.parentElement.querySelectorAll(".scope")];
    const apply = () => {
      for (const part of parts) part.classList.toggle("folded", part.dataset.scope !== select.value);
    };
    select.addEventListener("change", apply);
    form.addEventListener("submit", (event) => event.preventDefault());
    form.hidden = false;
    apply();
  }
})();
