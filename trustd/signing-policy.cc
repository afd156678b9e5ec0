#include "trustd/signing-policy.h"

#include "common/base/error.h"
#include "common/base/texts.h"
#include "common/net/text-values.h"
#include "common/tls/node-certificate.h"

namespace talos::trustd {
namespace {

bool isBelow(kj::StringPtr name, kj::StringPtr parent) {
  return name.size() > parent.size() && name.endsWith(parent) &&
         name[name.size() - parent.size() - 1] == '.';
}

[[noreturn]] void deny(kj::String why) {
  fail(ErrorKind::kPermissionDenied, why);
}

void checkName(kj::StringPtr name, const Ip& caller, const Reserved& reserved, const NameBook& book,
               kj::Date now, kj::Date until) {
  // canonicalName() took one dot off; with a second one it would pass for another name than it is.
  if (!config::isDnsName(name) || name.endsWith(".")) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request names \"", name, "\", which is not a valid host name"));
  }
  for (auto& other : reserved.names) {
    if (name == other || isBelow(name, other)) {
      deny(kj::str("the name ", name, " belongs to the control plane"));
    }
  }
  KJ_IF_MAYBE (holder, book.holder(name, caller, now, until)) {
    deny(kj::str("the name ", name, " has a valid certificate for ", holder->toString(),
                 "; two nodes cannot have the same host name"));
  }
}

// ::ffff:10.0.0.1: an address of IPv4 in other words, which are none of a machine.
bool isMapped(const Ip& address) {
  static const auto kMapped = KJ_ASSERT_NONNULL(Prefix::parse("::ffff:0:0/96"));
  return kMapped.contains(address);
}

void checkAddress(const Ip& address, const Ip& caller, const Reserved& reserved, bool anyAddress) {
  for (auto& other : reserved.addresses) {
    if (address == other && address != caller) {
      deny(kj::str("the address ", address.toString(), " belongs to the control plane"));
    }
  }
  if (address == caller) return;
  if (address.isAny() || address.isLoopback() || address.isMulticast() || isMapped(address)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request names ", address.toString(), ", which is not an address of a node"));
  }
  if (!anyAddress) {
    deny(kj::str("the request names the address ", address.toString(), ", but comes from ",
                 caller.toString(), "; only the address that a node calls from is signed"));
  }
}

}  // namespace

Reserved reservedBy(kj::ArrayPtr<const kj::String> hosts, kj::StringPtr dnsDomain) {
  Reserved result;
  for (auto& host : hosts) {
    KJ_IF_MAYBE (address, Ip::parse(host)) {
      result.addresses.add(*address);
    } else if (host.size() > 0) {
      // A wildcard covers names below it.
      addOnce(result.names, canonicalName(host.startsWith("*.") ? host.slice(2) : host));
    }
  }
  for (auto service : {"localhost"_kj, "kubernetes"_kj, "kubernetes.default"_kj}) {
    addOnce(result.names, kj::str(service));
  }
  addOnce(result.names, kj::str("kubernetes.default.svc"));
  if (dnsDomain.size() > 0) addOnce(result.names, canonicalName(dnsDomain));
  return result;
}

kj::Maybe<Ip> NameBook::holder(kj::StringPtr name, const Ip& asking, kj::Date from,
                               kj::Date until) const {
  KJ_IF_MAYBE (entry, entries.find(name)) {
    bool valid = entry->from < until && from < entry->until;
    if (valid && entry->holder != asking) return entry->holder;
  }
  return nullptr;
}

void NameBook::makeRoom() {
  const kj::String* first = nullptr;
  kj::Date earliest = kj::UNIX_EPOCH;
  for (auto& row : entries) {
    if (first == nullptr || row.value.until < earliest) {
      first = &row.key;
      earliest = row.value.until;
    }
  }
  if (first != nullptr) entries.erase(kj::str(*first));
}

void NameBook::enter(kj::StringPtr name, const Ip& holder, kj::Date from, kj::Date until) {
  KJ_IF_MAYBE (entry, entries.find(name)) {
    if (until >= entry->until || entry->from >= until) *entry = Entry{holder, from, until};
    return;
  }
  if (entries.size() >= most) makeRoom();
  entries.insert(kj::str(name), Entry{holder, from, until});
}

Grant judge(const pki::RequestInfo& request, const Ip& caller, const Reserved& reserved,
            const NameBook& book, bool anyAddress, kj::Date now, kj::Date until) {
  if (request.keyType != pki::KeyType::kEd25519 && request.keyType != pki::KeyType::kEcdsaP256) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request's key is ",
                 request.keyType == nullptr ? "on another curve than P-256" : "RSA",
                 "; use Ed25519 or ECDSA P-256"));
  }
  if (request.dnsNames.size() + request.addresses.size() > kMostNames) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the request has ", request.dnsNames.size() + request.addresses.size(),
                 " names and addresses; at most ", kMostNames));
  }
  Grant grant;
  bool named = false;
  for (auto& text : request.addresses) {
    auto address = KJ_UNWRAP_OR(Ip::parse(text), {
      fail(ErrorKind::kInvalidArgument,
           kj::str("the request names \"", text, "\", which is not a valid address"));
    });
    checkAddress(address, caller, reserved, anyAddress);
    named = named || address == caller;
    addOnce(grant.addresses, address.toString());
  }
  if (!named && !anyAddress) {
    deny(kj::str("the request does not name ", caller.toString(),
                 ", the address that it comes from"));
  }
  if (grant.addresses.empty()) {
    fail(ErrorKind::kInvalidArgument, "the request names no address");
  }
  for (auto& text : request.dnsNames) {
    auto name = canonicalName(text);
    checkName(name, caller, reserved, book, now, until);
    addOnce(grant.dnsNames, kj::mv(name));
  }
  return grant;
}

}  // namespace talos::trustd
