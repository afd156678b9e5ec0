#include "apid/identity/target.h"

#include "common/base/ascii.h"
#include "common/base/error.h"
#include "common/base/node-layout.h"

namespace talos::apid {
namespace {

constexpr size_t kLongestName = 253;

bool hasPort(kj::StringPtr target) {
  KJ_IF_MAYBE (colon, target.findLast(':')) {
    auto host = kj::heapString(target.slice(0, *colon));
    return host.findFirst(':') == nullptr || (host.startsWith("[") && host.endsWith("]"));
  }
  return false;
}

}  // namespace

kj::OneOf<ThisNode, Address> resolveTarget(kj::StringPtr target, const Self& self) {
  if (target.size() == 0) return ThisNode();
  if (target.size() > kLongestName) {
    fail(ErrorKind::kInvalidArgument, kj::str("a node's name or address has at most ", kLongestName,
                                              " characters, not ", target.size()));
  }
  KJ_IF_MAYBE (address, Address::tryParse(target)) {
    if (!address->isUnicast()) {
      fail(ErrorKind::kInvalidArgument, kj::str(target, " is not the address of a machine"));
    }
    if (address->isLoopback()) return ThisNode();
    for (auto& own : self.addresses) {
      if (own == *address) return ThisNode();
    }
    return *address;
  }
  if (hasPort(target)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", target, "\": a node is named without a port; the port is always ",
                 kApidPort));
  }
  auto name = lowerCase(target);
  if (name == "localhost") return ThisNode();
  for (auto& own : self.names) {
    if (own == name) return ThisNode();
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", target,
               "\" is not the name of this node, and names of other nodes are not resolved ",
               "here; use the node's IP address"));
}

}  // namespace talos::apid
