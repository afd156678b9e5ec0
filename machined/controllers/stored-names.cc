#include "machined/controllers/stored-names.h"

#include "rpc/types.capnp.h"

namespace talos::machined {

kj::Vector<kj::String> storedAddresses(Store& store) {
  kj::Vector<kj::String> result;
  for (auto resource : store.list("", kNodeAddresses)) {
    for (auto text : resource.getSpec().getAs<rpc::NodeAddressSpec>().getAddresses()) {
      auto slash = text.findFirst('/').orDefault(text.size());
      result.add(kj::heapString(text.begin(), slash));
    }
  }
  return result;
}

NodeNames storedNames(Store& store, kj::ArrayPtr<const kj::String> certSans) {
  kj::StringPtr hostname, domain;
  for (auto resource : store.list("", kHostnameSpecs)) {
    auto spec = resource.getSpec().getAs<rpc::HostnameSpecSpec>();
    hostname = spec.getHostname();
    domain = spec.getDomainname();
  }
  return nodeNames(hostname, domain, storedAddresses(store), certSans);
}

}  // namespace talos::machined
