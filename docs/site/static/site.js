// Three small things; every page is complete without them.

// A page opened from a file may not read other files, so the search shows titles there, and no extracts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

// A table that is wider than the screen scrolls by itself; say so, since some browsers show no bar.
const markWideTables = () => {
  document.querySelectorAll(".bd-article :is(.text_html, .pst-scrollable-table-container)").forEach((place) => {
    const wide = place.querySelector("table") !== null && place.scrollWidth > place.clientWidth + 1;
    place.classList.toggle("goes-on", wide);
  });
};
window.addEventListener("load", markWideTables);
window.addEventListener("resize", markWideTables);
document.addEventListener("toggle", markWideTables, true); // a table in a fold-out has no width before it opens

// The register of claims: show those that match the words, the unit and the verdict.
document.addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".claims-filter");
  if (!form) return;
  const claims = [...document.querySelectorAll(".claim")];
  const texts = claims.map((claim) => claim.textContent.toLowerCase());
  const groups = claims.map((claim) => claim.closest("section"));

  const update = () => {
    const words = form.elements.words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const { value: unit } = form.elements.unit;
    const { value: verdict } = form.elements.verdict;
    const visible = new Set();
    let count = 0;
    claims.forEach((claim, i) => {
      const shown =
        (!unit || claim.dataset.unit === unit) &&
        (!verdict || claim.dataset.verdict === verdict) &&
        words.every((word) => texts[i].includes(word));
      claim.hidden = !shown;
      if (shown) {
        count += 1;
        visible.add(groups[i]);
      }
    });
    new Set(groups).forEach((group) => (group.hidden = !visible.has(group)));
    form.elements.count.value = `${count} of ${claims.length} claims`;
  };
  form.addEventListener("input", update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.hidden = false;
  update();
});
