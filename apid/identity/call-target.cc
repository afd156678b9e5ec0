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

bool isFirstLabel(kj::StringPtr label, kj::StringPtr name) {
  return label.findFirst('.') == nullptr && name.size() > label.size() &&
         name[label.size()] == '.' && name.startsWith(label);
}

[[noreturn]] void refuseName(kj::StringPtr name, const KnownMember& one, const KnownMember& other) {
  fail(ErrorKind::kFailedPrecondition,
       kj::str("\"", name, "\" can be the node \"", one.name, "\" or \"", other.name,
               "\"; use the IP address of the node that you mean"));
}

// Finds a member by its whole name, or its first label. But a worker whose name is the first label
// of a control plane's is not called by this name.
kj::Maybe<const KnownMember&> memberWith(kj::StringPtr name, const Self& self) {
  const KnownMember *whole = nullptr, *first = nullptr, *second = nullptr;
  for (auto& member : self.members) {
    if (member.name == name) whole = &member;
    if (!isFirstLabel(name, member.name)) continue;
    if (first == nullptr || (member.controlPlane && !first->controlPlane)) {
      second = first;
      first = &member;
    } else {
      second = &member;
    }
  }
  if (whole != nullptr) {
    if (first != nullptr && first->controlPlane && !whole->controlPlane) {
      refuseName(name, *whole, *first);
    }
    return *whole;
  }
  if (second != nullptr) refuseName(name, *first, *second);
  if (first != nullptr) return *first;
  return nullptr;
}

// Returns the address to dial for a member's name.
Ip addressOf(const KnownMember& member, const Self& self) {
  auto& address = member.addresses[0];
  auto refuse = [&](kj::StringPtr other) {
    fail(ErrorKind::kFailedPrecondition,
         kj::str("\"", member.name, "\" has the address ", address.toString(), ", which ", other,
                 " has as well; use the IP address of the node that you mean"));
  };
  if (hasAddress(self.addresses, address)) refuse("this node");
  for (auto& other : self.members) {
    if (&other == &member || (member.controlPlane && !other.controlPlane)) continue;
    if (hasAddress(other.addresses, address)) {
      refuse(kj::str("\"", other.name, "\""));
    }
  }
  return address;
}

}  // namespace

kj::OneOf<ThisNode, OtherNode> resolveTarget(kj::StringPtr target, const Self& self) {
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
    return OtherNode(address);
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
  KJ_IF_MAYBE (member, memberWith(name, self)) {
    if (member->addresses.size() > 0) {
      return OtherNode(addressOf(*member, self), kj::str(member->name), member->controlPlane);
    }
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("\"", target, "\" is neither the name of this node nor of a member of its cluster ",
               "(`talosctl get members`); use the IP address"));
}

kj::Maybe<kj::String> identityError(const OtherNode& node, const ShownCertificate& shown) {
  if (node.name.size() == 0) return nullptr;
  auto address = node.address.toString();
  KJ_IF_MAYBE (error, shown.verificationError) {
    if (!node.controlPlane) return nullptr;
    return kj::str("the identity of ", address, " is not verified (", *error,
                   "), so no call for the control-plane node \"", node.name,
                   "\" is sent to it; use -n ", address, " to query its status");
  }
  bool named = false;
  for (auto& name : shown.names) named = named || name == node.name;
  if (!named) {
    return kj::str("the certificate of ", address, " lacks the name \"", node.name,
                   "\", so no call for this node is sent to it; use -n ", address,
                   " if you mean the node at this address, and see `talosctl -n ", address,
                   " get joinstatuses` for the names that trustd refused");
  }
  if (node.controlPlane && !shown.controlPlane) {
    return kj::str("the certificate of ", address, " is a worker's, so no call for the ",
                   "control-plane node \"", node.name, "\" is sent to it; use -n ", address,
                   " if you mean the node at this address");
  }
  return nullptr;
}

}  // namespace talos::apid
