// Exoscale: "Querying instance metadata" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kExoscaleFacts[] = {{"hostname"_kj, "/1.0/meta-data/local-hostname"_kj},
                                      {"offering"_kj, "/1.0/meta-data/service-offering"_kj},
                                      {"instance-id"_kj, "/1.0/meta-data/instance-id"_kj, true},
                                      {"public-ipv4"_kj, "/1.0/meta-data/public-ipv4"_kj},
                                      {"zone"_kj, "/1.0/meta-data/availability-zone"_kj}};

bool isExoscale(const Firmware& firmware) {
  return firmware.product.startsWith("Exoscale");
}

}  // namespace

const Platform kExoscale{.name = "exoscale"_kj,
                         .title = "Exoscale"_kj,
                         .consoles = "tty1 ttyS0"_kj,
                         .config = {"user-data"_kj, "/1.0/user-data"_kj},
                         .facts = kExoscaleFacts,
                         .matches = isExoscale};

}  // namespace talos::platforms
