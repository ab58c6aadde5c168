/* Sorts the rows of any table by a click on a heading. The server sorts lists that have more pages: their headings are links. */
(function () {
  "use strict";

  const words = new Intl.Collator(undefined, { numeric: true });
  /* The chosen column and direction by the headings of a table, because a part that refreshes itself brings a new table. */
  const orders = new Map();
  let focused = null;

  function headings(table) { return Array.from(table.tHead.rows[0].cells); }
  function nameOf(table) { return headings(table).map(function (each) { return each.textContent.trim(); }).join("|"); }

  /* A cell that spans several columns is the cell of each of them. */
  function cellAt(row, column) {
    let end = 0;
    return Array.from(row.cells).find(function (cell) { end += cell.colSpan; return column < end; });
  }

  /* Numbers, sizes and times have their value in data-sort, because their text does not sort; null: the cell has no value. */
  function valueOf(row, column) {
    const cell = cellAt(row, column);
    const text = cell ? (cell.dataset.sort === undefined ? cell.textContent.trim() : cell.dataset.sort) : "";
    if (text === "" || text === "–") return null;
    return Number.isNaN(Number(text)) ? text : Number(text);
  }

  function compare(one, other) {
    if (typeof one !== typeof other) return typeof one === "number" ? -1 : 1;
    return typeof one === "string" ? words.compare(one, other) : Number(one > other) - Number(one < other);
  }

  function sort(table, column, falls) {
    const body = table.tBodies[0];
    const rows = Array.from(body.rows, function (row) { return { row: row, value: valueOf(row, column) }; });
    rows.sort(function (one, other) {
      if (one.value === null || other.value === null) return Number(one.value === null) - Number(other.value === null);
      return falls ? compare(other.value, one.value) : compare(one.value, other.value);
    });
    rows.forEach(function (each) { body.append(each.row); });
    headings(table).forEach(function (heading, at) {
      if (at === column) heading.setAttribute("aria-sort", falls ? "descending" : "ascending");
      else heading.removeAttribute("aria-sort");
    });
    orders.set(nameOf(table), { column: column, falls: falls });
  }

  function prepare() {
    document.querySelectorAll("table:not([data-sortable])").forEach(function (table) {
      if (!table.tHead) return;
      table.dataset.sortable = "";
      headings(table).forEach(function (heading) {
        if (heading.hasAttribute("data-unsorted") || heading.querySelector("a")) return;
        const button = document.createElement("button");
        button.type = "button";
        button.className = "sort";
        button.append(...heading.childNodes);
        heading.append(button);
      });
      const order = orders.get(nameOf(table));
      if (order) sort(table, order.column, order.falls);
      if (focused && focused.name === nameOf(table)) headings(table)[focused.column].querySelector("button").focus();
    });
    focused = null;
  }

  document.addEventListener("DOMContentLoaded", prepare);
  document.addEventListener("htmx:beforeSwap", function (event) {
    const button = document.activeElement.closest("button.sort");
    const table = button && button.closest("table");
    focused = table && { name: nameOf(table), column: headings(table).indexOf(button.parentElement) };
    /* A list that cannot be sorted, or a login: the browser shows that page instead. */
    const link = event.detail.requestConfig.elt.closest("thead a");
    if (link && !event.detail.serverResponse.includes('id="list"')) { event.detail.shouldSwap = false; location.assign(link.href); }
  });
  document.addEventListener("htmx:afterSwap", prepare);
  document.addEventListener("click", function (event) {
    const heading = event.target.closest("thead th");
    if (!heading) return;
    const table = heading.closest("table");
    if (event.target.closest("a")) { orders.delete(nameOf(table)); return; } // The server sorts.
    if (!event.target.closest("button.sort")) return;
    const column = headings(table).indexOf(heading);
    const before = heading.getAttribute("aria-sort");
    /* The largest number and the latest time come first, but the first of texts. */
    const values = Array.from(table.tBodies[0].rows, function (row) { return valueOf(row, column); });
    const isNumeric = values.some(function (each) { return typeof each === "number"; });
    sort(table, column, before ? before === "ascending" : isNumeric);
  });
})();
