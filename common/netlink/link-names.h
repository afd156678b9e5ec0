// Names of links in texts for logs and problems.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

namespace talos::netlink {

using NameOfLink = kj::ConstFunction<kj::String(unsigned index)>;

// Returns "2", for callers that know no names.
inline kj::String indexText(unsigned index) {
  return kj::str(index);
}

}  // namespace talos::netlink
