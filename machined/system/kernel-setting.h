// Common to machine.kernel.modules, sysfs and sysctls: the owner of the kernel, and problems that
// are reported once.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

#include "rpc/config.capnp.h"

namespace talos::machined {

// In a container the kernel is the host's, but for its network namespace.
enum class KernelScope { kAll, kNetwork };

struct WantedSetting {
  kj::String key;  // as the config names it
  kj::String value;
};
inline kj::Vector<WantedSetting> wantedSettings(capnp::List<config::StringPair>::Reader pairs) {
  kj::Vector<WantedSetting> result;
  for (auto pair : pairs) {
    result.add(WantedSetting{kj::str(pair.getKey()), kj::str(pair.getValue())});
  }
  return result;
}

struct SettingProblems {
  kj::Vector<kj::String> list;  // settings that were not made as configured, one line each
  bool news = false;            // differs from the last call
  bool retry = false;           // another attempt may succeed
};

class LastProblems {
 public:
  SettingProblems report(kj::Vector<kj::String> list, bool retry) {
    auto text = kj::strArray(list, "\n");
    bool news = text != last;
    last = kj::mv(text);
    retry = retry && !list.empty();
    return {kj::mv(list), news, retry};
  }

 private:
  kj::String last;
};

}  // namespace talos::machined
