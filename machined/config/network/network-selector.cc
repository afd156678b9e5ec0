#include "machined/config/network/network-selector.h"

#include <ctype.h>

#include <algorithm>

namespace talos::machined {

namespace {

// Matches `*` with any characters, also none. Linear but for the last star, the only one that it
// goes back to.
bool matchesPattern(kj::StringPtr text, kj::StringPtr pattern) {
  size_t t = 0, p = 0, star = SIZE_MAX, from = 0;
  auto same = [](char a, char b) { return tolower(a) == tolower(b); };
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      from = t;
    } else if (p < pattern.size() && same(pattern[p], text[t])) {
      ++p;
      ++t;
    } else if (star != SIZE_MAX) {
      p = star + 1;
      t = ++from;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

}  // namespace

bool matches(config::DeviceSelector::Reader selector, const KnownLink& link) {
  if (link.loopback || link.made || (selector.getPhysical() && !link.hardware)) return false;
  auto fits = [](kj::StringPtr pattern, kj::StringPtr value) {
    return pattern.size() == 0 || (value.size() > 0 && matchesPattern(value, pattern));
  };
  return fits(selector.getBusPath(), link.busPath) &&
         fits(selector.getHardwareAddr(), link.hardwareAddress) &&
         fits(selector.getPermanentAddr(), link.permanentAddress) &&
         fits(selector.getPciID(), link.pciId) && fits(selector.getDriver(), link.driver);
}

kj::String describe(config::DeviceSelector::Reader selector) {
  kj::Vector<kj::String> parts;
  auto part = [&](kj::StringPtr key, kj::StringPtr value) {
    if (value.size() > 0) parts.add(kj::str(key, "=", value));
  };
  part("busPath", selector.getBusPath());
  part("hardwareAddr", selector.getHardwareAddr());
  part("permanentAddr", selector.getPermanentAddr());
  part("pciID", selector.getPciID());
  part("driver", selector.getDriver());
  if (selector.getPhysical()) parts.add(kj::str("physical"));
  return kj::strArray(parts, ",");
}

kj::Maybe<kj::StringPtr> choose(config::DeviceSelector::Reader selector,
                                kj::ArrayPtr<const KnownLink> links, kj::String& problem) {
  kj::Vector<kj::StringPtr> found;
  for (auto& link : links) {
    if (matches(selector, link)) found.add(link.name);
  }
  if (found.size() == 1) return found[0];
  auto text = describe(selector);
  if (found.size() == 0) {
    problem = kj::str("deviceSelector ", text, ": no such link");
  } else {
    problem = kj::str("deviceSelector ", text, ": ", kj::strArray(found, ", "),
                      " match; add keys until only one matches");
  }
  return nullptr;
}

kj::Vector<kj::StringPtr> selectedBy(config::LinkAlias::Reader alias,
                                     kj::ArrayPtr<const KnownLink> links) {
  kj::Vector<kj::StringPtr> found;
  for (auto& link : links) {
    bool selected = false;
    for (auto selector : alias.getSelectors()) selected = selected || matches(selector, link);
    if (selected) found.add(link.name);
  }
  return found;
}

kj::Maybe<kj::String> linkCalled(kj::StringPtr name, capnp::List<config::LinkAlias>::Reader aliases,
                                 kj::ArrayPtr<const KnownLink> links, kj::String& problem) {
  for (auto& link : links) {
    if (link.name == name) return kj::str(name);
  }
  for (auto alias : aliases) {
    if (alias.getName() != name) continue;
    if (links.size() == 0) return nullptr;
    auto found = selectedBy(alias, links);
    if (found.size() == 1) return kj::str(found[0]);
    problem = found.size() == 0 ? kj::str("LinkAliasConfig ", name, ": no such link")
                                : kj::str("LinkAliasConfig ", name, ": ", kj::strArray(found, ", "),
                                          " match; add conditions until only one matches");
    return nullptr;
  }
  return kj::str(name);
}

kj::String cardOfKernel(kj::String name, kj::ArrayPtr<const KnownLink> links) {
  constexpr kj::StringPtr kUsual = "eth"_kj;
  if (!name.startsWith(kUsual)) return name;
  kj::Vector<const KnownLink*> cards;
  for (auto& link : links) {
    if (link.name == name) return name;
    if (link.hardware && !link.made) cards.add(&link);
  }
  std::sort(cards.begin(), cards.end(), [](auto a, auto b) { return a->index < b->index; });
  KJ_IF_MAYBE (number, name.slice(kUsual.size()).tryParseAs<uint32_t>()) {
    if (*number < cards.size()) return kj::str(cards[*number]->name);
  }
  return name;
}

}  // namespace talos::machined
