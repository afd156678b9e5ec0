// Oracle Cloud Infrastructure: "Instance Metadata" of its documentation, version 2.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Header kHeaders[] = {{"Authorization"_kj, "Bearer Oracle"_kj}};

constexpr Request kFacts[] = {{"instance"_kj, "/opc/v2/instance/"_kj, true},
                              {"vnics"_kj, "/opc/v2/vnics/"_kj}};

bool matches(const Firmware& firmware) {
  return firmware.chassisTag == "OracleCloud.com";
}

}  // namespace

const Platform kOracle{.name = "oracle"_kj,
                       .title = "Oracle Cloud Infrastructure"_kj,
                       .headers = kHeaders,
                       .config = {"user_data"_kj, "/opc/v2/instance/metadata/user_data"_kj},
                       .encoding = Encoding::kBase64OrNone,
                       .facts = kFacts,
                       .matches = matches};

}  // namespace talos::platforms
