import assert from "node:assert/strict";
import { describe, it } from "node:test";

import { format, total } from "./prices.js";

describe("total", () => {
  it("is nothing without lines", () => {
    assert.equal(total([]), 0);
  });

  it("counts every piece", () => {
    assert.equal(total([{ price: 250, count: 2 }, { price: 100, count: 1 }]), 600);
  });
});

describe("format", () => {
  it("shows euros and cents", () => {
    assert.equal(format(1234), "12.34");
  });

  it("shows two digits of cents", () => {
    assert.equal(format(105), "1.05");
  });
});
