// Akamai (Linode): "Metadata service API" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr kj::StringPtr kAkamaiMetadata[] = {"169.254.169.254"_kj, "fd00:a9fe:a9fe::1"_kj};

constexpr Header kAkamaiHeaders[] = {{"Accept"_kj, "application/json"_kj}};
constexpr Token kAkamaiToken{.target = "/v1/token"_kj,
                             .lifetime = {"Metadata-Token-Expiry-Seconds"_kj, "3600"_kj},
                             .header = "Metadata-Token"_kj,
                             .list = true};

constexpr Request kAkamaiFacts[] = {{"instance"_kj, "/v1/instance"_kj, true},
                                    {"network"_kj, "/v1/network"_kj}};

bool isAkamai(const Firmware& firmware) {
  return firmware.vendor == "Akamai" || firmware.vendor == "Linode";
}

}  // namespace

const Platform kAkamai{.name = "akamai"_kj,
                       .title = "Akamai"_kj,
                       .consoles = "ttyS0 tty0 tty1"_kj,
                       .metadata = kAkamaiMetadata,
                       .headers = kAkamaiHeaders,
                       .token = &kAkamaiToken,
                       .config = {"user-data"_kj, "/v1/user-data"_kj},
                       .encoding = Encoding::kBase64,
                       .facts = kAkamaiFacts,
                       .matches = isAkamai};

}  // namespace talos::platforms
