// Akamai (Linode): "Metadata service API" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Header kHeaders[] = {{"Accept"_kj, "application/json"_kj}};
constexpr Token kToken{.target = "/v1/token"_kj,
                       .lifetime = {"Metadata-Token-Expiry-Seconds"_kj, "3600"_kj},
                       .header = "Metadata-Token"_kj,
                       .list = true};

constexpr Request kFacts[] = {{"instance"_kj, "/v1/instance"_kj, true},
                              {"network"_kj, "/v1/network"_kj}};

bool matches(const Firmware& firmware) {
  return firmware.vendor == "Akamai" || firmware.vendor == "Linode";
}

}  // namespace

const Platform kAkamai{.name = "akamai"_kj,
                       .title = "Akamai"_kj,
                       .headers = kHeaders,
                       .token = &kToken,
                       .config = {"user-data"_kj, "/v1/user-data"_kj},
                       .encoding = Encoding::kBase64,
                       .facts = kFacts,
                       .matches = matches};

}  // namespace talos::platforms
