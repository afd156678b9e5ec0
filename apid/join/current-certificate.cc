#include "apid/join/current-certificate.h"

#include <algorithm>

#include "common/text/texts.h"
#include "common/tls/authorities.h"
#include "common/tls/node-certificate.h"

namespace talos::apid {
namespace {

bool isListed(const kj::Vector<Ip>& addresses, const Ip& address) {
  return std::find(addresses.begin(), addresses.end(), address) != addresses.end();
}

bool inside(const kj::Vector<kj::String>& part, const kj::Vector<kj::String>& whole) {
  return std::all_of(part.begin(), part.end(),
                     [&](const kj::String& text) { return contains(whole, text); });
}

}  // namespace

kj::Maybe<kj::Date> CurrentCertificate::now() const {
  if (clockSet) return clock.now();
  return nullptr;
}

CurrentCertificate::Life CurrentCertificate::lifeOf(const pki::CertificateInfo& info) {
  auto issued = info.notBefore + kBackdated;
  if (issued >= info.notAfter) issued = info.notBefore;
  return {info.notBefore, info.notAfter, info.notAfter - issued, issued};
}

kj::Duration CurrentCertificate::untilRenewal(const Life& life) const {
  auto part = int64_t(double(life.length / kj::NANOSECONDS) * renewalShare) * kj::NANOSECONDS;
  if (clockSet) return life.issued + part - clock.now();
  return receivedAt + part - timer.now();
}

bool CurrentCertificate::isValid(const Life& life) const {
  if (!clockSet) return true;
  auto at = clock.now();
  return at >= life.notBefore && at < life.notAfter;
}

bool CurrentCertificate::isOfOther(const JoinConfig& config) const {
  KJ_IF_MAYBE (held, identity) return apid::isOfOther(*held, config);
  return false;
}

bool CurrentCertificate::isOwn(kj::StringPtr address) const {
  auto parsed = Ip::parse(address);
  return parsed.map([&](Ip ip) { return isListed(addresses, ip.unmapped()); }).orDefault(false);
}

// Returns true if it is of a CA that the config names, and for an address of this node.
bool CurrentCertificate::isUsable(const Identity& held, const pki::CertificateInfo& info,
                                  const JoinConfig& config) const {
  if (apid::isOfOther(held, config) && !pki::isSignedByAny(held.certificate, config.accepted)) {
    return false;
  }
  return addresses.empty() || std::any_of(info.addresses.begin(), info.addresses.end(),
                                          [&](auto& address) { return isOwn(address); });
}

// Returns true if it has the content that the config and the node's addresses require.
bool CurrentCertificate::matches(const Identity& held, const pki::CertificateInfo& info,
                                 const JoinConfig& config) const {
  if (!isUsable(held, info, config)) return false;
  if (granted != Names::kAll) return inside(dnsNamesOf(config, granted), info.dnsNames);
  for (auto& address : info.addresses) {
    if (addresses.size() > 0 && !isOwn(address) && !contains(config.addresses, address)) {
      return false;
    }
  }
  return inside(config.addresses, info.addresses) && inside(config.dnsNames, info.dnsNames) &&
         inside(info.dnsNames, config.dnsNames);
}

kj::Maybe<kj::Duration> CurrentCertificate::untilNextRequest(const JoinConfig& config) const {
  KJ_IF_MAYBE (held, identity) {
    if (stale) return nullptr;
    kj::Maybe<kj::Duration> left;
    kj::runCatchingExceptions([&] {  // a malformed certificate counts as missing
      auto info = pki::inspect(held->certificate);
      auto life = lifeOf(info);
      auto rest = untilRenewal(life);
      if (isValid(life) && rest > 0 * kj::SECONDS && matches(*held, info, config)) left = rest;
    });
    return left;
  }
  return nullptr;
}

bool CurrentCertificate::hasNames(const JoinConfig& config) const {
  bool result = false;
  KJ_IF_MAYBE (held, identity) {
    kj::runCatchingExceptions([&] {
      auto info = pki::inspect(held->certificate);
      result = isValid(lifeOf(info)) && info.dnsNames.size() > 0 && isUsable(*held, info, config);
    });
  }
  return result;
}

kj::Array<Ip> CurrentCertificate::provable() const {
  kj::Vector<Ip> result;
  for (auto& address : addresses) {
    if (!address.isLoopback() && !address.isLinkLocal()) result.add(address);
  }
  return result.releaseAsArray();
}

bool CurrentCertificate::hasNewAddress(const Identity& held) const {
  auto info = pki::inspect(held.certificate);
  for (auto& address : provable()) {
    if (!isListed(attempted, address) && !contains(info.addresses, address.toString())) {
      return true;
    }
  }
  return false;
}

bool CurrentCertificate::hasNewAddress() const {
  KJ_IF_MAYBE (held, identity) {
    bool result = false;
    kj::runCatchingExceptions([&] { result = hasNewAddress(*held); });
    return result;
  }
  return false;
}

}  // namespace talos::apid
