// link: networkd-dhcp
// Router advertisements as anybody on the network can send them.
#include <ctype.h>
#include <kj/debug.h>

#include "networkd/dhcp/router-advertisement.h"

using namespace talos::networkd::dhcp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  KJ_IF_MAYBE (a, parseAdvertisement(kj::arrayPtr(data, size))) {
    for (auto& resolvers : a->resolvers) KJ_ASSERT(resolvers.servers.size() > 0);
    for (auto& search : a->search) {
      for (auto& name : search.names) {
        for (char c : name) KJ_ASSERT(isalnum(c) || c == '-' || c == '_' || c == '.');
      }
    }
  }
  return 0;
}
