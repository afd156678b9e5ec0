#include "machined/config/network/network-selector.h"

#include <ctype.h>
#include <kj/vector.h>

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

}  // namespace talos::machined
