// Prints all tables: left-aligned cells, each column as wide as its widest cell plus a gap of
// blanks, no padding after the last cell, no borders, as Talos prints them.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "common/text/foreign-text.h"

namespace talos {

class Table {
 public:
  explicit Table(kj::ArrayPtr<const kj::StringPtr> header, unsigned gap = 3);
  Table(std::initializer_list<kj::StringPtr> header, unsigned gap = 3);

  void row(kj::Array<kj::String> cells);
  template <typename... Cells>
  void add(Cells&&... cells) {
    row(kj::arr(kj::str(kj::fwd<Cells>(cells))...));
  }

  // Returns the header (unless rendered already) and the rows since the last render(), aligned with
  // each other; streaming commands flush a table row by row. Control characters in cells are
  // escaped, so that a node's file name cannot move the reader's cursor.
  kj::String render();
  bool empty() const { return rows.empty(); }
  size_t bytes() const { return size; }  // size of the rows since the last render()

 private:
  kj::Vector<kj::Array<kj::String>> rows;
  kj::Array<kj::String> header;
  unsigned gap;
  bool headerDone = false;
  size_t size = 0;
};

// Formats a duration such as "3m5s", rounded to seconds.
kj::String humanDuration(int64_t seconds);

}  // namespace talos
