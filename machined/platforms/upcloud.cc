// UpCloud: "Metadata service" of its documentation.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Request kFacts[] = {{"metadata"_kj, "/metadata/v1.json"_kj, true}};

bool matches(const Firmware& firmware) {
  return firmware.vendor == "UpCloud";
}

}  // namespace

const Platform kUpcloud{.name = "upcloud"_kj,
                        .title = "UpCloud"_kj,
                        .config = {"user_data"_kj, "/metadata/v1/user_data"_kj},
                        .facts = kFacts,
                        .matches = matches};

}  // namespace talos::platforms
