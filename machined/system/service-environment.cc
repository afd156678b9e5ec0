#include "machined/system/service-environment.h"

#include <string.h>
#include <strings.h>

#include "common/base/service-variables.h"

namespace talos::machined {
namespace {

bool isProxy(kj::StringPtr key) {
  for (auto name : {"http_proxy", "https_proxy", "no_proxy"}) {
    if (strcasecmp(key.cStr(), name) == 0) return true;
  }
  return false;
}

// Returns the key with its '='.
kj::ArrayPtr<const char> keyOf(kj::ArrayPtr<const char> entry) {
  for (auto i : kj::indices(entry)) {
    if (entry[i] == '=') return entry.slice(0, i + 1);
  }
  return entry;
}

}  // namespace

kj::Vector<kj::String> serviceEnvironment(kj::StringPtr service, config::Machine::Reader machine) {
  kj::Vector<kj::String> result;
  for (auto variable : machine.getEnv()) {
    kj::StringPtr key = variable.getKey(), value = variable.getValue();
    if (service == "apid" && isProxy(key)) continue;
    // The config's check refuses a NUL; the process would get another value.
    if (strlen(key.cStr()) != key.size() || strlen(value.cStr()) != value.size()) continue;
    result.add(kj::str(key, "=", value));
  }
  return result;
}

kj::Array<kj::String> joinEnvironment(kj::ArrayPtr<const kj::String> own,
                                      kj::ArrayPtr<const kj::String> users) {
  kj::Vector<kj::String> result;
  for (auto& entry : own) result.add(kj::str(entry));
  for (auto& entry : users) {
    bool taken = false;
    for (auto& o : own) taken = taken || keyOf(o) == keyOf(entry);
    if (!taken) result.add(kj::str(entry));
  }
  return result.releaseAsArray();
}

bool hasEnvironment(kj::StringPtr service, kj::ArrayPtr<const char> environ,
                    kj::ArrayPtr<const kj::String> users) {
  for (auto& wanted : users) {
    auto key = keyOf(wanted);
    bool byNode = isSetByNode(service, kj::heapString(key.slice(0, key.size() - 1)));
    bool found = false;
    for (size_t at = 0; at < environ.size() && !found;) {
      size_t size = strnlen(environ.begin() + at, environ.size() - at);
      auto entry = environ.slice(at, at + size);
      found = entry == wanted.asArray() || (byNode && keyOf(entry) == key);
      at += size + 1;
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace talos::machined
