#include "machined/platforms/readers/opennebula.h"

#include "common/base/lines.h"
#include "common/text/ascii.h"
#include "machined/platforms/readers/readers.h"

namespace talos::platforms {
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

}  // namespace talos::platforms
