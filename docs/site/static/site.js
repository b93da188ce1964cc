// Two small things; every page is complete without them.

// A page opened from a file may not read other files, so the search shows titles there, and no extracts.
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

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
