#include "machined/config/network/network-selector.h"

#include <ctype.h>
#include <kj/vector.h>

namespace talos::machined {

namespace {

// `*` for any characters, also none. Linear but for the last star: it goes back to that only.
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

bool DeviceSelector::matches(const KnownLink& link) const {
  if (link.loopback || link.made || (physical && !link.hardware)) return false;
  auto holds = [](kj::StringPtr pattern, kj::StringPtr value) {
    return pattern.size() == 0 || (value.size() > 0 && matchesPattern(value, pattern));
  };
  return holds(busPath, link.busPath) && holds(hardwareAddress, link.hardwareAddress) &&
         holds(permanentAddress, link.permanentAddress) && holds(pciId, link.pciId) &&
         holds(driver, link.driver);
}

kj::String DeviceSelector::describe() const {
  kj::Vector<kj::String> parts;
  auto part = [&](kj::StringPtr key, kj::StringPtr value) {
    if (value.size() > 0) parts.add(kj::str(key, "=", value));
  };
  part("busPath", busPath);
  part("hardwareAddr", hardwareAddress);
  part("permanentAddr", permanentAddress);
  part("pciID", pciId);
  part("driver", driver);
  if (physical) parts.add(kj::str("physical"));
  return kj::strArray(parts, ",");
}

kj::Maybe<kj::StringPtr> choose(const DeviceSelector& selector, kj::ArrayPtr<const KnownLink> links,
                                kj::String& problem) {
  kj::Vector<kj::StringPtr> found;
  for (auto& link : links) {
    if (selector.matches(link)) found.add(link.name);
  }
  if (found.size() == 1) return found[0];
  auto text = selector.describe();
  if (found.size() == 0) {
    problem = kj::str("deviceSelector ", text, ": no such link");
  } else {
    problem = kj::str("deviceSelector ", text, ": ", kj::strArray(found, ", "),
                      " match; add keys until only one matches");
  }
  return nullptr;
}

}  // namespace talos::machined
