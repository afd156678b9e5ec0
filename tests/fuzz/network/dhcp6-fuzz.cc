// link: networkd-dhcp
// DHCPv6 as anybody on the network can send it.
#include <ctype.h>
#include <kj/debug.h>

#include "networkd/dhcp/dhcp-message6.h"

using namespace talos::networkd::dhcp;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  auto parsed = parse6(kj::arrayPtr(data, size));
  KJ_ASSERT((parsed.message == nullptr) == (parsed.problem.size() > 0));
  KJ_IF_MAYBE (m, parsed.message) {
    for (auto& association : m->associations) {
      for (auto& a : association.addresses) KJ_ASSERT(a.preferred <= a.valid);
    }
    for (auto& name : m->search) {
      for (char c : name) KJ_ASSERT(isalnum(c) || c == '-' || c == '_' || c == '.');
    }
    // A parsed message can be encoded, and is parsed as the same again.
    auto bytes = encode(*m);
    auto again = parse6(bytes);
    KJ_ASSERT(encode(KJ_ASSERT_NONNULL(again.message)).asPtr() == bytes.asPtr());
  }
  return 0;
}
