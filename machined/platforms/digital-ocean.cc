// DigitalOcean: "Droplet Metadata API" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kDigitalOceanFacts[] = {{"metadata"_kj, "/metadata/v1.json"_kj, true}};

bool isDigitalOcean(const Firmware& firmware) {
  return firmware.vendor == "DigitalOcean";
}

}  // namespace

const Platform kDigitalOcean{.name = "digital-ocean"_kj,
                             .title = "DigitalOcean"_kj,
                             .consoles = "ttyS0 tty0 tty1"_kj,
                             .config = {"user-data"_kj, "/metadata/v1/user-data"_kj},
                             .facts = kDigitalOceanFacts,
                             .matches = isDigitalOcean};

}  // namespace talos::platforms
