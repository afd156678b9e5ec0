// Vultr: "Vultr Metadata" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kVultrFacts[] = {{"metadata"_kj, "/v1.json"_kj, true}};

bool isVultr(const Firmware& firmware) {
  return firmware.vendor == "Vultr";
}

}  // namespace

const Platform kVultr{.name = "vultr"_kj,
                      .title = "Vultr"_kj,
                      .config = {"user-data"_kj, "/latest/user-data"_kj},
                      .facts = kVultrFacts,
                      .matches = isVultr};

}  // namespace talos::platforms
