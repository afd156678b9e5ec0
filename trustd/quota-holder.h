// Whom what trustd keeps is counted against: an address, or the /64 of an address of IPv6, all of
// which one machine can use.
#pragma once

#include "common/net/ip.h"

namespace talos::trustd {

inline Ip holderOf(const Ip& caller) {
  return caller.family() == AF_INET6 ? caller.masked(64) : caller;
}

}  // namespace talos::trustd
