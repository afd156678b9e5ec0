// UpCloud: "Metadata service" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kUpcloudFacts[] = {{"metadata"_kj, "/metadata/v1.json"_kj, true}};

bool isUpcloud(const Firmware& firmware) {
  return firmware.vendor == "UpCloud";
}

}  // namespace

const Platform kUpcloud{.name = "upcloud"_kj,
                        .title = "UpCloud"_kj,
                        .config = {"user_data"_kj, "/metadata/v1/user_data"_kj},
                        .facts = kUpcloudFacts,
                        .matches = isUpcloud};

}  // namespace talos::platforms
