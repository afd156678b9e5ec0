#include "machined/platforms/readers/cloud-network.h"

#include "common/base/error.h"

namespace talos::platforms {

void readCloudNetwork(Value root, PlatformFacts& facts) {
  auto network = root["network"].isMapping() ? root["network"] : root;
  auto version = network["version"];
  switch (version.number()) {
    case 1:
      return readVersion1(network, facts);
    case 2:
      return readVersion2(network, facts);
    default:
      fail(ErrorKind::kInvalidArgument,
           version.exists()
               ? kj::str("network-config: version \"", version.text(), "\" is neither 1 nor 2")
               : kj::str("network-config: there is no key \"version\""));
  }
}

}  // namespace talos::platforms
