// The holder of a quota: an IPv4 address, or the /64 of an IPv6 address, because one node can use
// the whole /64.
#pragma once

#include "common/net/ip.h"

namespace talos::trustd {

inline Ip holderOf(const Ip& caller) {
  return caller.family() == AF_INET6 ? caller.masked(64) : caller;
}

}  // namespace talos::trustd
