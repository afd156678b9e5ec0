#include <kj/encoding.h>

#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "machined/platforms/readers/opennebula.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
namespace {

void readContextInterface(const Context& context, unsigned index, PlatformFacts& facts) {
  auto of = [&](kj::StringPtr key) { return context.value(kj::str("ETH", index, "_", key)); };
  auto mac = of("MAC");
  if (mac.size() == 0) return;
  auto& link = facts.interfaceOf(mac, kj::str("eth", index));
  link.mtu = of("MTU").tryParseAs<unsigned>().orDefault(0);
  if (of("METHOD") == "dhcp") link.dhcp4 = true;
  KJ_IF_MAYBE (prefix, prefixOf(of("IP"), of("MASK"))) {
    link.addresses.add(*prefix);
  } else {
    if (of("IP").size() > 0) facts.problem("ETH", index, "_IP \"", of("IP"), "\" is no address");
  }
  KJ_IF_MAYBE (gateway, Ip::parse(of("GATEWAY"))) {
    link.defaultRoute(*gateway, kRouteMetric);
  }
  auto servers = of("DNS");
  while (servers.size() > 0) {
    auto end = servers.findFirst(' ').orDefault(servers.size());
    facts.resolver(kj::heapString(servers.slice(0, end)));
    servers = end < servers.size() ? servers.slice(end + 1) : kj::StringPtr();
  }
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
    readContextInterface(context, index, facts);
}

Context::Context(kj::ArrayPtr<const char> text) {
  for (auto line : Lines(text)) {
    auto entry = kj::heapString(line);
    size_t equals = KJ_UNWRAP_OR(entry.findFirst('='), continue);
    auto value = kj::str(entry.slice(equals + 1));
    for (char quote : {'"', '\''}) {
      bool quoted = value.size() >= 2 && value[0] == quote && value[value.size() - 1] == quote;
      if (quoted) value = kj::heapString(value.slice(1, value.size() - 1));
    }
    if (entries.size() < kMostEntries) {
      entries.add(Entry{kj::heapString(entry.slice(0, equals)), kj::mv(value)});
    }
  }
}

kj::StringPtr Context::value(kj::StringPtr key) const {
  for (auto& entry : entries) {
    if (entry.key == key) return entry.value;
  }
  return "";
}

}  // namespace talos::platforms
