// An index of a list's items by key, so that comparing two long lists takes hardly longer than
// reading them. Pure.
//
// Keys are numbers. A key that is made of more data than fits into a number is a hash, so the
// caller compares the item itself.
#pragma once

#include <algorithm>
#include <vector>

#include "common/net/ip.h"

namespace talos::networkd {

class Positions {
 public:
  struct Entry {
    uint64_t key;
    uint32_t position;
    auto operator<=>(const Entry&) const = default;
  };

  // Indexes each item of the list by `keyOf(item)`.
  template <typename List, typename KeyOf>
  void take(const List& list, KeyOf&& keyOf) {
    entries.clear();
    entries.reserve(list.size());
    for (size_t i = 0; i < list.size(); ++i) entries.push_back({keyOf(list[i]), uint32_t(i)});
    std::sort(entries.begin(), entries.end());
  }
  // Returns the entries in the order of the list.
  kj::ArrayPtr<const Entry> of(uint64_t key) const {
    auto from = std::lower_bound(entries.begin(), entries.end(), Entry{key, 0});
    auto to = from;
    while (to != entries.end() && to->key == key) ++to;
    return kj::arrayPtr(entries.data() + (from - entries.begin()), to - from);
  }

 private:
  std::vector<Entry> entries;
};

inline uint64_t keyOf(kj::StringPtr name) {
  return kj::hashCode(name);
}
inline uint64_t keyOf(const Prefix& destination, unsigned metric) {
  return uint64_t(kj::hashCode(destination.address.bytes())) << 32 |
         (metric * 31 + destination.length);
}

}  // namespace talos::networkd
