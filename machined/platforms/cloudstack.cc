// Apache CloudStack: "User-Data and Meta-Data" of its administrator's guide. The server is the
// virtual router, which is also the DNS server that knows the router's name.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kCloudstackFacts[] = {
    {"hostname"_kj, "/latest/meta-data/local-hostname"_kj},
    {"offering"_kj, "/latest/meta-data/service-offering"_kj},
    {"instance-id"_kj, "/latest/meta-data/instance-id"_kj, true},
    {"public-ipv4"_kj, "/latest/meta-data/public-ipv4"_kj},
    {"zone"_kj, "/latest/meta-data/availability-zone"_kj}};

bool isCloudstack(const Firmware& firmware) {
  return firmware.product.startsWith("CloudStack");
}

}  // namespace

const Platform kCloudstack{.name = "cloudstack"_kj,
                           .title = "Apache CloudStack"_kj,
                           .consoles = "tty1 ttyS0"_kj,
                           .server = "http://data-server"_kj,
                           .metadata = nullptr,
                           .config = {"user-data"_kj, "/latest/user-data"_kj},
                           .facts = kCloudstackFacts,
                           .matches = isCloudstack};

}  // namespace talos::platforms
