/** The price of an order in cents: each line has a price and a count. */
export function total(lines) {
  return lines.reduce((sum, line) => sum + line.price, 0);
}

/** Cents as people write them: 1.05, not 1.5. */
export function format(cents) {
  return `${Math.floor(cents / 100)}.${cents % 100}`;
}
