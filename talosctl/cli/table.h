// The one table printer: left-aligned cells, each column as wide as its widest cell plus a gap of
// blanks, the last cell not padded, no borders, as those of the original.
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

  // Header (unless already rendered) and the rows since the last render(), aligned among
  // themselves; a table that is flushed row by row is what the streaming commands print. Control
  // characters in cells are escaped: a node's file name cannot move the reader's cursor.
  kj::String render();
  bool empty() const { return rows.empty(); }
  size_t bytes() const { return size; }  // of the rows since the last render()

 private:
  kj::Vector<kj::Array<kj::String>> rows;
  kj::Array<kj::String> header;
  unsigned gap;
  bool headerDone = false;
  size_t size = 0;
};

// Human-readable bytes: "1.2 MB" (SI, as in the tables of the original).
kj::String humanSize(uint64_t bytes);
// "3m5s", rounded to seconds.
kj::String humanDuration(int64_t seconds);

}  // namespace talos
