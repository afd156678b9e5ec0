#include <algorithm>

#include "apid/join/joiner.h"

namespace talos::apid {
namespace {

bool same(const kj::Vector<kj::String>& a, const kj::Vector<kj::String>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

}  // namespace

bool sameConfig(const JoinConfig& a, const JoinConfig& b) {
  return same(a.endpoints, b.endpoints) && kj::StringPtr(a.token) == kj::StringPtr(b.token) &&
         kj::StringPtr(a.key) == kj::StringPtr(b.key) && a.authority == b.authority &&
         a.authorityHash == b.authorityHash && a.accepted == b.accepted &&
         a.commonName == b.commonName && same(a.dnsNames, b.dnsNames) &&
         same(a.addresses, b.addresses);
}

}  // namespace talos::apid
