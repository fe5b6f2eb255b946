"use strict";
// What is shown is in the address (#filter=delete,rewind&q=orders&open=all): a link shares it.
const controls = document.getElementById("controls");
if (controls) {
  const blocks = [...document.querySelectorAll(".block")];
  const sections = [...document.querySelectorAll(".blocks")];
  const buttons = [...controls.querySelectorAll("[data-kind]")];
  const search = document.getElementById("search");
  const texts = new Map();

  const textOf = (block) => {
    if (!texts.has(block)) texts.set(block, block.textContent.toLowerCase());
    return texts.get(block);
  };

  const show = () => {
    const kinds = buttons.filter((each) => each.ariaPressed === "true").map((each) => each.dataset.kind);
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let count = 0;
    for (const block of blocks) {
      const own = block.dataset.kinds.split(" ");
      const fits =
        (!kinds.length || kinds.some((kind) => own.includes(kind))) &&
        words.every((word) => textOf(block).includes(word));
      block.hidden = !fits;
      count += fits;
    }
    for (const section of sections) section.hidden = !section.querySelector(".block:not([hidden])");
    document.getElementById("none").hidden = count > 0;
    document.getElementById("count").value =
      count === blocks.length
        ? `${count.toLocaleString("en")} connector${count === 1 ? "" : "s"}`
        : `${count.toLocaleString("en")} of ${blocks.length.toLocaleString("en")} connectors`;
    return kinds;
  };

  const keepInAddress = (kinds) => {
    const kept = new URLSearchParams();
    if (kinds.length) kept.set("filter", kinds.join(","));
    if (search.value) kept.set("q", search.value);
    try {
      history.replaceState(null, "", `#${kept}`);
    } catch {
      // A page inside another one may have no address of its own: only the link is missing then.
    }
  };

  const fold = (open) => {
    for (const block of blocks) if (!block.hidden) block.open = open;
  };

  const fromAddress = () => {
    const asked = new URLSearchParams(location.hash.slice(1));
    const kinds = (asked.get("filter") ?? "").split(",");
    for (const each of buttons) each.ariaPressed = String(kinds.includes(each.dataset.kind));
    search.value = asked.get("q") ?? "";
    show();
    if (asked.has("open")) fold(asked.get("open") === "all");
  };

  for (const each of buttons) {
    each.addEventListener("click", () => {
      each.ariaPressed = String(each.ariaPressed !== "true");
      keepInAddress(show());
    });
  }
  search.addEventListener("input", () => keepInAddress(show()));
  document.getElementById("unfold").addEventListener("click", () => fold(true));
  document.getElementById("fold").addEventListener("click", () => fold(false));
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && event.target !== search) {
      event.preventDefault();
      search.select();
    } else if (event.key === "Escape" && search.value) {
      search.value = "";
      keepInAddress(show());
    }
  });

  let folded = [];
  addEventListener("beforeprint", () => {
    folded = blocks.filter((block) => !block.hidden && !block.open);
    for (const block of folded) block.open = true;
  });
  addEventListener("afterprint", () => {
    for (const block of folded) block.open = false;
  });
  addEventListener("hashchange", fromAddress);
  controls.hidden = false;
  fromAddress();
}
