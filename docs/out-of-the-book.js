// Where the book is a site, links to what lies beside it (sources, examples) lead to the repository.
const outside = `${path_to_root}../`;
for (const link of document.querySelectorAll("main a")) {
  const href = link.getAttribute("href") ?? "";
  if (href.startsWith(outside)) {
    const path = href.slice(outside.length).replace(/\.html(?=#|$)/, ".md");
    link.href = "https://github.com/skillrl/skillrl/blob/main/" + path;
  }
}
