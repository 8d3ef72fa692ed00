/* The book's own few lines: formulas that fit, search results in words, folded code that opens when a link leads into it. */
"use strict";

/* A displayed formula wider than its column is drawn smaller, down to six tenths; what is wider still is scrolled. */
window.fitFormulas = () => {
  for (const box of document.querySelectorAll("article div.math")) {
    box.classList.remove("formula-scroll");
    box.style.fontSize = "";
    if (!box.clientWidth || box.scrollWidth <= box.clientWidth) continue;
    box.style.fontSize = Math.max(0.6, 0.98 * box.clientWidth / box.scrollWidth).toFixed(3) + "em";
    if (box.scrollWidth > box.clientWidth) box.classList.add("formula-scroll");
  }
  for (const formula of document.querySelectorAll("article span.math > mjx-container")) {
    formula.style.fontSize = "";
    const column = formula.closest("p, li, td, th, dd, figcaption, h1, h2, h3, article").clientWidth;
    const width = formula.getBoundingClientRect().width;
    if (column && width > column) formula.style.fontSize = Math.max(45, 100 * 0.98 * column / width).toFixed(0) + "%";
  }
};

const WORDS = {
  alpha: "α", beta: "β", gamma: "γ", delta: "δ", epsilon: "ε", varepsilon: "ε", zeta: "ζ", eta: "η", theta: "θ",
  kappa: "κ", lambda: "λ", mu: "μ", nu: "ν", xi: "ξ", pi: "π", rho: "ρ", sigma: "σ", tau: "τ", phi: "φ", varphi: "φ",
  chi: "χ", psi: "ψ", omega: "ω", ell: "ℓ", Gamma: "Γ", Delta: "Δ", Theta: "Θ", Lambda: "Λ", Sigma: "Σ", Phi: "Φ",
  Psi: "Ψ", Omega: "Ω", le: "≤", leq: "≤", ge: "≥", geq: "≥", ne: "≠", neq: "≠", approx: "≈", sim: "~", to: "→",
  infty: "∞", times: "×", cdot: "·", pm: "±", in: "∈", notin: "∉", sum: "Σ", prod: "Π", int: "∫", sqrt: "√",
  ldots: "…", dots: "…", cdots: "…", top: "ᵀ", succeq: "⪰", succ: "≻", preceq: "⪯", mid: "|", circ: "∘", otimes: "⊗",
  min: "min", max: "max", log: "log", ln: "ln", exp: "exp", Pr: "P", sup: "sup", inf: "inf", det: "det", lVert: "‖",
  rVert: "‖", lvert: "|", rvert: "|", langle: "⟨", rangle: "⟩", mapsto: "↦", Rightarrow: "⇒", forall: "∀", subset: "⊂",
  cup: "∪", cap: "∩", setminus: "∖", partial: "∂", nabla: "∇", quad: " ", qquad: " ",
};

/* TeX as a reader would say it on one line. */
window.texToText = tex => tex
  .replace(/\\\|/g, "‖").replace(/\\[,;:! ]/g, " ").replace(/\\\\/g, " ").replace(/&/g, " ")
  .replace(/\\(?:begin|end)\{[^}]*\}/g, " ")
  .replace(/\\(?:mathbb|mathcal|mathrm|mathbf|operatorname|text|textstyle|hat|bar|tilde|widehat|overline|left|right|big|Big|bigl|bigr|Bigl|Bigr|limits|displaystyle)\*?(?![a-zA-Z])/g, "")
  .replace(/\\[dt]?frac\s*(?:\{([^{}]*)\}|(\w))\s*(?:\{([^{}]*)\}|(\w))/g, (all, a, b, c, d) => (a || b) + "/" + (c || d))
  .replace(/\\([a-zA-Z]+)/g, (all, word) => WORDS[word] ?? " ")
  .replace(/\\(.)/g, "$1").replace(/[{}]/g, "").replace(/_(\w)/g, "$1").replace(/\^2/g, "²").replace(/\s+/g, " ").trim();

const withoutTex = text => text
  .replace(/\\\(([\s\S]*?)\\\)|\\\[([\s\S]*?)\\\]/g, (all, inline, display) => window.texToText(inline ?? display))
  .replace(/\s*¶/g, " ").replace(/\s+/g, " ");

document.addEventListener("DOMContentLoaded", () => {
  if (typeof Search !== "undefined") {
    const raw = Search.htmlToText;
    Search.htmlToText = (html, anchor) => withoutTex(raw(html, anchor));
    const list = document.querySelector("#search-results");
    if (list) new MutationObserver(() => {
      for (const link of list.querySelectorAll("li > a"))
        if (/\\[a-zA-Z]/.test(link.textContent)) link.textContent = window.texToText(link.textContent);
    }).observe(list, {childList: true, subtree: true});
  }

  const unfold = () => {
    const place = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!place) return;
    const cell = place.classList.contains("place") ? place.closest("p, section > *")?.nextElementSibling ?? place.nextElementSibling : place;
    const folded = cell && (cell.querySelector?.("details") || cell.closest("details"));
    if (folded) { folded.open = true; place.scrollIntoView(); }
  };
  addEventListener("hashchange", unfold);
  unfold();
});

addEventListener("load", async () => {
  if (!window.MathJax?.startup) return;
  await window.MathJax.startup.promise;
  await document.fonts.ready;
  window.fitFormulas();
  let waiting;
  addEventListener("resize", () => { clearTimeout(waiting); waiting = setTimeout(window.fitFormulas, 150); });
});
