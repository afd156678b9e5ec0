// Oracle Cloud Infrastructure: "Instance Metadata" of its documentation, version 2.
#include "machined/platforms/document.h"
#include "machined/platforms/platform.h"

namespace talos::platforms {
namespace {

constexpr Header kHeaders[] = {{"Authorization"_kj, "Bearer Oracle"_kj}};

constexpr Request kFacts[] = {{"instance"_kj, "/opc/v2/instance/"_kj, true},
                              {"vnics"_kj, "/opc/v2/vnics/"_kj}};

bool matches(const Firmware& firmware) {
  return firmware.chassisTag == "OracleCloud.com";
}

void readNetwork(Document& vnics, PlatformFacts& facts) {
  unsigned index = 0;
  for (auto entry : vnics.root().items()) {
    auto name = kj::str("eth", index++);
    auto gateway = Ip::parse(entry["ipv6VirtualRouterIp"].text());
    if (gateway == nullptr || entry["ipv6SubnetCidrBlock"].text().size() == 0) continue;
    auto& link = facts.interfaceOf(entry["macAddr"].text(), name);
    link.dhcp4 = link.dhcp6 = true;
    link.defaultRoute(KJ_ASSERT_NONNULL(gateway), kRouteMetric6);
  }
}

void read(const Answers& answers, PlatformFacts& facts) {
  Document document("instance", answers.bytes("instance"));
  auto root = document.root();
  facts.hostname = kj::str(root["hostname"].text());
  facts.region = kj::str(root["region"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.instanceType = kj::str(root["shape"].text());
  // "EMIr:PHX-AD-1"
  auto domain = root["availabilityDomain"].text();
  KJ_IF_MAYBE (colon, domain.findLast(':')) domain = domain.slice(*colon + 1);
  facts.zone = kj::str(domain);
  facts.providerId = kj::str("oci://", facts.instanceId);
  facts.resolver("169.254.169.254");
  facts.timeServers.add(kj::str("169.254.169.254"));
  if (!answers.has("vnics")) return;
  Document vnics("vnics", answers.bytes("vnics"));
  readNetwork(vnics, facts);
}

}  // namespace

const Platform kOracle{.name = "oracle"_kj,
                       .title = "Oracle Cloud Infrastructure"_kj,
                       .headers = kHeaders,
                       .config = {"user_data"_kj, "/opc/v2/instance/metadata/user_data"_kj},
                       .encoding = Encoding::kBase64OrNone,
                       .facts = kFacts,
                       .matches = matches,
                       .read = read};

}  // namespace talos::platforms
