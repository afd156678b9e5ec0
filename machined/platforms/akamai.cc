// Akamai (Linode): "Metadata service API" of its documentation.
#include "machined/platforms/document.h"
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

void read(const Answers& answers, PlatformFacts& facts) {
  Document document("instance", answers.bytes("instance"));
  auto root = document.root();
  facts.hostname = kj::str(root["label"].text());
  facts.region = kj::str(root["region"].text());
  facts.instanceType = kj::str(root["type"].text());
  facts.instanceId = kj::str(root["id"].text());
  facts.providerId = kj::str("linode://", facts.instanceId);
  if (!answers.has("network")) return;
  Document network("network", answers.bytes("network"));
  auto four = network.root()["ipv4"], six = network.root()["ipv6"];
  auto& link = facts.interfaceOf("", "eth0");
  // Its lease has the default route.
  link.dhcp4 = true;
  auto add = [&](Value entry, bool isPublic) {
    KJ_IF_MAYBE (prefix, prefixOf(entry.text())) {
      link.addresses.add(*prefix);
      if (isPublic) facts.external(prefix->address.toString());
    } else {
      facts.problem("\"", entry.text(), "\" is no address; it is left out");
    }
  };
  for (auto entry : four["public"].items()) add(entry, true);
  for (auto entry : four["private"].items()) add(entry, false);
  // Routers give the machine's address; ranges are routed to it, and no address of it.
  KJ_IF_MAYBE (prefix, prefixOf(six["slaac"].text())) {
    facts.external(prefix->address.toString());
  }
}

}  // namespace

const Platform kAkamai{.name = "akamai"_kj,
                       .title = "Akamai"_kj,
                       .headers = kHeaders,
                       .token = &kToken,
                       .config = {"user-data"_kj, "/v1/user-data"_kj},
                       .encoding = Encoding::kBase64,
                       .facts = kFacts,
                       .matches = matches,
                       .read = read};

}  // namespace talos::platforms
