// Helpers for the lists of ModelKernel.
#pragma once

#include <kj/vector.h>

#include <vector>

#include "common/netlink/netlink.h"

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

template <typename Device>
size_t memberCount(const kj::Vector<Device>& devices, unsigned master) {
  size_t count = 0;
  for (auto& other : devices) count += other.link.master == master;
  return count;
}

// Returns the table of the routes to the networks of a link.
template <typename Device>
uint32_t tableOf(const kj::Vector<Device>& devices, unsigned index) {
  unsigned master = 0;
  for (auto& device : devices) {
    if (device.link.index != index) continue;
    if (device.link.vrfTable) return *device.link.vrfTable;
    master = device.link.master;
  }
  for (auto& device : devices) {
    if (device.link.index == master && device.link.vrfTable) return *device.link.vrfTable;
  }
  return RT_TABLE_MAIN;
}

// Routing rules, in the order in which they are tried.
class ModelRules {
 public:
  // Adds a rule after the last one of its family and priority.
  void put(Rule rule);
  // Return an errno. Removed is the first rule that has all that the request gives.
  int add(const Rule& rule);
  int remove(const Rule& rule);
  const std::vector<Rule>& list() const { return rules; }

 private:
  std::vector<Rule> rules;
};

inline bool is4(const Prefix& prefix) {
  return prefix.address.family() == AF_INET;
}

}  // namespace talos::netlink
