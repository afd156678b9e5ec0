#include "apid/identity/call-target.h"

#include "common/base/error.h"
#include "common/base/node-layout.h"
#include "common/text/ascii.h"

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

bool hasAddress(kj::ArrayPtr<const Ip> addresses, const Ip& address) {
  for (auto& each : addresses) {
    if (each == address) return true;
  }
  return false;
}

// The address of a member, for its name.
Ip addressOf(const KnownMember& member, const Self& self) {
  auto& address = member.addresses[0];
  auto refuse = [&](kj::StringPtr other) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("\"", member.name, "\" has the address ", address.toString(), ", which ", other,
                 " has as well; use the IP address of the node that you mean"));
  };
  if (hasAddress(self.addresses, address)) refuse("this node");
  for (auto& other : self.members) {
    if (&other != &member && hasAddress(other.addresses, address)) {
      refuse(kj::str("\"", other.name, "\""));
    }
  }
  return address;
}

}  // namespace

kj::OneOf<ThisNode, Ip> resolveTarget(kj::StringPtr target, const Self& self) {
  if (target.size() == 0) return ThisNode();
  if (target.size() > kLongestName) {
    fail(ErrorKind::kInvalidArgument, kj::str("a node's name or address must have at most ",
                                              kLongestName, " characters, not ", target.size()));
  }
  KJ_IF_MAYBE (written, Ip::parse(target)) {
    auto address = written->unmapped();
    if (!address.isUnicast()) {
      fail(ErrorKind::kInvalidArgument, kj::str("\"", target, "\" is not the address of a node"));
    }
    if (address.isLoopback()) return ThisNode();
    for (auto& own : self.addresses) {
      if (own == address) return ThisNode();
    }
    return address;
  }
  if (hasPort(target)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("\"", target, "\" has a port; leave it out, the port of a node is always ",
                 kApidPort));
  }
  auto name = lowerCase(target);
  if (name == "localhost") return ThisNode();
  for (auto& own : self.names) {
    if (own == name) return ThisNode();
  }
  for (auto& member : self.members) {
    if (member.name == name && member.addresses.size() > 0) return addressOf(member, self);
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", target, "\" is neither the name of this node nor of a member of its cluster ",
               "(`talosctl get members`); use the IP address"));
}

}  // namespace talos::apid
