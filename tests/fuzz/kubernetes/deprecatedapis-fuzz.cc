// link: talosctl-upgrade-k8s
// Metrics of an API server, as `talosctl upgrade-k8s` reads them.
#include <kj/debug.h>
#include <stddef.h>
#include <stdint.h>

#include "talosctl/upgrade-k8s/upgrade-hazards.h"
#include "tests/fuzz/fuzz-target.h"

FUZZ_TARGET(deprecatedapis) {
  using namespace talos::talosctl;
  auto text = kj::heapString(reinterpret_cast<const char*>(data), size);
  kj::Vector<DeprecatedApi> apis;
  addRequested(apis, text, "a");
  auto count = apis.size();
  addRequested(apis, text, "a");
  KJ_ASSERT(apis.size() == count && count <= kMostDeprecatedApis);
  for (auto& api : apis) KJ_ASSERT(api.servers.size() == 1 && api.name().size() > 0);
  return 0;
}
