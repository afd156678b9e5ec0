// Amazon EC2: "Instance metadata and user data" of the Amazon EC2 User Guide, IMDSv2.
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr kj::StringPtr kAwsMetadata[] = {"169.254.169.254"_kj, "fd00:ec2::254"_kj};

constexpr Token kAwsToken{.target = "/latest/api/token"_kj,
                          .lifetime = {"X-aws-ec2-metadata-token-ttl-seconds"_kj, "21600"_kj},
                          .header = "X-aws-ec2-metadata-token"_kj,
                          .optional = true};

constexpr Request kAwsFacts[] = {{"hostname"_kj, "/latest/meta-data/hostname"_kj},
                                 {"instance-type"_kj, "/latest/meta-data/instance-type"_kj},
                                 {"life-cycle"_kj, "/latest/meta-data/instance-life-cycle"_kj},
                                 {"instance-id"_kj, "/latest/meta-data/instance-id"_kj, true},
                                 {"public-ipv4"_kj, "/latest/meta-data/public-ipv4"_kj},
                                 {"ipv6"_kj, "/latest/meta-data/ipv6"_kj},
                                 {"local-hostname"_kj, "/latest/meta-data/local-hostname"_kj},
                                 {"public-hostname"_kj, "/latest/meta-data/public-hostname"_kj},
                                 {"region"_kj, "/latest/meta-data/placement/region"_kj},
                                 {"zone"_kj, "/latest/meta-data/placement/availability-zone"_kj}};

// "ec2…", or the same with the first group's octets in the order of SMBIOS before 2.6.
bool isEc2(kj::StringPtr uuid) {
  constexpr size_t kFirstGroup = 8;
  if (uuid.startsWith("ec2")) return true;
  return uuid.size() > kFirstGroup && uuid[4] == '2' && uuid.slice(6).startsWith("ec");
}

bool isAws(const Firmware& firmware) {
  return firmware.vendor == "Amazon EC2" || isEc2(firmware.uuid);
}

}  // namespace

const Platform kAws{.name = "aws"_kj,
                    .title = "Amazon EC2"_kj,
                    .consoles = "tty1 ttyS0"_kj,
                    .metadata = kAwsMetadata,
                    .token = &kAwsToken,
                    .config = {"user-data"_kj, "/latest/user-data"_kj},
                    .facts = kAwsFacts,
                    .matches = isAws};

}  // namespace talos::platforms
