const field = document.querySelector("input[name=q]"), found = document.getElementById("found");
const all = [...document.querySelectorAll("details")];
field.addEventListener("input", () => {
  const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
  let n = 0;
  for (const d of all) {
    d.hidden = !words.every(w => d.dataset.address.includes(w));
    if (!d.hidden) n++;
  }
  found.textContent = n + " " + (n === 1 ? "provider" : "providers");
});
field.form.addEventListener("submit", e => field.defaultValue || e.preventDefault());
if (location.protocol === "https:") {
  const text = document.querySelector("pre"), base = new URL(".", location.origin + location.pathname).href;
  text.textContent = text.textContent.replace('"https://HOST/"', () => JSON.stringify(base)).replace('"HOST"', () => JSON.stringify(location.host));
  for (const id of ["plain", "host"]) document.getElementById(id)?.remove();
}
