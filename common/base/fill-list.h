// A list of a message made of a container's items, one to one.
#pragma once

#include <kj/common.h>

namespace talos {

// `list` is what an init…(items.size()) gave; fill(row, item).
template <typename List, typename Items, typename Fill>
void fillList(List list, Items& items, Fill&& fill) {
  for (auto i : kj::indices(items)) fill(list[i], items[i]);
}

}  // namespace talos
