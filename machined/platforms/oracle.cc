// Oracle Cloud Infrastructure: "Instance Metadata" of its documentation, version 2.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr kj::StringPtr kOracleMetadata[] = {"169.254.169.254"_kj, "fd00:c1::a9fe:a9fe"_kj};

constexpr Header kOracleHeaders[] = {{"Authorization"_kj, "Bearer Oracle"_kj}};

constexpr Request kOracleFacts[] = {{"instance"_kj, "/opc/v2/instance/"_kj, true},
                                    {"vnics"_kj, "/opc/v2/vnics/"_kj}};

bool isOracle(const Firmware& firmware) {
  return firmware.chassisTag == "OracleCloud.com";
}

}  // namespace

const Platform kOracle{.name = "oracle"_kj,
                       .title = "Oracle Cloud Infrastructure"_kj,
                       .consoles = "tty1 ttyS0"_kj,
                       .metadata = kOracleMetadata,
                       .headers = kOracleHeaders,
                       .config = {"user_data"_kj, "/opc/v2/instance/metadata/user_data"_kj},
                       .encoding = Encoding::kBase64OrNone,
                       .facts = kOracleFacts,
                       .matches = isOracle};

}  // namespace talos::platforms
