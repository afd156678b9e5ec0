#include "common/tls/node-certificate.h"

#include <algorithm>

#include "common/net/ip.h"
#include "common/net/text-values.h"
#include "common/text/ascii.h"
#include "common/text/texts.h"

namespace talos {
namespace {

constexpr kj::StringPtr kLoopback = "127.0.0.1"_kj;

void tidy(kj::Vector<kj::String>& list) {
  std::sort(list.begin(), list.end());
  kj::Vector<kj::String> unique;
  for (auto& text : list) {
    if (unique.empty() || unique.back() != text) unique.add(kj::mv(text));
  }
  list = kj::mv(unique);
}

bool same(kj::ArrayPtr<const kj::String> sorted, kj::ArrayPtr<const kj::String> others) {
  kj::Vector<kj::String> copy;
  for (auto& text : others) copy.add(kj::str(text));
  tidy(copy);
  return std::equal(sorted.begin(), sorted.end(), copy.begin(), copy.end());
}

}  // namespace

kj::String canonicalName(kj::StringPtr name) {
  return lowerCase(kj::heapString(name.slice(0, name.size() - (name.endsWith(".") ? 1 : 0))));
}

NodeNames nodeNames(kj::StringPtr hostname, kj::StringPtr domain,
                    kj::ArrayPtr<const kj::String> nodeAddresses,
                    kj::ArrayPtr<const kj::String> certSans) {
  NodeNames names;
  auto add = [&](kj::StringPtr text) {
    KJ_IF_MAYBE (ip, Ip::parse(text)) {
      if (!ip->isAny()) names.addresses.add(ip->toString());
    } else if (config::isDnsName(text)) {
      names.dns.add(canonicalName(text));
    }
  };
  for (auto text : {"localhost"_kj, kLoopback, "::1"_kj}) add(text);
  if (hostname.size() > 0) {
    add(hostname);
    names.commonName = domain.size() > 0 ? kj::str(hostname, ".", domain) : kj::str(hostname);
    if (domain.size() > 0) add(names.commonName);
  }
  for (auto& address : nodeAddresses) {
    auto slash = address.findFirst('/').orDefault(address.size());
    add(kj::heapString(address.begin(), slash));
  }
  for (auto& san : certSans) add(san);
  tidy(names.dns);
  tidy(names.addresses);
  return names;
}

bool isOfControlPlane(const pki::CertificateInfo& certificate) {
  for (auto& address : certificate.addresses) {
    if (address == kLoopback) return true;
  }
  return false;
}

pki::LeafOptions serverOptions(const NodeNames& names, kj::Duration lifetime, kj::Date now) {
  return {.commonName = names.commonName,
          .dnsNames = copyOf(names.dns),
          .addresses = copyOf(names.addresses),
          .server = true,
          .client = false,
          .lifetime = lifetime + kBackdated,
          .notBefore = now - kBackdated};
}

kj::Date halfLife(const pki::CertificateInfo& info) {
  auto made = info.notBefore + kBackdated;
  return made + (info.notAfter - made) / 2;
}

kj::Maybe<kj::StringPtr> renewalCause(const pki::CertificateInfo& info, kj::Duration lifetime,
                                      kj::Date now) {
  // Certificates count in seconds.
  auto difference = info.notAfter - info.notBefore - (lifetime + kBackdated);
  if (difference > 1 * kj::SECONDS || difference < -1 * kj::SECONDS) {
    return "its lifetime in the config changed"_kj;
  }
  if (now >= halfLife(info)) return "half of its lifetime has passed"_kj;
  if (now < info.notBefore) return "it is not yet valid: the clock was set back"_kj;
  return nullptr;
}

kj::Maybe<kj::StringPtr> renewalCause(const pki::CertificateInfo& info, const NodeNames& names,
                                      kj::Duration lifetime, kj::Date now) {
  if (info.commonName != names.commonName || !same(names.dns, info.dnsNames) ||
      !same(names.addresses, info.addresses)) {
    return "the names of this node changed"_kj;
  }
  return renewalCause(info, lifetime, now);
}

}  // namespace talos
