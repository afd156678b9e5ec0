// Lists of texts.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos {

inline kj::Array<kj::String> copyOf(kj::ArrayPtr<const kj::String> texts) {
  return KJ_MAP(text, texts) {
    return kj::str(text);
  };
}

inline void addOnce(kj::Vector<kj::String>& list, kj::String text) {
  for (auto& there : list) {
    if (there == text) return;
  }
  list.add(kj::mv(text));
}

// Returns true if one item of the list equals the text. List: any range of texts.
template <typename List>
bool contains(const List& list, kj::StringPtr text) {
  for (auto&& item : list) {
    if (item == text) return true;
  }
  return false;
}

}  // namespace talos
