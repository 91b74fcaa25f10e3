// Where the book is a site, links to what lies beside it (sources, examples) lead to the repository.
for (const link of document.querySelectorAll('main a[href^="../"]')) {
  const path = link.getAttribute("href").slice("../".length).replace(/\.html(?=#|$)/, ".md");
  link.href = "https://github.com/skillrl/skillrl/blob/main/" + path;
}
