// Fills a list of a Cap'n Proto message from a container, item by item.
#pragma once

#include <kj/common.h>

namespace talos {

// `list` comes from init…(items.size()); fill(row, item) fills one row.
template <typename List, typename Items, typename Fill>
void fillList(List list, Items& items, Fill&& fill) {
  for (auto i : kj::indices(items)) fill(list[i], items[i]);
}

}  // namespace talos
