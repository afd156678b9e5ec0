// The names of links in texts for logs and problems.
#pragma once

#include <kj/function.h>
#include <kj/string.h>

namespace talos::netlink {

using NameOfLink = kj::ConstFunction<kj::String(unsigned index)>;

// "2": where no names are known.
inline kj::String indexText(unsigned index) {
  return kj::str(index);
}

}  // namespace talos::netlink
