// Helpers for the lists of ModelKernel.
#pragma once

#include <kj/vector.h>

#include "common/net/ip.h"

namespace talos::netlink {

// Returns true if an item was removed.
template <typename T, typename F>
bool removeIf(kj::Vector<T>& items, F&& which) {
  kj::Vector<T> left;
  for (auto& item : items) {
    if (!which(item)) left.add(kj::mv(item));
  }
  bool any = left.size() < items.size();
  items = kj::mv(left);
  return any;
}

inline bool is4(const Prefix& prefix) {
  return prefix.address.family() == AF_INET;
}

}  // namespace talos::netlink
