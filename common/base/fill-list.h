// Lists of a Cap'n Proto message: filled from a container, and copied into one.
#pragma once

#include <kj/string.h>

namespace talos {

// `list` comes from init…(items.size()); fill(row, item) fills one row.
template <typename List, typename Items, typename Fill>
void fillList(List list, Items& items, Fill&& fill) {
  for (auto i : kj::indices(items)) fill(list[i], items[i]);
}

// `list` is a List(Text)::Builder from init…(items.size()).
template <typename List, typename Items>
void fillTexts(List list, const Items& items) {
  for (auto i : kj::indices(items)) list.set(i, items[i]);
}

// Returns copies of the texts of a List(Text)::Reader.
template <typename List>
kj::Array<kj::String> textsOf(List list) {
  auto texts = kj::heapArrayBuilder<kj::String>(list.size());
  for (kj::StringPtr text : list) texts.add(kj::str(text));
  return texts.finish();
}

}  // namespace talos
