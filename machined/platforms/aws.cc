// Amazon EC2: "Instance metadata and user data" of the Amazon EC2 User Guide, IMDSv2.
#include "common/text/ascii.h"
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Token kToken{.target = "/latest/api/token"_kj,
                       .lifetime = {"X-aws-ec2-metadata-token-ttl-seconds"_kj, "21600"_kj},
                       .header = "X-aws-ec2-metadata-token"_kj,
                       .optional = true};

constexpr Request kFacts[] = {{"hostname"_kj, "/latest/meta-data/hostname"_kj},
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

bool matches(const Firmware& firmware) {
  return firmware.vendor == "Amazon EC2" || isEc2(firmware.uuid);
}

void read(const Answers& answers, PlatformFacts& facts) {
  facts.hostname = answers.line("hostname");
  facts.instanceType = answers.line("instance-type");
  facts.instanceId = answers.line("instance-id");
  facts.region = answers.line("region");
  facts.zone = answers.line("zone");
  facts.spot = answers.line("life-cycle") == "spot";
  facts.internalDns = answers.line("local-hostname");
  facts.externalDns = answers.line("public-hostname");
  facts.providerId = kj::str("aws:///", facts.zone, "/", facts.instanceId);
  facts.external(answers.line("public-ipv4"));
  facts.external(answers.line("ipv6"));
  // "Amazon Time Sync Service": reachable from every instance.
  facts.timeServers.add(kj::str("169.254.169.123"));
}

}  // namespace

const Platform kAws{.name = "aws"_kj,
                    .title = "Amazon EC2"_kj,
                    .token = &kToken,
                    .config = {"user-data"_kj, "/latest/user-data"_kj},
                    .facts = kFacts,
                    .matches = matches,
                    .read = read};

}  // namespace talos::platforms
