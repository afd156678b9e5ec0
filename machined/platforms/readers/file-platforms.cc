#include "machined/platforms/readers/file-platforms.h"

#include "common/base/error.h"
#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "common/text/texts.h"
#include "common/xml/xml.h"
#include "machined/platforms/cloud-config.h"
#include "machined/platforms/readers/cloud-network.h"
#include "machined/platforms/readers/document.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

constexpr unsigned kRouterMetric = 4096;

// Returns "azure://" and the resource, whose group alone is in lower case; empty if it is not a
// resource.
kj::String providerIdOf(kj::StringPtr resource) {
  constexpr kj::StringPtr kGroups = "/resourceGroups/"_kj;
  for (size_t at = 0; at + kGroups.size() < resource.size(); ++at) {
    if (!resource.slice(at).startsWith(kGroups)) continue;
    size_t begin = at + kGroups.size();
    size_t length = KJ_UNWRAP_OR_RETURN(resource.slice(begin).findFirst('/'), kj::String());
    auto group = lowerCase(kj::heapString(resource.slice(begin, begin + length)));
    return kj::str("azure://", kj::heapString(resource.slice(0, begin)), group,
                   resource.slice(begin + length));
  }
  return kj::String();
}

void readCompute(Value root, PlatformFacts& facts) {
  auto location = root["location"].text(), zone = root["zone"].text();
  facts.hostname = kj::str(root["osProfile"]["computerName"].text());
  facts.region = lowerCase(location);
  facts.zone = zone.size() > 0 ? lowerCase(kj::str(location, "-", zone))
                               : kj::str(root["platformFaultDomain"].text());
  facts.instanceType = kj::str(root["vmSize"].text());
  facts.instanceId = kj::str(root["resourceId"].text());
  facts.spot = root["evictionPolicy"].text().size() > 0;
  facts.providerId = providerIdOf(facts.instanceId);
  if (facts.providerId.size() == 0) {
    facts.problem("compute: resourceId \"", facts.instanceId,
                  "\" names no resource group; there is no provider id");
  }
}

void readInterfaces(Value list, PlatformFacts& facts) {
  unsigned index = 0;
  for (auto entry : list.items()) {
    auto name = kj::str("eth", index++);
    for (auto address : entry["ipv4"]["ipAddress"].items()) {
      facts.external(address["publicIpAddress"].text());
    }
    auto sixes = entry["ipv6"]["ipAddress"].items();
    for (auto address : sixes) facts.external(address["publicIpAddress"].text());
    if (sixes.empty()) continue;
    auto& link = facts.interfaceOf(entry["macAddress"].text(), name);
    link.dhcp4 = link.dhcp6 = true;
    facts.addDefaultRoute(link, Ip::require("fe80::1234:5678:9abc"), kRouterMetric);
  }
}

// Returns "[2001:db8::1]" without its brackets, and an IPv4 address unchanged.
kj::String withoutBrackets(kj::StringPtr text) {
  bool bracketed = text.startsWith("[") && text.endsWith("]");
  return bracketed ? kj::heapString(text.slice(1, text.size() - 1)) : kj::str(text);
}

constexpr size_t kMostIdentifier = 128;

}  // namespace

void readAzure(const Answers& answers, PlatformFacts& facts) {
  Document compute("compute", answers.bytes("compute"));
  readCompute(compute.root(), facts);
  if (answers.has("interfaces")) {
    Document interfaces("interface", answers.bytes("interfaces"));
    readInterfaces(interfaces.root(), facts);
  }
  if (!answers.has("loadbalancer")) return;
  Document balancer("loadbalancer", answers.bytes("loadbalancer"));
  for (auto entry : balancer.root()["loadbalancer"]["publicIpAddresses"].items()) {
    facts.external(withoutBrackets(entry["frontendIpAddress"].text()));
  }
}

kj::Array<char> azureCustomData(kj::ArrayPtr<const char> ovfEnvironment) {
  return textOf("CustomData", "ovf-env.xml", ovfEnvironment);
}

kj::String azureReadyReport(kj::ArrayPtr<const char> goalState) {
  auto named = [&](kj::StringPtr element) {
    auto text = textOf(element, "goal state", goalState);
    auto id = kj::heapString(trimmed(text));
    bool good = id.size() > 0 && id.size() <= kMostIdentifier;
    for (unsigned char c : id) good = good && c >= ' ' && c != 0x7f;
    if (!good) {
      fail(ErrorKind::kInvalidArgument, kj::str("goal state: ", element, " is not a text of 1 to ",
                                                kMostIdentifier, " printable characters"));
    }
    return xmlEscaped(id);
  };
  auto incarnation = named("Incarnation"), container = named("ContainerId"),
       instance = named("InstanceId");
  return kj::str(
      "<?xml version=\"1.0\" encoding=\"utf-8\"?><Health><GoalStateIncarnation>", incarnation,
      "</GoalStateIncarnation><Container><ContainerId>", container,
      "</ContainerId><RoleInstanceList><Role><InstanceId>", instance,
      "</InstanceId><Health><State>Ready</State></Health></Role></RoleInstanceList></Container>"
      "</Health>");
}

void readNocloud(const Answers& answers, PlatformFacts& facts) {
  if (answers.has("meta-data")) {
    Document document("meta-data", answers.bytes("meta-data"));
    auto root = document.root();
    auto local = root["local-hostname"].text();
    facts.hostname = kj::str(root["hostname"].exists() ? root["hostname"].text() : local);
    facts.instanceId = kj::str(root["instance-id"].text());
    facts.instanceType = kj::str(root["instance-type"].text());
    facts.providerId = kj::str(root["provider-id"].text());
    facts.region = kj::str(root["region"].text());
    facts.zone = kj::str(root["zone"].text());
    facts.internalDns = kj::str(local);
    facts.externalDns = kj::str(root["public-hostname"].text());
  }
  // Proxmox VE gives the host name only there.
  if (facts.hostname.size() == 0 && isCloudConfig(answers.bytes("user-data"))) {
    Document document("user-data", answers.bytes("user-data"));
    facts.hostname = kj::str(document.root()["hostname"].text());
  }
  if (answers.has("network-config")) {
    Document document("network-config", answers.bytes("network-config"));
    readCloudNetwork(document.root(), facts);
  }
}

namespace {

// Defaults without MASK and IP6_PREFIX_LENGTH, as in the platform's own packages.
constexpr auto kFourMask = "255.255.255.0"_kj, kSixLength = "64"_kj;

// The values of one card: ETH0_….
class ContextCard {
 public:
  ContextCard(const Context& context, unsigned index, PlatformFacts& facts)
      : context(context),
        name(kj::str("eth", index)),
        prefix(kj::str("ETH", index, "_")),
        facts(facts) {}

  void read() {
    auto mac = of("MAC");
    if (mac.size() == 0) return;
    auto& link = facts.interfaceOf(mac, name);
    facts.setMtu(link, of("MTU"));
    readFour(link);
    readSix(link);
    readRoutes(link);
    forEach(of("DNS"), ' ', [&](kj::StringPtr server) { facts.resolver(server); });
    for (auto key : {"SEARCH_DOMAIN"_kj, "METRIC"_kj, "IP6_METRIC"_kj, "ALIAS0_MAC"_kj}) {
      if (of(key).size() > 0) facts.unsupported(name, kj::str(prefix, key));
    }
  }

 private:
  const Context& context;
  kj::String name, prefix;
  PlatformFacts& facts;

  kj::StringPtr of(kj::StringPtr key) { return context.value(kj::str(prefix, key)); }
  kj::StringPtr of(kj::StringPtr key, kj::StringPtr older) {
    auto value = of(key);
    return value.size() > 0 ? value : of(older);
  }

  template <typename Function>
  void forEach(kj::StringPtr list, char between, Function function) {
    while (list.size() > 0) {
      auto end = list.findFirst(between).orDefault(list.size());
      auto item = kj::heapString(trimmed(list.slice(0, end)));
      if (item.size() > 0) function(item);
      list = end < list.size() ? list.slice(end + 1) : kj::StringPtr();
    }
  }

  void readFour(Interface& link) {
    auto method = of("METHOD");
    if (method == "dhcp") link.dhcp4 = true;
    if (method == "skip") return;
    auto mask = of("MASK");
    if (of("IP").size() > 0) facts.addAddress(link, of("IP"), mask.size() > 0 ? mask : kFourMask);
    facts.addDefaultRoute(link, of("GATEWAY"));
  }

  // "auto" needs no action: routers give an address anyway.
  void readSix(Interface& link) {
    auto method = of("IP6_METHOD");
    if (method.size() == 0 && of("METHOD") == "skip") return;
    if (method == "dhcp") link.dhcp6 = true;
    if (method == "disable") facts.unsupported(name, kj::str(prefix, "IP6_METHOD \"disable\""));
    if (method.size() > 0 && method != "static") return;
    auto address = of("IP6", "IPV6"), local = of("IP6_ULA");
    auto length = of("IP6_PREFIX_LENGTH");
    if (address.size() > 0) {
      facts.addAddress(link, address, length.size() > 0 ? length : kSixLength);
    }
    if (local.size() > 0) facts.addAddress(link, local, kSixLength);
    facts.addDefaultRoute(link, of("IP6_GATEWAY", "GATEWAY6"));
  }

  // "10.0.0.0/8 via 192.0.2.1, 10.1.0.0/16 via 192.0.2.2"
  void readRoutes(Interface& link) {
    forEach(of("ROUTES"), ',', [&](kj::StringPtr route) {
      kj::Vector<kj::String> words;
      forEach(route, ' ', [&](kj::StringPtr word) { words.add(kj::str(word)); });
      bool whole = words.size() == 3 && words[1] == "via";
      auto destination = whole ? prefixOf(words[0]) : kj::Maybe<Prefix>();
      auto gateway = whole ? Ip::parse(words[2]) : kj::Maybe<Ip>();
      KJ_IF_MAYBE (to, destination) {
        KJ_IF_MAYBE (ip, gateway) {
          return facts.addRoute(link, Route{to->masked(), *ip, metricOf(*ip)});
        }
      }
      facts.invalid(name, route, "route (<network>/<length> via <gateway>)");
    });
  }
};

bool isEscaped(char c) {
  return c == '"' || c == '\\' || c == '$' || c == '`';
}

// Returns the value at the start of `text`, parsed like a shell: quoted parts may have line breaks.
// Moves `text` to the next line break. A value without its second quote ends with its line.
kj::String takeValue(kj::ArrayPtr<const char>& text) {
  kj::Vector<char> value;
  char quote = 0;
  size_t i = 0;
  for (; i < text.size() && (quote != 0 || text[i] != '\n'); ++i) {
    char c = text[i];
    bool escapes = c == '\\' && i + 1 < text.size() &&
                   (quote == 0 || (quote == '"' && isEscaped(text[i + 1])));
    if (escapes) {
      value.add(text[++i]);
    } else if (c == quote) {
      quote = 0;
    } else if (quote == 0 && (c == '"' || c == '\'')) {
      quote = c;
    } else {
      value.add(c);
    }
  }
  if (quote != 0) {
    auto line = *Lines(text).begin();
    text = text.slice(line.size(), text.size());
    return kj::heapString(line);
  }
  text = text.slice(i, text.size());
  return kj::heapString(value.begin(), value.size());
}

}  // namespace

void readOpennebula(const Answers& answers, PlatformFacts& facts) {
  Context context(answers.bytes("context"));
  for (auto key : {"HOSTNAME"_kj, "SET_HOSTNAME"_kj, "NAME"_kj}) {
    if (facts.hostname.size() == 0) facts.hostname = kj::str(context.value(key));
  }
  facts.instanceId = kj::str(context.value("VMID"));
  if (lowerCase(context.value("NETWORK")) != "yes") return;
  for (unsigned index = 0; index < kMostInterfaces; ++index)
    ContextCard(context, index, facts).read();
}

Context::Context(kj::ArrayPtr<const char> text) {
  while (text.size() > 0 && entries.size() < kMostEntries) {
    auto line = *Lines(text).begin();
    auto key = kj::heapString(line);
    KJ_IF_MAYBE (equals, key.findFirst('=')) {
      text = text.slice(*equals + 1, text.size());
      entries.add(Entry{kj::heapString(key.slice(0, *equals)), takeValue(text)});
      line = *Lines(text).begin();
    }
    text = text.slice(kj::min(line.size() + 1, text.size()), text.size());
  }
}

kj::StringPtr Context::value(kj::StringPtr key) const {
  for (auto& entry : entries) {
    if (entry.key == key) return entry.value;
  }
  return "";
}

void readVmware(const Answers& answers, PlatformFacts& facts) {
  if (!answers.has("metadata")) return;
  Document document("metadata", answers.bytes("metadata"));
  auto root = document.root();
  facts.hostname = kj::str(root["local-hostname"].text());
  facts.instanceId = kj::str(root["instance-id"].text());
  if (root["network"].isMapping()) readCloudNetwork(root, facts);
}

kj::Array<char> ovfProperty(kj::StringPtr key, kj::StringPtr what,
                            kj::ArrayPtr<const char> environment) {
  for (auto& property : elementsCalled("Property", what, environment)) {
    if (property.attribute("key") == key)
      return kj::heapArray(property.attribute("value").asArray());
  }
  return nullptr;
}

kj::Maybe<kj::String> ovfWithout(kj::ArrayPtr<const kj::StringPtr> keys, kj::StringPtr what,
                                 kj::ArrayPtr<const char> environment) {
  bool found = false;
  kj::Vector<kj::String> rest;
  for (auto& property : elementsCalled("Property", what, environment)) {
    auto key = property.attribute("key"), value = property.attribute("value");
    if (contains(keys, key)) {
      found = found || trimmed(value).size() > 0;
    } else {
      rest.add(
          kj::str("<Property key=\"", xmlEscaped(key), "\" value=\"", xmlEscaped(value), "\"/>"));
    }
  }
  if (!found) return nullptr;
  return kj::str("<Environment><PropertySection>", kj::strArray(rest, ""),
                 "</PropertySection></Environment>");
}

}  // namespace talos::platforms
