// Scaleway: "Accessing the metadata of an Instance" of its documentation. User data is given only
// to clients whose port is below 1024.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr kj::StringPtr kScalewayMetadata[] = {"169.254.42.42"_kj, "fd00:42::42"_kj};

constexpr kj::StringPtr kServer = "http://169.254.42.42"_kj;

constexpr Request kScalewayFacts[] = {{"metadata"_kj, "/conf?format=json"_kj, true}};

bool isScaleway(const Firmware& firmware) {
  return firmware.vendor == "Scaleway";
}

}  // namespace

const Platform kScaleway{.name = "scaleway"_kj,
                         .title = "Scaleway"_kj,
                         .consoles = "tty1 ttyS0"_kj,
                         .server = kServer,
                         .metadata = kScalewayMetadata,
                         .config = {"cloud-init"_kj, "/user_data/cloud-init"_kj},
                         .facts = kScalewayFacts,
                         .lowPort = true,
                         .matches = isScaleway};

}  // namespace talos::platforms
