// Names of the bits of a number, for flags.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>
#include <stdint.h>

namespace talos {

struct NamedBit {
  uint32_t bit;
  kj::StringPtr name;
};

// Returns the names of the bits that are set, in the order of `names`.
inline kj::Vector<kj::StringPtr> namesOf(uint32_t bits, kj::ArrayPtr<const NamedBit> names) {
  kj::Vector<kj::StringPtr> result;
  for (auto& named : names) {
    if ((bits & named.bit) != 0) result.add(named.name);
  }
  return result;
}

}  // namespace talos
