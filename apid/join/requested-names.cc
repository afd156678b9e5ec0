#include "apid/join/requested-names.h"

#include "common/text/texts.h"
#include "common/tls/node-certificate.h"

namespace talos::apid {

kj::Vector<kj::String> dnsNamesOf(const JoinConfig& config, Names names) {
  auto full = canonicalName(config.commonName);
  auto host = kj::heapString(full.slice(0, full.findFirst('.').orDefault(full.size())));
  kj::Vector<kj::String> result;
  for (auto& name : config.dnsNames) {
    if (names == Names::kAll || (names < Names::kAddresses && name == host) ||
        (names == Names::kHostNames && name == full)) {
      result.add(kj::str(name));
    }
  }
  return result;
}

Names lessThan(const JoinConfig& config, Names names) {
  auto size = dnsNamesOf(config, names).size();
  for (auto less : {Names::kHostNames, Names::kHostName}) {
    if (less <= names) continue;
    auto left = dnsNamesOf(config, less).size();
    bool same = left == size && (names != Names::kAll || config.addresses.empty());
    if (left > 0 && !same) return less;
  }
  return Names::kAddress;
}

kj::StringPtr describe(Names names) {
  switch (names) {
    case Names::kAll:
      return "all names";
    case Names::kHostNames:
      return "the host name, with and without its domain, and the address";
    case Names::kHostName:
      return "the host name and the address";
    case Names::kAddresses:
      return "the addresses";
    case Names::kAddress:
      return "the address";
  }
  KJ_UNREACHABLE;
}

kj::String certificateRequest(const JoinConfig& config, Names requested, kj::StringPtr key,
                              const Ip& local, kj::ArrayPtr<const Ip> proven) {
  pki::LeafOptions options;
  kj::Vector<kj::String> all;
  all.add(local.toString());
  for (auto& address : proven) addOnce(all, address.toString());
  auto names = dnsNamesOf(config, requested);
  if (requested == Names::kAll || requested == Names::kHostNames) {
    options.commonName = config.commonName;
  } else if (names.size() > 0) {
    options.commonName = names[0];
  }
  options.dnsNames = copyOf(names);
  if (requested == Names::kAll) {
    for (auto& address : config.addresses) addOnce(all, kj::str(address));
  }
  options.addresses = all.releaseAsArray();
  return pki::makeRequest(key, options);
}

}  // namespace talos::apid
